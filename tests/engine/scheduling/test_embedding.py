"""Texts become vectors: each the same as alone, in every way of pooling, beside running answers."""

import asyncio
import json
import math
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest

from engine.engine import Engine
from engine.errors import InvalidRequest, PromptTooLong
from engine.inference.embedding import Pooling, TextsPass, pooling_of
from engine.values.embedding import EmbeddingRequest, Embeddings
from engine.values.events import TextDelta
from engine.values.limits import Limits
from engine.values.request import GenerationRequest, Message
from tests.engine.scheduling.stages import until
from tests.support.asking import run

TEXTS = ("Paris", "The weather in Oslo is fine today. " * 5, "x", "Count from 1 to 3")


def embedded(engine: Engine, *inputs: Any, **wanted: Any) -> Embeddings:
    found: Embeddings = run(engine.embed(EmbeddingRequest(inputs, **wanted)))
    return found


def distance(one: Any, other: Any) -> float:
    return max(abs(a - b) for a, b in zip(one, other, strict=True))


@pytest.fixture(scope="module")
def small_chunks(demo_model_path: Path) -> Iterator[Engine]:
    """An engine that reads a few tokens in one pass."""
    with closing(Engine(Limits(prefill_chunk=24))) as engine:
        run(engine.load(demo_model_path))
        yield engine


def test_each_vector_is_that_of_its_text_alone(engine: Engine, small_chunks: Engine) -> None:
    together = embedded(engine, *TEXTS)
    in_parts = embedded(small_chunks, *TEXTS)
    for place, text in enumerate(TEXTS):
        alone = embedded(engine, text).vectors[0]
        assert distance(together.vectors[place], alone) < 1e-5
        assert distance(in_parts.vectors[place], alone) < 1e-5
        assert math.isclose(math.hypot(*alone), 1.0, rel_tol=1e-5)
    assert len({tuple(vector) for vector in together.vectors}) == len(TEXTS)


def test_short_texts_are_not_padded_to_a_long_one(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, reads = TextsPass.read, []

    def counted(*given: Any) -> int:
        reads.append(read(*given))
        return reads[-1]

    monkeypatch.setattr(TextsPass, "read", counted)
    found = embedded(engine, *["Paris"] * 6, "word " * 50)
    assert sum(reads) <= 2 * sum(found.tokens)


def test_the_vector_is_the_mean_of_the_models_hidden_states(
    engine: Engine, demo_model_path: Path
) -> None:
    from mlx_lm.utils import load

    model, tokenizer = load(str(demo_model_path))[:2]
    ids = tokenizer.encode(TEXTS[3])
    hidden = model.model(mx.array([ids]))[0].mean(axis=0)
    expected = (hidden / mx.linalg.norm(hidden)).tolist()

    found = embedded(engine, TEXTS[3], tuple(ids))
    assert found.tokens == (len(ids), len(ids))
    for vector in found.vectors:
        assert distance(vector, expected) < 1e-5


def test_a_shorter_vector_is_cut_and_scaled_again(engine: Engine) -> None:
    whole = embedded(engine, "Paris").vectors[0]
    short = embedded(engine, "Paris", dimensions=16).vectors[0]
    scale = math.hypot(*whole[:16])
    assert distance(short, [value / scale for value in whole[:16]]) < 1e-6


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (EmbeddingRequest(()), "inputs"),
        (EmbeddingRequest(("a",) * 2049), "inputs"),
        (EmbeddingRequest(((5, 1 << 20),)), "inputs[0][1]"),
        (EmbeddingRequest(("a",), dimensions=0), "dimensions"),
        (EmbeddingRequest(("a",), dimensions=1000), "dimensions"),
    ],
)
def test_what_has_no_vector_is_refused_by_name(
    engine: Engine, request_: EmbeddingRequest, field: str
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        run(engine.embed(request_))
    assert refused.value.field == field


def short_context(demo: Path, folder: Path, **pooling: bool) -> Path:
    """Copy the demo model, with a short context and a file that says how its states are pooled."""
    shutil.copytree(demo, folder)
    config = json.loads((folder / "config.json").read_text())
    config["max_position_embeddings"] = 32
    (folder / "config.json").write_text(json.dumps(config))
    if pooling:
        (folder / "1_Pooling").mkdir()
        (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    return folder


def test_a_text_beyond_the_context_is_refused_or_cut(demo_model_path: Path, tmp_path: Path) -> None:
    with closing(Engine()) as engine:
        run(engine.load(short_context(demo_model_path, tmp_path / "short")))
        with pytest.raises(PromptTooLong) as refused:
            embedded(engine, "a", TEXTS[1])
        assert refused.value.field == "inputs[1]"
        cut = embedded(engine, TEXTS[1], truncates=True)
        assert cut.tokens == (32,)
        again = embedded(engine, TEXTS[1] + "and more", truncates=True)
        assert distance(cut.vectors[0], again.vectors[0]) < 1e-6


@pytest.mark.parametrize(
    ("name", "pooling"),
    [
        ("mlx-community/Qwen3-Embedding-0.6B-4bit", "last"),
        ("Qwen3-0.6B-4bit", "mean"),
    ],
)
def test_a_model_made_for_embeddings_takes_the_last_token(
    tmp_path: Path, name: str, pooling: Pooling
) -> None:
    assert pooling_of(tmp_path, name) == pooling


async def test_an_answer_goes_on_while_texts_are_read(small_chunks: Engine) -> None:
    asked = GenerationRequest(
        messages=(Message("user", "Count from 1 to 60, one number per line"),), max_tokens=60
    )
    answer = await small_chunks.generate(asked)
    reading = asyncio.create_task(small_chunks.embed(EmbeddingRequest((TEXTS[1],) * 4)))
    meanwhile = 0
    async for batch in answer.batches():
        meanwhile += sum(isinstance(one, TextDelta) for one in batch) * (not reading.done())
    assert len((await reading).vectors) == 4
    assert meanwhile > 3


def test_reading_ends_when_nobody_waits(small_chunks: Engine) -> None:
    async def leave() -> None:
        reading = asyncio.create_task(small_chunks.embed(EmbeddingRequest((TEXTS[1],) * 60)))
        await until(lambda: small_chunks.status.waiting > 0)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        await until(lambda: small_chunks.status.waiting == 0)
        found = await small_chunks.embed(EmbeddingRequest(("Paris",)))
        assert len(found.vectors) == 1

    run(asyncio.wait_for(leave(), 60))

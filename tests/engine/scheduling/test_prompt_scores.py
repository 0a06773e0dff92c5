"""The tokens of prompts are scored while they are read; every figure is compared with MLX's own."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx_lm
import pytest

from engine.engine import Engine
from engine.errors import PromptTooLong
from engine.stopping.record import StopKind
from engine.values.events import Event, Finished, PromptProgress
from engine.values.limits import Limits
from engine.values.request import GenerationRequest, Sampling
from engine.values.tokens import PromptScores, PromptScoring, PromptToken
from tests.support.asking import loaded_engine

CHUNK = 24


def ids(length: int, seed: int = 1) -> tuple[int, ...]:
    """Return ids that no tokenizer would make, so that likely and unlikely ones are there."""
    return tuple(
        (seed * 7919 + place * place * 31 + place * 17) % 700 + 3 for place in range(length)
    )


def asked(
    prompt: Sequence[int], start: int = 0, *, max_tokens: int | None = 0, **values: Any
) -> GenerationRequest:
    return GenerationRequest(
        prompt=tuple(prompt),
        sampling=Sampling(temperature=0),
        max_tokens=max_tokens,
        prompt_scoring=PromptScoring(start, values.pop("top", 5)),
        **values,
    )


@pytest.fixture(scope="module")
def plain(demo_model_path: Path) -> Any:
    """The model alone, as mlx-lm loads it."""
    return mlx_lm.load(str(demo_model_path))[0]


@pytest.fixture(scope="module")
def loaded(demo_model_path: Path) -> Any:
    """An engine that reads few tokens per step, and the loop that calls it."""
    with asyncio.Runner() as runner:
        engine = Engine(Limits(prefill_chunk=CHUNK, max_rows=4))
        runner.run(engine.load(demo_model_path))
        yield lambda *requests: runner.run(_answered(engine, requests))
        engine.close()


async def _answered(
    engine: Engine,
    requests: Sequence[GenerationRequest],
) -> list[list[Event]]:
    """Return the events of requests side by side."""

    async def read(request: GenerationRequest) -> list[Event]:
        generation = await engine.generate(request)
        return [event async for event in generation.events()]

    return list(await asyncio.wait_for(asyncio.gather(*map(read, requests)), 60))


def scores_in(events: Sequence[Event]) -> tuple[int, list[PromptToken]]:
    """Return where the scores of an answer begin, and all of them in order."""
    parts = [event for event in events if isinstance(event, PromptScores)]
    for before, part in pairwise(parts):
        assert part.start == before.start + len(before)
    return parts[0].start, [token for part in parts for token in part.tokens()]


def agrees(plain: Any, request: GenerationRequest, events: Sequence[Event]) -> None:
    """Compare every figure with one pass over the whole prompt."""
    assert isinstance(request.prompt, tuple)
    wanted = request.prompt_scoring
    assert wanted is not None
    tokens = list(request.prompt)
    logits = plain(mx.array([tokens]))[0].astype(mx.float32)
    rows: Any = (logits - mx.logsumexp(logits, axis=-1, keepdims=True)).tolist()
    start, found = scores_in(events)
    assert start == wanted.start
    assert [one.token_id for one in found] == tokens[start:]
    for place, one in enumerate(found, start):
        if place == 0:
            assert one == PromptToken(tokens[0], None, None, ())
            continue
        row: list[float] = rows[place - 1]
        ranked = sorted(row, reverse=True)
        assert one.logprob is not None
        assert one.rank is not None
        assert row[tokens[place]] <= ranked[one.rank] + 1e-4
        figures = [(one.logprob, row[tokens[place]])]
        figures += [(value, row[token_id]) for token_id, value in one.top]
        figures += zip([value for _, value in one.top], ranked[: wanted.top], strict=True)
        assert all(abs(figure - expected) < 1e-4 for figure, expected in figures)


@pytest.mark.parametrize("length", [1, 2, CHUNK, CHUNK + 1, CHUNK + 2, 3 * CHUNK + 5])
def test_scores_equal_those_of_one_pass_whatever_the_chunks(
    loaded: Any, plain: Any, length: int
) -> None:
    request = asked(ids(length, length))
    [events] = loaded(request)
    agrees(plain, request, events)


def test_cached_prefix_is_used_up_to_first_scored_token(loaded: Any, plain: Any) -> None:
    prompt = ids(80, 2)
    loaded(asked(prompt))
    for start, cached in ((0, 0), (1, 0), (2, 1), (50, 49), (79, 78)):
        request = asked(prompt, start)
        [events] = loaded(request)
        agrees(plain, request, events)
        assert _end(events).usage.cached_tokens == cached


def test_prompt_scores_in_mixed_batch(loaded: Any, plain: Any) -> None:
    requests = [asked(ids(length, length + 3)) for length in (5, 30, 61, 90)]
    requests[1] = replace(requests[1], max_tokens=40)
    writing = GenerationRequest(prompt=ids(9, 5), max_tokens=60)
    *scored, _ = loaded(*requests, writing)
    for request, events in zip(requests, scored, strict=True):
        agrees(plain, request, events)


def test_zero_max_tokens_reads_and_caches_prompt(loaded: Any) -> None:
    prompt = ids(50, 9)
    request = GenerationRequest(prompt=prompt, max_tokens=0)
    [events] = loaded(request)
    assert {type(event) for event in events} == {PromptProgress, Finished}
    end = _end(events)
    assert (end.stop.kind, end.stop.token_index, end.stop.held) == (StopKind.MAX_TOKENS, None, "")
    assert (end.usage.prompt_tokens, end.usage.output_tokens) == (50, 0)
    [again] = loaded(replace(request, max_tokens=1))
    assert _end(again).usage.cached_tokens == 49


async def test_scoring_prompt_of_context_length(demo_model_path: Path, tmp_path: Path) -> None:
    for file in demo_model_path.iterdir():
        (tmp_path / file.name).symlink_to(file)
    config = json.loads((demo_model_path / "config.json").read_text())
    (tmp_path / "config.json").unlink()
    (tmp_path / "config.json").write_text(json.dumps(config | {"max_position_embeddings": 64}))

    async with loaded_engine(tmp_path) as engine:
        for request in (asked(ids(65)), asked(ids(64), max_tokens=1)):
            with pytest.raises(PromptTooLong):
                await engine.generate(request)
        [events] = await _answered(engine, [asked(ids(64), 61)])
        assert len(scores_in(events)[1]) == 3


def _end(events: Sequence[Event]) -> Finished:
    assert isinstance(events[-1], Finished)
    return events[-1]

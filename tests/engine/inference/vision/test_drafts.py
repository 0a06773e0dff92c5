"""Drafts in answers about pictures: of a model's own head and of a draft model."""

import asyncio
import json
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mlx_vlm")

import mlx.core as mx
from mlx_lm.utils import load_model

from engine.engine import Engine
from engine.inference.speculation.heads import DraftHead
from engine.stopping.rules import StopRules
from engine.values.request import GenerationRequest, Message, Sampling
from engine.values.tokens import TokenOrigin
from tests.support.models.architectures import make_louder
from tests.support.models.assistants import write_assistant
from tests.support.models.draft_heads import published
from tests.support.models.guessing import verify_all_drafts
from tests.support.models.seeing import picture, question, write_seeing_model

RED, BLUE, TALL = picture("red"), picture("blue"), picture("green", (32, 160))
LONG = "one two three four five six seven " * 8
QUESTIONS = (
    (question("Compare them", RED, BLUE, TALL),),
    (question(LONG, BLUE),),
    (question("Why?", RED), Message("assistant", "Walls."), question("And?", TALL)),
    (question("No picture"),),
)


def write_head(folder: Path) -> None:
    """Write a draft head with random weights beside those of a model of Qwen 3.5."""
    model, config = load_model(folder, strict=False)
    mx.random.seed(3)
    head = DraftHead(model, config)
    make_louder(head)
    mx.save_safetensors(str(folder / "mtp.safetensors"), published("qwen3_5", head))


def write_gemma4_assistant(folder: Path, target: Path) -> Path:
    text = json.loads((target / "config.json").read_text())["text_config"]
    same = ("vocab_size", "num_attention_heads", "num_key_value_heads", "head_dim")
    same = (*same, "global_head_dim", "rope_parameters", "sliding_window")
    changed = {name: text[name] for name in same}
    return write_assistant(
        folder / "assistant", "large", backbone_hidden_size=text["hidden_size"], **changed
    )


async def answers(
    engine: Engine, drafts: frozenset[TokenOrigin] = frozenset(), predicted: Sequence[str] = ()
) -> list[Any]:
    """Return the answers to all questions, alone and at once."""
    requests = [
        GenerationRequest(
            messages=messages,
            max_tokens=24,
            sampling=Sampling(temperature=0),
            stops=StopRules(ignore_eos=True),
            drafts=drafts,
            prediction=prediction or None,
        )
        for messages, prediction in zip_longest(QUESTIONS, predicted)
    ]
    alone = [await (await engine.generate(one)).collect() for one in requests]
    begun = [await engine.generate(one) for one in requests]
    return [*alone, *await asyncio.gather(*(one.collect() for one in begun))]


@pytest.mark.filterwarnings("ignore:At least one mel filter:UserWarning")
@pytest.mark.parametrize(
    ("family", "origin"),
    [
        ("qwen3_5", TokenOrigin.HEAD),
        ("qwen3_5", TokenOrigin.DRAFT),
        ("qwen3_5", TokenOrigin.PREDICTION),
        ("qwen3_vl", TokenOrigin.DRAFT),
        ("qwen3_vl", TokenOrigin.PREDICTION),
        ("gemma4", TokenOrigin.DRAFT),
        ("gemma4_both_ways", TokenOrigin.DRAFT),
        ("gemma4_both_ways", TokenOrigin.PREDICTION),
    ],
)
async def test_answers_about_pictures_are_the_same_with_drafts(
    family: str, origin: TokenOrigin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_seeing_model(tmp_path, family)
    if origin is TokenOrigin.HEAD:
        write_head(tmp_path)
    verify_all_drafts(monkeypatch, 4)
    engine = Engine()
    draft = tmp_path if origin is TokenOrigin.DRAFT else None
    if draft is not None and family.startswith("gemma4"):
        draft = write_gemma4_assistant(tmp_path, tmp_path)
    info = await engine.load(tmp_path, draft=draft)
    assert info.can_see
    if origin is TokenOrigin.HEAD:
        assert info.own_head_problem == ""
    plain = await answers(engine)
    given = [one.text for one in plain[: len(QUESTIONS)]]
    drafted = await answers(engine, frozenset({origin}), given)
    assert [one.text for one in drafted] == [one.text for one in plain]
    assert sum(one.finished.speculation.guessed for one in plain) == 0
    assert sum(one.finished.speculation.guessed for one in drafted) > 0
    await engine.aclose()

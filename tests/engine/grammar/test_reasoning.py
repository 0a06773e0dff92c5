"""Reasoning beside a constrained answer: it stays free, and the answer obeys."""

import json
from pathlib import Path

import jsonschema
import pytest

from engine.errors import InvalidRequest
from engine.stopping.record import StopKind
from tests.engine.grammar.forms import CLOSED, OPENED, POINT, TAGS, held
from tests.support.asking import scripted_answer
from tests.support.scripted import TEMPLATE, Stage


@pytest.mark.parametrize(
    ("template", "before", "thought"),
    [
        (OPENED, ["let me", " think", "</think>", "\n\n"], "let me think"),
        (TEMPLATE, ["<think>", "\nhm {", "</think>", "\n\n"], "hm {"),
        (TEMPLATE, [], ""),
    ],
    ids=["the template opens it", "the model opens it", "there is none"],
)
def test_reasoning_stays_free(
    tmp_path: Path, template: str, before: list[str], thought: str
) -> None:
    script = [*before, '{"x":', "7", "}"]
    stage = Stage(tmp_path, {"go": script}, plain=TAGS, template=template)
    answer = scripted_answer(stage, "go", constraint=held(POINT))
    assert (answer.thinking, answer.text) == (thought, '{"x":7}')


def test_prose_after_reasoning_becomes_json(tmp_path: Path) -> None:
    script = ["<think>", "hm", "</think>", "The answer is", " seven"]
    stage = Stage(tmp_path, {"go": script}, plain=TAGS)
    answer = scripted_answer(stage, "go", constraint=held(POINT), max_tokens=80)
    assert answer.thinking == "hm"
    jsonschema.validate(json.loads(answer.text), POINT)


def test_reasoning_cannot_end_the_answer(tmp_path: Path) -> None:
    stage = Stage(tmp_path, {"go": ["hm"]}, plain=TAGS, template=OPENED)  # and then EOS
    answer = scripted_answer(stage, "go", constraint=held(POINT), max_tokens=30)
    assert answer.finished.stop.kind is StopKind.MAX_TOKENS
    assert answer.finished.usage.thinking_tokens == 30


@pytest.mark.parametrize("template", [TEMPLATE, CLOSED])
def test_switched_off_reasoning_is_impossible(tmp_path: Path, template: str) -> None:
    script = ["<think>", "hm", "</think>", '{"x":', "7", "}"]
    stage = Stage(tmp_path, {"go": script}, plain=TAGS, template=template)
    answer = scripted_answer(stage, "go", constraint=held(POINT), thinking=False, max_tokens=80)
    assert answer.thinking == ""
    jsonschema.validate(json.loads(answer.text), POINT)


def test_reasoning_whose_tags_are_several_tokens_is_refused(tmp_path: Path) -> None:
    stage = Stage(
        tmp_path,
        {"go": ["x"]},
        plain=["<|channel>", "<channel|>"],
        template=TEMPLATE,
    )
    with pytest.raises(InvalidRequest, match="tags of several tokens") as refusal:
        scripted_answer(stage, "go", constraint=held(POINT), thinking=True)
    assert refusal.value.field == "thinking"

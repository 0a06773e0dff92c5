"""Constrained answers of models that write Harmony."""

import json
from collections.abc import Sequence
from pathlib import Path

import jsonschema
import pytest

from engine.stopping.record import StopKind
from engine.values.request import ToolChoice
from tests.engine.grammar.forms import ADD, POINT, check_call, held
from tests.support.asking import scripted_answer
from tests.support.models.formats import HARMONY
from tests.support.scripted import Stage

ANALYSIS = ["<|channel|>", "analysis", "<|message|>", "hm {", "<|end|>", "<|start|>", "assistant"]


def harmony(folder: Path, script: Sequence[str | int]) -> Stage:
    stage = Stage(folder, {"go": script}, **HARMONY)
    stage.wrapper.add_eos_token("<|call|>")
    return stage


@pytest.mark.parametrize("analysis", [ANALYSIS, []], ids=["reasons", "does not"])
def test_the_final_message_of_harmony_is_constrained(tmp_path: Path, analysis: list[str]) -> None:
    script = [*analysis, "<|channel|>", "final", "<|message|>", '{"x":', "7", "}", "junk"]
    answer = scripted_answer(harmony(tmp_path, script), "go", constraint=held(POINT))
    assert (answer.thinking, answer.text) == ("hm {" if analysis else "", '{"x":7}')
    assert answer.finished.stop.kind is StopKind.EOS


def test_a_harmony_preamble_gives_way_to_the_json(tmp_path: Path) -> None:
    script = [*ANALYSIS, "<|channel|>", "commentary", "<|message|>", "I will look.", "<|end|>"]
    stage = harmony(tmp_path, script)
    answer = scripted_answer(stage, "go", constraint=held(POINT), max_tokens=200)
    jsonschema.validate(json.loads(answer.text), POINT)


def test_a_harmony_call_can_be_required(tmp_path: Path) -> None:
    script = [*ANALYSIS, "<|channel|>", "final", "<|message|>", "No."]
    choice = ToolChoice("required", "add")
    answer = scripted_answer(
        harmony(tmp_path, script), "go", tools=(ADD,), tool_choice=choice, max_tokens=200
    )
    check_call(answer, ADD)
    assert answer.thinking == "hm {"

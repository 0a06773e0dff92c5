"""Formats of real model families, their tokenizers rebuilt small, through the real pipeline."""

import json
from pathlib import Path

import pytest

from engine.generation import Answer
from engine.stopping.record import StopKind
from tests.support.asking import scripted_answer
from tests.support.models.formats import ADD, FORMATS, tool_template
from tests.support.scripted import Stage


def calling(folder: Path, style: str, *after: str) -> Stage:
    tags, marker, script = FORMATS[style]
    return Stage(
        folder, {"go": ["Sure. ", *script, *after]}, special=tags, template=tool_template(marker)
    )


def check_call(answer: Answer) -> None:
    [call] = answer.tool_calls
    assert (call.name, json.loads(call.arguments)) == ("add", {"a": 1, "b": "x"})
    assert answer.text == "Sure. "
    assert answer.finished.stop.kind is StopKind.TOOL_CALL
    assert answer.finished.unfinished_tool_call == ""


@pytest.mark.parametrize("style", FORMATS)
def test_calls_of_each_style_are_parsed(tmp_path: Path, style: str) -> None:
    check_call(scripted_answer(calling(tmp_path, style), "go", tools=(ADD,)))

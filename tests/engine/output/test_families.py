"""Formats of real model families, their tokenizers rebuilt small, through the real pipeline."""

import json
from pathlib import Path

import pytest

from engine.stopping.record import StopKind
from tests.support.asking import scripted_answer
from tests.support.models.formats import ADD, FORMATS, tool_template
from tests.support.scripted import Stage


@pytest.mark.parametrize("style", FORMATS)
def test_calls_of_each_style_are_parsed(tmp_path: Path, style: str) -> None:
    tags, marker, script = FORMATS[style]
    scripts = {"go": ["Sure. ", *script]}
    stage = Stage(tmp_path, scripts, special=tags, template=tool_template(marker))
    answer = scripted_answer(stage, "go", tools=(ADD,))
    [call] = answer.tool_calls
    assert (call.name, json.loads(call.arguments)) == ("add", {"a": 1, "b": "x"})
    assert answer.text == "Sure. "
    assert answer.finished.stop.kind is StopKind.TOOL_CALL
    assert answer.finished.unfinished_tool_call == ""

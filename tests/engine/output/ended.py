"""Scripts and checks that the tests of endings share."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from engine.scheduling.generation import Answer
from engine.stopping.record import StopKind
from engine.stopping.rules import StopScope
from engine.values.chat import Tool
from tests.engine.output.test_families import FORMATS, tool_template
from tests.support.scripted import Stage

ALL = StopScope.ALL
BOTH = StopScope.TEXT_AND_THINKING
TAGS = ("<think>", "</think>")
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}}}
ADD = Tool("add", "Adds.", SCHEMA)


def calling(folder: Path, style: str, *after: str) -> Stage:
    """Return a model that calls a tool and then says more."""
    tags, marker, script = FORMATS[style]
    return Stage(
        folder, {"go": ["Sure. ", *script, *after]}, special=tags, template=tool_template(marker)
    )


def thinking(folder: Path, script: Sequence[str | int], **options: Any) -> Stage:
    return Stage(folder, {"go": script}, plain=TAGS, **options)


def ended(answer: Answer) -> tuple[StopKind, str | int | None]:
    return answer.finished.stop.kind, answer.finished.stop.value


def check_call(answer: Answer) -> None:
    [call] = answer.tool_calls
    assert (call.name, json.loads(call.arguments)) == ("add", {"a": 1, "b": "x"})
    assert answer.finished.stop.kind is StopKind.TOOL_CALL
    assert answer.finished.unfinished_tool_call == ""


MARKS = ("<|open|>", "<|close|>", "<|sep|>", "<|end_of_msg|>")
OPEN, CLOSE = "<|open|>think<|sep|>", "<|close|>think<|sep|>"
LONG = ["<|open|>", "think", "<|sep|>", "\nhm", "<|close|>", "think", "<|sep|>", "yes"]
ODD = "<|odd|>"


def held_before(folder: Path, *script: str | int, broken: int = 0) -> Stage:
    """Return a model with tags of several tokens that says this, half a character, and ODD."""
    stage = Stage(folder, {"go": [*script, ODD, "x"]}, plain=MARKS, special=[ODD])
    at = stage.scripts["go"].index(stage.id(ODD))
    stage.scripts["go"][at:at] = stage.ids("🚀")[:broken]
    return stage


def opened(end: str) -> str:
    return (
        "{% for m in messages %}<|start|>{{ m.role }}:{{ m.content }}<|end|>{% endfor %}"
        + end
        + "<|go|>"
    )

"""Calls that lack their opening tag, and tags of calls where no tools are offered."""

import json
from pathlib import Path
from typing import Any

import pytest

from engine.generation import Answer
from engine.stopping.record import StopKind
from tests.support.asking import scripted_answer
from tests.support.models.formats import ADD, FORMATS, tool_template
from tests.support.scripted import Stage

OPEN, CLOSE = "<tool_call>", "</tool_call>"
CALL = "<function=add>\n<parameter=b>\nx\n</parameter>\n</function>"
OTHER = "<function=add>\n<parameter=a>\n1\n</parameter>\n</function>"


def answer(folder: Path, *script: str, tools: Any = (ADD,), **values: Any) -> Answer:
    tags, marker, _ = FORMATS["xml"]
    stage = Stage(folder, {"go": script}, plain=tags, template=tool_template(marker))
    return scripted_answer(stage, "go", tools=tools, **values)


def calls(found: Answer) -> list[tuple[str, Any]]:
    return [(call.name, json.loads(call.arguments)) for call in found.tool_calls]


@pytest.mark.parametrize("size", [1, 5, 400])
@pytest.mark.parametrize(
    ("before", "after", "text"),
    [
        ("", [], ""),
        ("Let me see.\n\n", ["\n", CLOSE], "Let me see.\n\n"),
        ("a <function=sub> b <function", ["\nDone."], "a <function=sub> b <functionDone."),
        ("", [f"\n{OTHER}"], ""),
        ("", ["\n", CLOSE, "\n", OPEN, OTHER, CLOSE], ""),
    ],
)
def test_a_call_without_its_opening_tag_is_a_call(
    tmp_path: Path, size: int, before: str, after: list[str], text: str
) -> None:
    script = [before + CALL]
    for part in after:
        script += (
            [part] if part in (OPEN, CLOSE) else [part[i : i + 3] for i in range(0, len(part), 3)]
        )
    script[:1] = [script[0][i : i + size] for i in range(0, len(script[0]), size)]
    found = answer(tmp_path, *script)
    wanted = [("add", {"b": "x"}), ("add", {"a": 1})]
    assert calls(found) == wanted[: 2 if any(OTHER in part for part in after) else 1]
    assert found.text == text
    assert found.finished.stop.kind is StopKind.TOOL_CALL


@pytest.mark.parametrize(
    "raw", ["<function=sub>\n</function>", "<function=add", "<function=add>so"]
)
def test_what_only_looks_like_a_call_is_text(tmp_path: Path, raw: str) -> None:
    found = answer(tmp_path, *raw)
    assert (found.tool_calls, found.text) == ((), raw)


# -- without tools ----------------------------------------------------------------------------


@pytest.mark.parametrize("style", ["json", "xml", "open-ended", "deepseek", "granite"])
def test_without_tools_a_call_is_text_with_its_tags(tmp_path: Path, style: str) -> None:
    tags, marker, script = FORMATS[style]
    stage = Stage(tmp_path, {"go": ["a ", *script]}, plain=tags, template=tool_template(marker))
    found = scripted_answer(stage, "go")
    assert (found.tool_calls, found.text) == ((), "a " + "".join(script))
    assert found.finished.stop.kind is StopKind.EOS
    stopped = scripted_answer(stage, "go", script[0][1:])
    assert (stopped.text, stopped.finished.stop.text_offset) == (f"a {script[0][0]}", 3)

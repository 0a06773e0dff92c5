"""Text that is a call only where tools were offered, as Llama and Gemma write it."""

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.generation import Answer
from engine.output.channels import Beginning, Part, Switch, TagSplitter
from engine.output.families import Family
from engine.stopping.record import Channel, StopKind
from engine.values.request import ToolChoice
from tests.support.asking import scripted_answer
from tests.support.models.formats import ADD, tool_template
from tests.support.random_cases import cases
from tests.support.scripted import Stage

LLAMA = '{"name": function name, "parameters": dictionary}'
TAG = "<|python_tag|>"
CALL = '{"name": "add", "parameters": {"a": "x; }{"}}'
OTHER = '{"type": "function", "name": "sub", "parameters": {}}'


def answer(folder: Path, *script: str, tools: Any = (ADD,), **values: Any) -> Answer:
    stage = Stage(folder, {"go": script}, special=[TAG], template=tool_template(LLAMA))
    return scripted_answer(stage, "go", tools=tools, **values)


def calls(found: Answer) -> list[tuple[str, Any]]:
    return [(call.name, json.loads(call.arguments)) for call in found.tool_calls]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
@pytest.mark.parametrize("before", ["", "\n\n"])
def test_an_answer_that_is_a_call_is_one_however_it_is_cut(
    tmp_path: Path, size: int, before: str
) -> None:
    raw = f"{before}{CALL}; {OTHER}"
    found = answer(tmp_path, *(raw[at : at + size] for at in range(0, len(raw), size)))
    assert calls(found) == [("add", {"a": "x; }{"}), ("sub", {})]
    assert (found.text, found.finished.stop.kind) == ("", StopKind.TOOL_CALL)


@pytest.mark.parametrize(
    "raw",
    [
        '{"name": "Anna", "age": 5}',
        '{"names": ["add"], "parameters": {}}',
        '{"name": "add"}',
        f"Sure: {CALL}",
        f"[{CALL}]",
        "{",
        '{"name": "add", "parameters": [1]}',
    ],
)
def test_other_json_stays_text(tmp_path: Path, raw: str) -> None:
    found = answer(tmp_path, *raw)
    assert (found.tool_calls, found.text) == ((), raw)
    assert found.finished.stop.kind is StopKind.EOS


def test_without_tools_a_call_is_text(tmp_path: Path) -> None:
    assert answer(tmp_path / "a", CALL, tools=()).text == CALL
    assert answer(tmp_path / "b", CALL, tool_choice=ToolChoice("none")).text == CALL


def test_stops_count_in_text_that_was_held_and_not_in_a_call(tmp_path: Path) -> None:
    stage = Stage(
        tmp_path / "a", {"go": ['{"name"', ': "An', 'na"}', " more"]},
        special=[TAG], template=tool_template(LLAMA),
    )  # fmt: skip
    stopped = scripted_answer(stage, "go", "Anna", tools=(ADD,))
    assert (stopped.text, stopped.finished.stop.value) == ('{"name": "', "Anna")
    stage = Stage(tmp_path / "b", {"go": [*CALL]}, special=[TAG], template=tool_template(LLAMA))
    whole = scripted_answer(stage, "go", "add", tools=(ADD,))
    assert whole.finished.stop.kind is StopKind.TOOL_CALL


# -- Gemma 3 ----------------------------------------------------------------------------------

GEMMA = "<start_of_turn>"
FENCED = [
    ("add(a='x) ]', b=[1, {'c': None}])", [("add", {"a": "x) ]", "b": [1, {"c": None}]})]),
    ("print(default_api.add(a=1))", [("add", {"a": 1})]),
    ("[add(a=1), sub()]", [("add", {"a": 1}), ("sub", {})]),
    ("add(a=1)\nsub(b=True)", [("add", {"a": 1}), ("sub", {"b": True})]),
    ("add(1, '```')", [("add", {"a": 1, "b": "```"})]),
]


def gemma(folder: Path, *script: str, tools: Any = (ADD,), **values: Any) -> Answer:
    stage = Stage(folder, {"go": script}, template=tool_template(GEMMA))
    return scripted_answer(stage, "go", tools=tools, **values)


@pytest.mark.parametrize("size", [1, 2, 5, 200])
@pytest.mark.parametrize(("code", "wanted"), FENCED)
def test_python_in_a_fence_is_a_call(
    tmp_path: Path, size: int, code: str, wanted: list[tuple[str, Any]]
) -> None:
    raw = f"Sure.\n```tool_code\n{code}\n```"
    found = gemma(tmp_path, *(raw[at : at + size] for at in range(0, len(raw), size)))
    assert (calls(found), found.text) == (wanted, "Sure.\n")
    assert found.finished.stop.kind is StopKind.TOOL_CALL


@pytest.mark.parametrize("size", [1, 3, 200])
def test_an_answer_that_is_a_list_of_calls_is_calls(tmp_path: Path, size: int) -> None:
    raw = "[add(a='[`'), sub()]\nDone."
    found = gemma(tmp_path, *(raw[at : at + size] for at in range(0, len(raw), size)))
    assert (calls(found), found.text) == ([("add", {"a": "[`"}), ("sub", {})], "Done.")


@pytest.mark.parametrize(
    "raw",
    [
        "[1, 2]", "[add](http://a.b)", "See [add(a=1)]", "[add(1)]", "```python\nadd(a=1)\n```",
        "`add(a=1)`",
    ],
)  # fmt: skip
def test_other_brackets_and_fences_stay_text(tmp_path: Path, raw: str) -> None:
    found = gemma(tmp_path, *raw)
    assert (found.tool_calls, found.text) == ((), raw)


# -- any text, cut anywhere -------------------------------------------------------------------

_BITS = [
    CALL, OTHER, "; ", "\n", "{", '"', "'", "\\", "}", "]", "[add(a=", "1", ")", "text", "(",
    "```tool_code\n", "\n```", "add(a='x')", '{"name": "add", "param',
]  # fmt: skip


def parts(splitter: TagSplitter, pieces: list[str]) -> tuple[list[tuple[Channel, str]], int]:
    """Return the text of each channel in order, and how many characters were separators."""
    found: list[tuple[Channel, str]] = [(Channel.TEXT, "")]
    skipped = 0

    def take(part: Part) -> None:
        nonlocal skipped
        if isinstance(part, Switch):
            found.append((part.to, ""))
            skipped += part.visible
        else:
            found[-1] = (found[-1][0], found[-1][1] + part)

    for piece in pieces:
        for part in splitter.feed(piece):
            take(part)
    take(splitter.finish())
    return found, skipped


@settings(max_examples=cases(150), deadline=None)
@given(st.lists(st.sampled_from(_BITS), max_size=12), st.data(), st.sampled_from(["llama", GEMMA]))
def test_parts_are_the_same_however_the_text_is_cut(
    bits: list[str], data: st.DataObject, name: str
) -> None:
    text = "".join(bits)
    family = (
        Family(tool_start=TAG, call_style="llama")
        if name == "llama"
        else Family(tool_start="```tool_code", tool_end="\n```", call_style="tool_code")
    )
    places = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    pieces = [text[a:b] for a, b in itertools.pairwise([0, *places, len(text)])]
    found, skipped = parts(family.splitter(Beginning()), list(text))
    assert parts(family.splitter(Beginning()), pieces)[0] == found
    assert sum(len(one) for _, one in found) + skipped == len(text)

"""Under scope ``all``: which channel a tag that is a stop names, and when a call is whole."""

from pathlib import Path

import pytest

from engine.stopping.record import Channel, StopKind
from engine.stopping.rules import StopRules
from tests.engine.output.ended import ADD, ALL, TAGS, calling, thinking
from tests.engine.output.test_families import ANALYSIS, FINAL, FORMATS, harmony, tool_template
from tests.support.asking import scripted_answer
from tests.support.scripted import Stage

THINKING, TEXT, TOOL = Channel.THINKING, Channel.TEXT, Channel.TOOL
CALL = ["<|channel|>", "commentary to=functions.add", "<|message|>", '{"a": 1}', "<|call|>"]


@pytest.mark.parametrize(
    ("stop", "text", "thought"), [("<think>", "a ", ""), ("</think>", "a ", "b ")]
)
def test_a_tag_fires_in_the_channel_that_it_opens_or_closes(
    tmp_path: Path, stop: str, text: str, thought: str
) -> None:
    stage = thinking(tmp_path, ["a ", "<think>", "b ", "</think>", "c "])
    answer = scripted_answer(stage, "go", rules=StopRules.of(stop, scope=ALL))
    record = answer.finished.stop
    assert (answer.text, answer.thinking) == (text, thought)
    assert (record.kind, record.value, record.channel) == (StopKind.STOP_STRING, stop, THINKING)
    assert record.text_offset == len(thought)


def test_the_tag_of_a_call_fires_in_the_call(tmp_path: Path) -> None:
    stage = calling(tmp_path, "json")
    record = scripted_answer(
        stage, "go", rules=StopRules.of("<tool_call>", scope=ALL), tools=(ADD,)
    ).finished.stop
    assert (record.kind, record.channel) == (StopKind.STOP_STRING, TOOL)


@pytest.mark.parametrize(
    ("script", "stop", "channel"),
    [
        ([*ANALYSIS, *FINAL, "y"], "<|end|>", THINKING),
        ([*ANALYSIS[:3], "x"], "<|message|>", THINKING),
        (["<|channel|>", "final", "<|message|>", "y"], "<|message|>", TEXT),
        (CALL, "<|message|>", TOOL),
    ],
)
def test_a_header_fires_in_the_channel_that_it_opens_or_closes(
    tmp_path: Path, script: list[str | int], stop: str, channel: Channel
) -> None:
    rules = StopRules.of(stop, scope=ALL)
    record = scripted_answer(harmony(tmp_path, script), "go", rules=rules).finished.stop
    assert (record.kind, record.value, record.channel) == (StopKind.STOP_STRING, stop, channel)


def call_of(folder: Path, *rest: str) -> Stage:
    """Return a model that begins a call of JSON and goes on like this."""
    tags, marker, _ = FORMATS["json"]
    begun = ["<tool_call>", '{"name": "add", "arguments": {"a": 1']
    return Stage(
        folder, {"go": [*begun, *rest]}, special=tags, plain=TAGS, template=tool_template(marker)
    )


@pytest.mark.parametrize("by_id", [False, True])
@pytest.mark.parametrize(
    ("rest", "stop", "keeps", "is_whole"),
    [
        (["}}", "END", "x"], "END", False, True),
        (["}}", "END", "x"], "END", True, True),
        (["}}", "x"], "}}", False, False),
        (["}}", "x"], "}}", True, True),
        ([" END", "}}"], " END", True, False),
    ],
)
def test_a_call_is_whole_as_soon_as_its_text_parses_and_a_kept_stop_is_part_of_it(
    tmp_path: Path, rest: list[str], stop: str, *, keeps: bool, is_whole: bool, by_id: bool
) -> None:
    stage = call_of(tmp_path, *rest)
    if by_id:
        rules = StopRules(token_ids=(stage.id(stop),), scope=ALL, include_stop=keeps)
    else:
        rules = StopRules.of(stop, scope=ALL, include_stop=keeps)
    answer = scripted_answer(stage, "go", rules=rules, tools=(ADD,))
    begun = '{"name": "add", "arguments": {"a": 1'
    if is_whole:
        assert [(call.name, call.arguments) for call in answer.tool_calls] == [("add", '{"a": 1}')]
        assert answer.finished.stop.kind is StopKind.TOOL_CALL
        assert answer.finished.unfinished_tool_call == ""
    else:
        assert answer.tool_calls == ()
        assert answer.finished.stop.kind in (StopKind.STOP_STRING, StopKind.STOP_TOKEN)
        assert answer.finished.unfinished_tool_call == begun + (stop if keeps else "")


@pytest.mark.parametrize("most", [14, 400])
def test_the_end_of_a_call_that_is_an_ignored_eos_closes_the_call_and_nothing_else(
    tmp_path: Path, most: int
) -> None:
    script = [*CALL, "<|start|>", "assistant", *FINAL[-3:], *["x "] * 900]
    stage = harmony(tmp_path, script, "<|call|>")
    length = len(stage.scripts["go"]) - 900
    rules = StopRules(ignore_eos=True)
    answer = scripted_answer(stage, "go", rules=rules, tools=(ADD,), max_tokens=length + most)
    assert [call.name for call in answer.tool_calls] == ["add"]
    assert answer.text == "x " * most
    assert answer.finished.stop.kind is StopKind.MAX_TOKENS

"""Calls that are required, possible beside an answer in JSON, or impossible."""

import json
from pathlib import Path

import pytest

from engine.errors import InvalidRequest
from engine.scheduling.service import Engine
from engine.stopping.record import StopKind
from engine.values.request import Sampling, Tool, ToolChoice
from tests.engine.grammar.forms import (
    ADD,
    CALL_TAGS,
    OPEN,
    OPENED,
    POINT,
    SAY,
    TAGS,
    check_call,
    held,
    json_calls,
)
from tests.support.asking import ask, request, run, scripted_answer
from tests.support.scripted import TEMPLATE, Stage


def test_a_required_call_has_the_arguments_of_its_tool_alone(engine: Engine) -> None:
    tool = Tool("choose", "", OPEN)
    for seed in range(4):
        sampling = Sampling(temperature=1.5, seed=seed)
        wanted = ToolChoice("required")
        answer = run(ask(engine, "Hi", tools=(tool,), tool_choice=wanted, sampling=sampling))
        assert json.loads(answer.tool_calls[0].arguments).keys() == {"name"}


@pytest.mark.parametrize("seed", range(3))
def test_a_required_call_is_a_valid_call_of_one_of_the_tools(engine: Engine, seed: int) -> None:
    answer = run(
        ask(
            engine,
            "Say: hello",
            tools=(ADD, SAY),
            tool_choice=ToolChoice("required"),
            sampling=Sampling(temperature=1.5, seed=seed),
            thinking=False,
            max_tokens=300,
        )
    )
    check_call(answer, ADD, SAY)


@pytest.mark.parametrize("tool", [ADD, SAY], ids=["add", "say"])
def test_a_named_tool_is_the_one_that_is_called(engine: Engine, tool: Tool) -> None:
    choice = ToolChoice("required", tool.name)
    answer = run(
        ask(
            engine,
            "Say: hello",
            tools=(ADD, SAY),
            tool_choice=choice,
            thinking=False,
            max_tokens=300,
        )
    )
    check_call(answer, tool)


def test_a_model_that_prefers_to_talk_has_to_call(tmp_path: Path) -> None:
    stage = json_calls(tmp_path, ["I", " would", " rather", " not"])
    choice = ToolChoice("required", "add")
    answer = scripted_answer(stage, "go", tools=(ADD,), tool_choice=choice, max_tokens=200)
    check_call(answer, ADD)


def test_a_required_call_comes_after_reasoning(tmp_path: Path) -> None:
    # What is forced has the tokens of the tokenizer: one for each letter.
    frame = list('\n{"name": "add", "arguments": {')
    call = ["<tool_call>", *frame, '"a":', "4", "}}\n", "</tool_call>"]
    script = ["hm", "<tool_call>", "hm", "</think>", "\n\n", *call]
    stage = json_calls(tmp_path, script, plain=TAGS, template=OPENED)
    choice = ToolChoice("required")
    answer = scripted_answer(stage, "go", tools=(ADD,), tool_choice=choice, max_tokens=200)
    check_call(answer, ADD)
    assert answer.thinking.startswith("hm")
    assert json.loads(answer.tool_calls[0].arguments) == {"a": 4}


def test_a_required_call_cut_by_the_limit_is_the_limit(tmp_path: Path) -> None:
    stage = json_calls(tmp_path, ["no"])
    choice = ToolChoice("required")
    answer = scripted_answer(stage, "go", tools=(ADD,), tool_choice=choice, max_tokens=9)
    assert (answer.tool_calls, answer.finished.stop.kind) == ((), StopKind.MAX_TOKENS)


@pytest.mark.parametrize(
    ("script", "calls"),
    [
        (['{"x":', "7", "}"], 0),
        (["<tool_call>", '\n{"name": "add", "arguments": {"a":', "4", "}}\n", "</tool_call>"], 1),
    ],
    ids=["answers", "calls"],
)
def test_with_tools_the_model_may_call_or_answer_in_json(
    tmp_path: Path, script: list[str | int], calls: int
) -> None:
    answer = scripted_answer(
        json_calls(tmp_path, script), "go", tools=(ADD,), constraint=held(POINT), max_tokens=200
    )
    assert len(answer.tool_calls) == calls
    assert answer.text == ("" if calls else '{"x":7}')


async def test_tool_choice_none_keeps_the_tools_from_the_prompt(engine: Engine) -> None:
    without = request("Say: hello")
    some = request("Say: hello", tools=(ADD,))
    none = request("Say: hello", tools=(ADD,), tool_choice=ToolChoice("none"))
    counts = [await engine.count_tokens(wanted) for wanted in (without, some, none)]
    (without, some, none) = counts[0], counts[1], counts[2]
    assert none == without
    assert some > without


def test_tool_choice_none_makes_a_call_impossible(tmp_path: Path) -> None:
    call = ["<tool_call>", '\n{"name": "add", "arguments": {"a":', "4", "}}\n", "</tool_call>"]
    stage = json_calls(tmp_path, ["Well. ", *call])
    answer = scripted_answer(stage, "go", tools=(ADD,), tool_choice=ToolChoice("none"))
    assert answer.tool_calls == ()
    assert answer.text.startswith("Well. ")


def test_a_required_call_needs_no_tags_where_the_model_writes_none(tmp_path: Path) -> None:
    marker = '{# {"name": function name, "parameters": dictionary} #}'
    script = ["Well", '{"name": ', '"add", "parameters": ', '{"a":', "4", "}", "}", "; more"]
    stage = Stage(tmp_path, {"go": script}, plain=["<|python_tag|>"], template=TEMPLATE + marker)
    wanted = ToolChoice("required")
    answer = scripted_answer(stage, "go", tools=(ADD,), tool_choice=wanted, max_tokens=200)
    check_call(answer, ADD)
    assert answer.text == ""


@pytest.mark.parametrize(
    ("tags", "marker"),
    [
        (["<|tool_call_start|>", "<|tool_call_end|>"], "<|tool_call_start|>"),
        (CALL_TAGS, "<tool_call>\n<function="),
        ([], ""),
    ],
    ids=["pythonic", "xml", "no calls"],
)
def test_calls_of_another_style_are_refused(tmp_path: Path, tags: list[str], marker: str) -> None:
    stage = Stage(tmp_path, {"go": ["x"]}, plain=tags, template=TEMPLATE + "{# " + marker + " #}")
    with pytest.raises(InvalidRequest, match="JSON between tags") as refusal:
        scripted_answer(stage, "go", tools=(ADD,), tool_choice=ToolChoice("required"))
    assert refusal.value.field == "tool_choice"


def test_a_schema_beside_tools_of_another_style_is_refused(tmp_path: Path) -> None:
    stage = Stage(tmp_path, {"go": ["x"]})
    with pytest.raises(InvalidRequest, match="beside tools") as refusal:
        scripted_answer(stage, "go", tools=(ADD,), constraint=held(POINT))
    assert refusal.value.field == "constraint"

"""Calls that are required, possible beside an answer in JSON, or impossible."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from engine.engine import Engine
from engine.errors import InvalidRequest
from engine.values.request import Sampling, Tool, ToolChoice
from tests.engine.grammar.forms import (
    ADD,
    OPENED,
    POINT,
    SAY,
    TAGS,
    check_call,
    closed,
    held,
    json_calls,
)
from tests.support.asking import ask, run, scripted_answer
from tests.support.scripted import TEMPLATE, Stage


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


@pytest.mark.parametrize("end", [["</think>", "\n\n"], []], ids=["after", "in"])
def test_a_required_call_comes_after_reasoning_or_in_it(tmp_path: Path, end: list[str]) -> None:
    # What is forced has the tokens of the tokenizer: one for each letter.
    frame = list('\n{"name": "add", "arguments": {')
    call = ["<tool_call>", *frame, '"a":', "4", "}}\n", "</tool_call>"]
    script = ["hm", "hm", *end, *call]
    stage = json_calls(tmp_path, script, plain=TAGS, template=OPENED)
    choice = ToolChoice("required")
    answer = scripted_answer(stage, "go", tools=(ADD,), tool_choice=choice, max_tokens=200)
    check_call(answer, ADD)
    assert answer.thinking == "hmhm"
    assert json.loads(answer.tool_calls[0].arguments) == {"a": 4}


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


def test_tool_choice_none_makes_a_call_impossible(tmp_path: Path) -> None:
    call = ["<tool_call>", '\n{"name": "add", "arguments": {"a":', "4", "}}\n", "</tool_call>"]
    stage = json_calls(tmp_path, ["Well. ", *call])
    answer = scripted_answer(stage, "go", tools=(ADD,), tool_choice=ToolChoice("none"))
    assert answer.tool_calls == ()
    assert answer.text.startswith("Well. ")


# What a template shows of a format, and its special tokens.
FORMATS = {
    "gemma4": ("<|tool_call>", "<tool_call|>", '<|"|>'),
    "mistral": ("[TOOL_CALLS]", "[ARGS]"),
    "qwen3_coder": ("<tool_call>", "</tool_call>", "<tool_call>\n<function="),
    "none": (),
}
COUNT = Tool("count", "", closed(
    n={"type": "integer", "minimum": 1, "maximum": 9}, word={"enum": ["to", "from"]},
    is_up={"type": "boolean"}, how={"type": "array", "items": {"enum": [1]}, "maxItems": 1},
    note={"type": "string", "maxLength": 2},
))  # fmt: skip


def stage_of(folder: Path, style: str, script: list[str | int], **options: Any) -> Stage:
    """Return a model that writes its calls in a format."""
    shown = FORMATS[style]
    tokens = [text for text in shown if re.fullmatch(r"[<\[]\S+[>\]]", text)]
    template = TEMPLATE + "{# " + " ".join(shown) + " #}"
    return Stage(folder, {"go": script}, plain=tokens, template=template, **options)


@pytest.mark.parametrize("style", FORMATS)
def test_a_call_is_forced_in_the_format_of_the_model(tmp_path: Path, style: str) -> None:
    stage = stage_of(tmp_path, style, ["I'd rather not"])
    choice = ToolChoice("required", "count" if style == "qwen3_coder" else None)
    tools = (COUNT, ADD) if choice.name else (COUNT,)
    answer = scripted_answer(stage, "go", tools=tools, tool_choice=choice, max_tokens=900)
    check_call(answer, COUNT)


def test_a_forced_call_takes_text_as_the_model_writes_it(tmp_path: Path) -> None:
    say = Tool("say", "", closed(text={"type": "string"}))
    text = 'a "b"\n\n</x> {"c": 1}\n'
    head, end = "\n<function=say>\n<parameter=text>\n", "\n</parameter>\n</function>\n"
    script = ["<tool_call>", *head, *text, *end, "</tool_call>"]
    stage = stage_of(tmp_path, "qwen3_coder", script)
    choice = ToolChoice("required")
    answer = scripted_answer(stage, "go", tools=(say,), tool_choice=choice, max_tokens=900)
    assert json.loads(answer.tool_calls[0].arguments) == {"text": text}


def test_a_tool_that_the_format_cannot_name_is_refused(tmp_path: Path) -> None:
    stage = stage_of(tmp_path, "qwen3_coder", ["x"])
    with pytest.raises(InvalidRequest, match="cannot call a tool named") as refusal:
        scripted_answer(stage, "go", tools=(SAY,), tool_choice=ToolChoice("required"))
    assert refusal.value.field == "tool_choice"

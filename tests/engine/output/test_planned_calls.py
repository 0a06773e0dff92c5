"""A call that reasoning wrote out and the answer did not make is named, and nothing else."""

from pathlib import Path
from typing import Any

import pytest

from engine.output.tool_calls.planned import planned_call
from engine.stopping.record import StopKind
from engine.values.request import GenerationRequest, Message, Tool, ToolCall, ToolChoice
from tests.support.asking import scripted_answer
from tests.support.scripted import Stage

CITY = {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}}
PATH = {"type": "object", "properties": {"path": {"type": "string"}}}
TOOLS = (
    Tool("get_weather", parameters=CITY),
    Tool("read_file", parameters=PATH),
    Tool("write-file", parameters=PATH),
    Tool("list_users"),
)


def planned(thinking: str, kind: StopKind = StopKind.EOS, **fields: Any) -> str | None:
    fields = {"messages": (Message("user", "Hi"),), "tools": TOOLS, **fields}
    has_calls = fields.pop("has_calls", False)
    return planned_call(kind, thinking, GenerationRequest(**fields), has_calls=has_calls)


@pytest.mark.parametrize(
    ("thinking", "name"),
    [
        ('I will call get_weather(city="Paris") now.', "get_weather"),
        ("Let me use `get_weather( days=3, city='Paris')`.", "get_weather"),
        ("get_weather({'city': 'Paris'})", "get_weather"),
        ('{"name": "get_weather", "arguments": {"city": "Paris (France)"}}', "get_weather"),
        ('{"name": "read_file",\n "parameters": {\n  "path": "a.py"\n }\n}', "read_file"),
        ("We need list_users() first.", "list_users"),
        ('{"name": "list_users", "arguments": {}}', "list_users"),
        ('Next: write-file(path="a.txt").', "write-file"),
        ('Call get_weather(city="Rome"). Then read_file(path="x").', "read_file"),
        ('read_file(path="x"), and then get_weather(city="Rome")', "get_weather"),
    ],
)
def test_call_in_the_reasoning_is_named(thinking: str, name: str) -> None:
    assert planned(thinking) == name


@pytest.mark.parametrize(
    "thinking",
    [
        "",
        "I could use get_weather to find out.",
        "get_weather(city) gives the weather, and get_weather(city, days) a forecast.",
        "The signature is get_weather(city: str, days: int).",
        "get_weather()",
        "get_weather (see above) is what I need",
        'The tool get_weathers(city="Paris") does not exist here.',
        'my_get_weather(city="Paris")',
        'weather.get_weather(city="Paris")',
        'get_weather. The path: "a.py"',
        'get_weather(place="Paris")',
        'get_weather(city=="Paris")',
        'read_file exists; write-file takes {"path": "a"}',
    ],
)
def test_tool_that_is_only_mentioned_is_not_named(thinking: str) -> None:
    assert planned(thinking) is None


PLAN = 'I call get_weather(city="Paris").'


@pytest.mark.parametrize(
    ("kind", "fields", "name"),
    [
        (StopKind.STOP_STRING, {}, "get_weather"),
        (StopKind.STOP_TOKEN, {}, "get_weather"),
        (StopKind.MAX_TOKENS, {}, None),
        (StopKind.CANCELLED, {}, None),
        (StopKind.TOOL_CALL, {}, None),
        (StopKind.EOS, {"has_calls": True}, None),
        (StopKind.EOS, {"tools": ()}, None),
        (StopKind.EOS, {"tool_choice": ToolChoice("none")}, None),
    ],
)
def test_end_decides_whether_a_call_is_missing(
    kind: StopKind, fields: dict[str, Any], name: str | None
) -> None:
    assert planned(PLAN, kind, **fields) == name


def test_call_made_since_the_question_is_not_planned() -> None:
    called = Message("assistant", "", tool_calls=(ToolCall("1", "get_weather", "{}"),))
    turns = (Message("user", "Hi"), called, Message("tool", "20", tool_call_id="1"))
    assert planned(PLAN, messages=turns) is None
    assert planned(PLAN, messages=(*turns, Message("user", "And now?"))) == "get_weather"


@pytest.mark.parametrize(
    ("tools", "limit", "name"), [(TOOLS, None, "get_weather"), ((), None, None), (TOOLS, 8, None)]
)
def test_record_names_the_planned_call(
    tmp_path: Path, tools: tuple[Tool, ...], limit: int | None, name: str | None
) -> None:
    script = ["<think>", "I ", "call ", "get_weather", "(city", '="Paris")', "</think>", "A", "B"]
    stage = Stage(tmp_path, {"go": script}, plain=["<think>", "</think>"])
    finished = scripted_answer(stage, "go", tools=tools, max_tokens=limit).finished
    assert finished.details.planned_call == name

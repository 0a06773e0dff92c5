"""Forms that cannot constrain an answer are refused with the reason."""

import math
from typing import Any

import pytest

from engine.errors import InvalidRequest
from engine.scheduling.service import Engine
from engine.values.request import GenerationRequest, Message, Tool, ToolChoice
from tests.engine.grammar.forms import ADD, POINT, SAY, held
from tests.support.asking import ask, run

BAD_SCHEMAS: dict[str, tuple[dict[str, Any], str]] = {
    "unknown type": ({"type": "objekt"}, "objekt"),
    "unsupported keyword": ({"not": {"type": "string"}}, "not supported"),
    "look-around": ({"type": "string", "pattern": "(?=a)b"}, "look-around"),
    "overlapping oneOf": ({"oneOf": [{"type": "integer"}, {"type": "number"}]}, "use anyOf"),
    "remote reference": ({"$ref": "http://127.0.0.1:1/x.json"}, "not present"),
    "missing reference": ({"$ref": "#/$defs/x"}, "does not exist"),
    "unsatisfiable": ({"type": "integer", "minimum": 5, "maximum": 3}, "Unsatisfiable"),
    "reference to itself": (
        {"$ref": "#/$defs/x", "$defs": {"x": {"$ref": "#/$defs/x"}}},
        "no value can satisfy",
    ),
    "not JSON": ({"const": {1, 2}}, "not JSON"),
    "not a number": ({"const": math.nan}, "JSON"),
    "lone surrogate": ({"const": "\ud800"}, "surrogate"),
    "too long": ({"enum": ["x" * 300_000]}, "longer than"),
    "switches of the library": ({"not": {}, "x-guidance": {"lenient": True}}, "not supported"),
}


def too_deep() -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "integer"}
    for _ in range(5000):
        schema = {"type": "array", "items": schema}
    return schema


@pytest.mark.parametrize("name", BAD_SCHEMAS)
def test_a_schema_that_cannot_be_met_is_refused(engine: Engine, name: str) -> None:
    schema, reason = BAD_SCHEMAS[name]
    with pytest.raises(InvalidRequest, match=reason) as refusal:
        run(ask(engine, "Say: x", constraint=held(schema)))
    assert refusal.value.field == "constraint.json_schema"
    assert "\n" not in refusal.value.reason
    assert run(ask(engine, "Say: x", max_tokens=2)).finished.usage.output_tokens > 0


def test_a_schema_nested_without_end_is_refused(engine: Engine) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        run(ask(engine, "Say: x", constraint=held(too_deep())))
    assert refusal.value.field == "constraint.json_schema"


def test_a_bad_schema_of_a_tool_is_named(engine: Engine) -> None:
    bad = Tool("bad", "", {"type": "object", "properties": {"a": {"type": "objekt"}}})
    with pytest.raises(InvalidRequest, match="objekt") as refusal:
        run(ask(engine, "Say: x", tools=(ADD, bad), tool_choice=ToolChoice("required")))
    assert refusal.value.field == "tools.bad.parameters"


@pytest.mark.parametrize(
    ("choice", "tools", "reason"),
    [
        (ToolChoice("required"), (), "there are no tools"),
        (ToolChoice("required", "mul"), (ADD, SAY), "no tool 'mul'"),
        (ToolChoice("auto", "add"), (ADD,), "only where one is required"),
    ],
)
def test_an_impossible_tool_choice_is_refused(
    engine: Engine, choice: ToolChoice, tools: tuple[Tool, ...], reason: str
) -> None:
    with pytest.raises(InvalidRequest, match=reason) as refusal:
        run(ask(engine, "Say: x", tools=tools, tool_choice=choice))
    assert refusal.value.field == "tool_choice"


def test_a_begun_answer_cannot_be_constrained(engine: Engine) -> None:
    turns = (Message("user", "Say: x"), Message("assistant", "Well"))

    async def play() -> None:
        await engine.generate(GenerationRequest(turns, constraint=held(POINT)))

    with pytest.raises(InvalidRequest, match="assistant's") as refusal:
        run(play())
    assert refusal.value.field == "constraint"


def test_tools_that_no_template_can_render_are_named(engine: Engine) -> None:
    schema: dict[str, Any] = {"type": "integer"}
    for _ in range(900):
        schema = {"type": "array", "items": schema}
    tool = Tool("deep", "", {"type": "object", "properties": {"a": schema}})
    with pytest.raises(InvalidRequest, match="nested too deeply for") as refusal:
        run(ask(engine, "Say: x", tools=(ADD, tool)))
    assert refusal.value.field == "tools.deep.parameters"

"""Forms that cannot constrain an answer are refused with the reason."""

import json
from dataclasses import replace
from typing import Any

import pytest

from engine.engine import Engine
from engine.errors import InvalidRequest
from engine.generation import Answer, Generation
from engine.values.request import GenerationRequest, Message, OutputConstraint, Tool, ToolChoice
from tests.engine.grammar.forms import ADD, POINT, SAY, held
from tests.support.asking import ask, request, run

BAD_SCHEMAS: dict[str, tuple[dict[str, Any], str]] = {
    "unknown type": ({"type": "objekt"}, "objekt"),
    "never": ({"not": {}}, "no value can satisfy"),
    "no pattern": ({"type": "string", "pattern": "^hello (there"}, "unclosed group"),
    "a long pattern": ({"type": "string", "pattern": "(" + "a" * 500}, "a{50}….*unclosed group"),
    "remote reference": ({"$ref": "http://127.0.0.1:1/x.json"}, "not present"),
    "reference to itself": (
        {"$ref": "#/$defs/x", "$defs": {"x": {"$ref": "#/$defs/x"}}},
        "no value can satisfy",
    ),
    "not JSON": ({"const": {1, 2}}, "not JSON"),
    "too long": ({"enum": ["x" * 300_000]}, "longer than"),
    "switches of the library": ({"type": "objekt", "x-guidance": {"lenient": True}}, "objekt"),
}


@pytest.mark.parametrize("name", BAD_SCHEMAS)
def test_a_schema_that_cannot_be_met_is_refused(engine: Engine, name: str) -> None:
    schema, reason = BAD_SCHEMAS[name]
    with pytest.raises(InvalidRequest, match=reason) as refusal:
        run(ask(engine, "Say: x", constraint=held(schema)))
    assert refusal.value.field == "constraint.json_schema"
    assert "\n" not in refusal.value.reason
    assert run(ask(engine, "Say: x", max_tokens=2)).finished.usage.output_tokens > 0


def test_a_bad_schema_of_a_tool_is_enforced_as_far_as_it_can_be(engine: Engine) -> None:
    parts = {"a": {"type": "objekt"}, "b": {"type": "integer", "maximum": 9, "minimum": 0}}
    bad = Tool("bad", "", {"properties": parts, "required": ["b"]})
    endless = {"allOf": [{"$ref": "#/$defs/x"}, {"type": "object"}]}
    worse = Tool("worse", "", {**endless, "$defs": {"x": endless}})
    huge = Tool("huge", "", {"properties": {"a": {"minimum": 1e30}}})
    wanted = request(
        "Say: x",
        tools=(ADD, bad, worse, huge),
        tool_choice=ToolChoice("required", "bad"),
        max_tokens=200,
    )

    async def play() -> tuple[Generation, Answer]:
        generation = await engine.generate(wanted)
        return generation, await generation.collect()

    generation, answer = run(play())
    assert set(generation.not_applied) == {
        "tools.bad.parameters.properties.a",
        "tools.worse.parameters",
        "tools.huge.parameters.properties.a",
    }
    assert 0 <= json.loads(answer.tool_calls[0].arguments)["b"] <= 9


@pytest.mark.parametrize(
    ("schema", "keyword"),
    [
        ({"not": {"type": "string"}}, "not"),
        ({"items": {"type": "string", "pattern": "a(?!b)"}}, "items.pattern"),
        ({"properties": {"t": {"contains": {"const": 1}}}}, "properties.t.contains"),
    ],
)
def test_a_keyword_that_cannot_be_enforced_is_named_or_refused_if_strict(
    engine: Engine, schema: dict[str, Any], keyword: str
) -> None:
    async def play(*, is_strict: bool) -> tuple[str, ...]:
        wanted = request("Say: x", constraint=OutputConstraint(schema, is_strict=is_strict))
        generation = await engine.generate(replace(wanted, max_tokens=1))
        await generation.collect()
        return generation.not_applied

    assert run(play(is_strict=False)) == (f"constraint.json_schema.{keyword}",)
    with pytest.raises(InvalidRequest, match=keyword):
        run(play(is_strict=True))


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

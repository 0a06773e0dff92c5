"""Schemas as zod and pydantic write them are accepted, and what follows them is valid."""

import json
import random
from typing import Any

import jsonschema
import pytest

from engine.grammar.compilation import new_matcher, new_tokenizer
from engine.grammar.grammars import answer_grammar, schema_grammar
from engine.grammar.lark_text import speller
from engine.grammar.schemas import prepare_schema
from engine.output.families import Family
from engine.output.tool_calls.parameters import ToolTypes
from engine.values.request import GenerationRequest, Tool, ToolChoice
from tests.support.schemas import PYDANTIC, ZOD, closed, record, text

VALIDATOR = jsonschema.Draft202012Validator
# Written for another draft, which this validator reads in another way.
OTHER_DRAFTS = {"tuple, draft 7", "positive, draft 4", "nullable, OpenAPI 3.0"}
# Sets of which the items may repeat.
LEFT_OUT = {"set of an enum": ("uniqueItems",), "frozenset of booleans": ("uniqueItems",)}
EOS = 256


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    """A vocabulary of bytes."""
    return new_tokenizer([*(bytes([i]) for i in range(EOS)), b"<eos>"], [EOS], [EOS])


def drawn(matcher: Any, draws: random.Random) -> bytes | None:
    """Return a random text of a grammar, which ends where it can; None if it became too long."""
    out = bytearray()
    while len(out) < 300 and not matcher.is_stopped():
        bits = matcher.compute_bitmask()
        able = [token for token in range(EOS + 1) if bits[token >> 3] >> (token & 7) & 1]
        ends = [token for token in able if token in (*b'"]}', EOS)]
        plain = [token for token in able if 32 <= token < 127]
        token = draws.choice(ends if ends and draws.random() < 0.4 else plain or able)
        if token == EOS:
            break
        assert matcher.consume_token(token)
        out.append(token)
    return bytes(out) if matcher.is_accepting() else None


@pytest.mark.parametrize(
    ("library", "name"), [*(("zod", name) for name in ZOD), *(("pydantic", n) for n in PYDANTIC)]
)
def test_a_type_is_accepted_in_full_and_its_values_are_valid(
    tokenizer: Any, library: str, name: str
) -> None:
    schema = {"zod": ZOD, "pydantic": PYDANTIC}[library][name]
    matcher = new_matcher(tokenizer, schema_grammar(schema))
    left_out = LEFT_OUT.get(name, ())
    assert prepare_schema(schema, allows_more_keys=False)[1] == left_out
    checks = VALIDATOR(schema, format_checker=VALIDATOR.FORMAT_CHECKER)
    values = [drawn(matcher.deep_copy(), random.Random(seed)) for seed in range(8)]
    assert any(value is not None for value in values)
    for value in values:
        if value is not None and name not in OTHER_DRAFTS and not left_out:
            checks.validate(json.loads(value))


def takes(tokenizer: Any, schema: dict[str, Any], value: Any) -> bool:
    matcher = new_matcher(tokenizer, schema_grammar(schema))
    ids = list(json.dumps(value).encode())
    return bool(matcher.try_consume_tokens(ids) == len(ids) and matcher.is_accepting())


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        (record(enum=["a", "b"]), {"b": True}, {"c": True}),
        (record(minLength=2), {"ab": True}, {"a": True}),
        (text(pattern="^(?=.*[0-9])(?=.*[A-Z]).{4,}$"), "abC1", "abc1"),
        (text(format="date"), "2024-02-29", "2023-02-29"),
        (text(format="time"), "23:59:59Z", "23:59:60Z"),
        ({"type": "integer", "minimum": 1, "exclusiveMinimum": True}, 2, 1),
        ({"type": "string", "nullable": True}, None, 1),
        ({"$ref": "#/$defs/a", "nullable": True, "$defs": {"a": text()}}, None, 1),
        ({"unevaluatedProperties": False, "properties": {"a": True}}, {"a": 1}, {"b": 1}),
        ({"type": ["string", "null"], "enum": ["a", "b"]}, "a", None),
        ({"const": {"a": [1, None]}}, {"a": [1, None]}, {"a": [1]}),
        (closed(a={"$defs": {"x": text()}}, b={"$ref": "#/properties/a/$defs/x"}),
         {"a": 1, "b": "x"}, {"a": 1, "b": 1}),
    ],
)  # fmt: skip
def test_a_keyword_is_enforced(tokenizer: Any, schema: Any, good: Any, bad: Any) -> None:
    assert takes(tokenizer, schema, good)
    assert not takes(tokenizer, schema, bad)
    assert prepare_schema(schema, allows_more_keys=False)[1] == ()


@pytest.mark.parametrize(
    ("schema", "left_out"),
    [
        ({"if": {"required": ["a"]}, "then": {"required": ["b"]}}, "if"),
        ({"items": {"contains": {"const": 1}}}, "items.contains"),
        ({"anyOf": [{"dependentRequired": {"a": ["b"]}}]}, "anyOf.0.dependentRequired"),
        ({"$defs": {"a": {"propertyNames": {"format": "email"}}}}, "$defs.a.propertyNames"),
        ({"properties": {"a": {}}, "maxProperties": 0}, "maxProperties"),
        ({**record(pattern="^a"), "properties": {"ab": True}}, "propertyNames"),
        (text(pattern=r"^(a)\1$"), "pattern"),
        (text(pattern=r"\bword\b"), "pattern"),
        ({"uniqueItems": False, "contains": {}, "dependentRequired": {}, "not": False}, ""),
        ({"properties": {"not": {}, "uniqueItems": {"const": True}, "format": text()}}, ""),
        (text(pattern=r"^[(?=)]\(\?=[\\b]$"), ""),
    ],
)
def test_a_keyword_that_cannot_be_enforced_is_listed(
    tokenizer: Any, schema: Any, left_out: str
) -> None:
    new_matcher(tokenizer, schema_grammar(schema))
    listed = prepare_schema(schema, allows_more_keys=False)[1]
    assert listed == ((left_out,) if left_out else ())


@pytest.mark.parametrize("keyword", ["anyOf", "oneOf"])
def test_references_that_multiply_are_followed_to_a_bound(keyword: str) -> None:
    parts: dict[str, Any] = {
        f"a{n}": {keyword: [{"$ref": f"#/$defs/a{n + 1}"}] * 3} for n in range(60)
    }
    schema = {"properties": {"p": {"$ref": "#/$defs/a0"}}, "$defs": parts | {"a60": text()}}
    tool = Tool("f", "", schema)
    request = GenerationRequest(tools=(tool,), tool_choice=ToolChoice("required"))
    family = Family(tool_start="<x>", tool_end="</x>", call_style="qwen3_coder")
    assert "call0" in answer_grammar(request, family, speller({}))[0]
    assert ToolTypes([tool]).type_of("f", "p").alternatives

"""What a schema may hold before it reaches native code."""

import math
from typing import Any

import pytest

from engine.grammar.schema_bounds import MAX_PROPERTIES, Bounds
from tests.support.schemas import DEADLY, aliases, chain, optional


def refusal(schema: dict[str, Any]) -> str:
    with pytest.raises(ValueError, match=r".") as refused:
        Bounds().check(schema)
    return str(refused.value)


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "integer"}
    for _ in range(levels):
        schema = {"type": "array", "items": schema}
    return schema


@pytest.mark.parametrize("name", DEADLY)
def test_schemas_that_end_the_compiler_are_out_of_bounds(name: str) -> None:
    assert refusal(DEADLY[name])


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"properties": {"a": {"minimum": 1e30}}}, "minimum at #/properties/a is out of range"),
        ({"items": {"multipleOf": 1e300}}, "multipleOf at #/items is out of range"),
        ({"exclusiveMinimum": 10**5000}, "exclusiveMinimum at # is out of range"),
        ({"maximum": math.inf}, "maximum at # is out of range"),
        ({"const": math.nan}, "cannot be written as JSON"),
        ({"default": 10**400}, "cannot be written as JSON"),
        ({"enum": [{"a": [-1e19]}]}, "the number at #/enum/0/a/0 is out of range"),
        ({"maxItems": 2**31}, "maxItems at # is out of range: numbers from 0 to 2147483647"),
        ({"minLength": -1}, "minLength at # is out of range"),
        ({"pattern": "a" * 4001}, "a pattern at # is longer than 4000 characters"),
        ({"patternProperties": {"a" * 4001: {}}}, "a pattern at # is longer"),
        (nested(101), "at most 100 levels"),
        (nested(100_000), "at most 100 levels"),
        (chain(130), "its references are nested too deeply"),
        (aliases(300), "its references are nested too deeply"),
        ({"anyOf": [{"$ref": "#/x"}] * 2001}, "more than 2000 references"),
        (optional(5001), "more than 5000 properties"),
        ({"patternProperties": {f"a{n}": {} for n in range(101)}}, "more than 100 pattern"),
        ({"items": {"multipleOf": 1.00001}}, "multipleOf at #/items"),
        (DEADLY["multiples of both"], "least common multiple"),
        (DEADLY["20 patterns of one property"], "more than 12 patterns"),
        ({"enum": list(range(10_001))}, "more than 10000 values"),
        ({"examples": [1] * 3_000_000}, "more than 20000 parts"),
        ({"title": "x" * 300_000}, "longer than 262144 characters"),
    ],
)  # fmt: skip
def test_the_refusal_of_a_schema_names_the_bound(schema: dict[str, Any], said: str) -> None:
    assert said in refusal(schema)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "integer", "minimum": -(2**53), "maximum": 2**64},
        {"properties": {"minimum": {"const": 1}, "pattern": {"type": "string"}}},
        {"properties": {"maxItems": True, "enum": {"enum": ["a"]}}},
        {"items": {"$ref": "#"}, "anyOf": [{"$ref": "#/anyOf/1"}, {"$ref": "#/anyOf/0"}]},
        {"$ref": "http://127.0.0.1/elsewhere"},
        {"const": {"minimum": 1, "$ref": 5}},
        {"default": -1e19},
        optional(3000),
        chain(100),
        aliases(100),
        nested(60),
    ],
)
def test_schemas_that_compile_are_within_bounds(schema: dict[str, Any]) -> None:
    Bounds().check(schema)


def test_the_schemas_of_one_request_add_up() -> None:
    bounds = Bounds()
    bounds.check(optional(3000))
    with pytest.raises(ValueError, match=f"more than {MAX_PROPERTIES} properties"):
        bounds.check(optional(3000))

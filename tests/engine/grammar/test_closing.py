"""Objects of a closed schema have only the keys that the schema names."""

import json
from collections.abc import Iterator
from itertools import permutations, product
from pathlib import Path
from typing import Any

import pytest

from engine.grammar.grammars import arguments_schema, schema_grammar
from engine.grammar.schemas import prepare_schema
from engine.values.request import Tool

A = {"type": "integer"}
B = {"type": "string"}
CAT = {"properties": {"kind": {"const": "cat"}, "lives": A}, "required": ["kind"]}
DOG = {"properties": {"kind": {"const": "dog"}, "barks": B}, "required": ["kind"]}
POINT = {"type": "object", "properties": {"x": A, "y": A}, "required": ["x"]}

# A schema, values that stay right, and values that JSON Schema allows and that are off now.
CASES: dict[str, tuple[dict[str, Any], list[Any], list[Any]]] = {
    "no keys": ({"type": "object", "properties": {}}, [{}], [{"a": 1}]),
    "required alone": (
        {"properties": {"a": A}, "required": ["a", "b"]},
        [{"a": 1, "b": "anything"}],
        [{"a": 1, "b": 2, "c": 3}],
    ),
    "inside": (
        {"type": "object", "properties": {"p": POINT, "l": {"items": POINT, "type": "array"}}},
        [{"p": {"x": 1}, "l": [{"x": 1}, {"x": 2, "y": 3}]}],
        [{"p": {"x": 1, "z": 1}}, {"l": [{"x": 1, "z": 1}]}],
    ),
    "tuple": (
        {"type": "array", "prefixItems": [POINT, A]},
        [[{"x": 1}, 5]],
        [[{"x": 1, "z": 1}, 5]],
    ),
    "patterns": (
        {"patternProperties": {"^x-": A}, "properties": {"a": A}},
        [{"x-1": 5, "a": 1}],
        [{"y": 5}],
    ),
    "patterns alone": ({"patternProperties": {"^x-": A}}, [{"x-1": 5}], [{"y": 5}]),
    "recursive": (
        {
            "$defs": {"N": {"properties": {"v": A, "next": {"$ref": "#/$defs/N"}}}},
            "$ref": "#/$defs/N",
        },
        [{"v": 1, "next": {"v": 2, "next": {}}}],
        [{"w": 1}, {"next": {"next": {"w": 1}}}],
    ),
    "optional": (
        {"properties": {"a": {"anyOf": [POINT, {"type": "null"}]}}},
        [{"a": None}, {"a": {"x": 1}}],
        [{"a": {"x": 1, "z": 1}}],
    ),
    "alternatives": (
        {"type": "object", "oneOf": [CAT, DOG]},
        [{"kind": "cat", "lives": 9}, {"kind": "dog", "barks": "wau"}],
        [{"kind": "cat", "z": 1}, {"kind": "cat", "barks": "miau"}],
    ),
    "alternatives beside keys": (
        {"properties": {"id": A}, "required": ["id"], "anyOf": [CAT, DOG]},
        [{"id": 1, "kind": "cat", "lives": 9}, {"id": 2, "kind": "dog", "barks": "wau"}],
        [{"id": 1, "kind": "cat", "z": 1}],
    ),
    "all of several": (
        {"allOf": [POINT, {"properties": {"name": B}}], "properties": {"id": A}},
        [{"x": 1, "name": "n", "id": 5}, {"x": 1}],
        [{"x": 1, "z": 1}],
    ),
    "all of one": (
        {"$defs": {"P": POINT}, "properties": {"a": {"allOf": [{"$ref": "#/$defs/P"}]}}},
        [{"a": {"x": 1}}],
        [{"a": {"x": 1, "z": 1}}],
    ),
    "reference beside keys": (
        {"$defs": {"P": POINT}, "$ref": "#/$defs/P", "properties": {"id": A}},
        [{"x": 1, "id": 2}],
        [{"x": 1, "z": 2}],
    ),
}
# Schemas that combine objects, or name no keys, are not closed; their values stay possible.
OPEN = {"patterns alone", "alternatives beside keys", "all of several", "reference beside keys"}


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": 5},
        {"allOf": [5]},
        {"anyOf": [True, False, 5], "properties": {"a": A}},
        {"required": [5], "properties": {"a": A}},
        {"propertyNames": {"$ref": 5}, "minLength": "x"},
        {"propertyNames": {"enum": 5}, "properties": 5},
        {"multipleOf": "x", "minimum": "x"},
    ],
)
def test_values_that_are_no_schemas_are_left_for_the_compiler(schema: dict[str, Any]) -> None:
    for more in (True, False):
        prepare_schema(schema, allows_more_keys=more)


# -- as grammars ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def adapter(demo_model_path: Path) -> Any:
    """The demo model's vocabulary, handed to the library."""
    from llguidance.hf import from_tokenizer
    from transformers import AutoTokenizer

    return from_tokenizer(AutoTokenizer.from_pretrained(demo_model_path))


def orders_of(value: Any) -> Iterator[Any]:
    """Yield a value with its keys in every order: a grammar fixes one."""
    if isinstance(value, list):
        yield from (list(items) for items in product(*map(orders_of, value)))
    elif isinstance(value, dict):
        for items in permutations(value.items()):
            names = [name for name, _ in items]
            for values in product(*(orders_of(one) for _, one in items)):
                yield dict(zip(names, values, strict=True))
    else:
        yield value


def takes(adapter: Any, grammar: str, text: str) -> bool:
    """Whether a grammar lets a model write a text, and nothing more is needed."""
    from llguidance import LLMatcher

    matcher = LLMatcher(adapter, LLMatcher.grammar_from_lark(grammar), log_level=0)
    assert not matcher.is_error(), matcher.get_error()
    ids = adapter.tokenize_str(text)
    return bool(matcher.try_consume_tokens(ids) == len(ids) and matcher.is_accepting())


@pytest.mark.parametrize("name", CASES)
def test_a_model_can_write_allowed_keys_and_no_forbidden_ones(adapter: Any, name: str) -> None:
    schema, kept, off = CASES[name]

    def can_write(value: Any, *, more: bool) -> bool:
        grammar = schema_grammar(schema, allows_more_keys=more)
        return any(takes(adapter, grammar, json.dumps(one)) for one in orders_of(value))

    for value in kept:
        assert can_write(value, more=False), value
        assert can_write(value, more=True), value
    for value in off:
        assert can_write(value, more=False) is (name in OPEN), value
        assert can_write(value, more=True), value


@pytest.mark.parametrize(
    ("text", "is_taken"),
    [
        ('{"x": 1, "y": 2}', True),
        ('{\n    "x": 1,\n    "y": 2\n}', True),
        ('{  "x": 1}', False),
        ('{\n' + " " * 41 + '"x": 1}', False),
        ('  {"x": 1}', False),
        ('{"x": 1}   ', False),
    ],
)  # fmt: skip
def test_white_space_has_an_end(adapter: Any, text: str, is_taken: bool) -> None:
    for more in (False, True):
        assert takes(adapter, schema_grammar(POINT, allows_more_keys=more), text) is is_taken


def test_a_tool_that_describes_no_arguments_takes_none(adapter: Any) -> None:
    for parameters in ({}, {"type": "object"}, {"type": "object", "properties": {}}):
        grammar = schema_grammar(arguments_schema(Tool("now", "", parameters)))

        assert takes(adapter, grammar, "{}")
        assert not takes(adapter, grammar, '{"a": 1}')

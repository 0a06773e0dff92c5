"""No error of any route quotes more than 200 characters of the request, from any of its parts."""

import contextlib
import copy
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from api.server.routes import ROUTES
from tests.api.protection.test_fuzz import BODIES, places_in
from tests.support.random_cases import TIMES, few_of

MOST = 200
LENGTH = 600
# Characters that occur in no message of ours; each is one character in every encoding.
CHARACTERS = {"emoji": "🦑", "quote": '"', "control": "\x07"}
MARKS = ("ǂ", "🦑")
# Words that are valid in a field of an enumeration, a discriminator or a schema.
SCHEMAS: tuple[Callable[[str], Any], ...] = (
    lambda long: {"type": long},
    lambda long: {"type": "object", "properties": {long: {"type": long}}},
    lambda long: {"type": "object", "required": [long], "properties": {}},
    lambda long: {"$ref": f"#/$defs/{long}"},
    lambda long: {"type": "string", "pattern": f"[{long}"},
    lambda long: {"type": "string", "pattern": f"({long}"},
    lambda long: {"enum": [long]},
    lambda long: {"const": {long: long}},
    lambda long: {long: long},
    lambda long: {"type": "string", "format": long},
    lambda long: {"allOf": [{"$ref": long}, {"type": "string"}]},
    lambda long: {"type": "object", "additionalProperties": {"type": long}},
    lambda long: {"oneOf": [{"const": long}, {"const": long}], "type": "string"},
    lambda long: {"type": "object", "properties": {long: False}, "required": [long]},
)


def repeated(answer: bytes, marks: tuple[str, ...] = MARKS) -> int:
    """Return how many of the marked characters an answer contains."""
    text = answer.decode()
    with contextlib.suppress(ValueError):
        text = json.dumps(json.loads(text), ensure_ascii=False)
    return sum(text.count(mark) for mark in marks)


def with_long_values(body: dict[str, Any], one: str, other: str) -> Iterator[Any]:
    """Yield copies of a body, each with one of two long texts in another place."""
    for number, path in enumerate(places_in(body)):
        long, next_long = (one, other) if number % 2 else (other, one)
        values = (
            long,
            [next_long],
            {long: long},
            {"type": next_long},
            [{"type": long, long: 1}],
            [[next_long]],
        )
        # Two of them at each place; all of them where many cases are tried.
        for value in values if TIMES > 1 else values[number % 3 :: 3]:
            changed = copy.deepcopy(body)
            at: Any = changed
            for key in path[:-1]:
                at = at[key]
            at[path[-1]] = value
            yield changed
    for long in (one, other):
        yield body | {long: long}
        yield {long: long}
        yield [long]
        yield long


@pytest.mark.parametrize("path", few_of(sorted(BODIES), 6))
def test_no_long_value_is_quoted_whole(staged: Callable[..., Any], path: str) -> None:
    site = staged(step_s=0, settings={"strict": True}).site
    errors = 0
    for body in with_long_values(BODIES[path], "ǂ" * LENGTH, "🦑 " * LENGTH):
        reply = site.send("POST", path, body)
        if reply.status != 200:
            errors += 1
            assert reply.status < 500, reply.body
            assert repeated(reply.body) <= MOST, (body, reply.body[:1000])
    assert errors > 5


@pytest.mark.parametrize("path", few_of(sorted(BODIES), 6))
def test_many_names_together_are_not_quoted_either(staged: Callable[..., Any], path: str) -> None:
    site = staged(step_s=0).site
    names = [f"{'ǂ' * 40}{n}" for n in range(60)]
    flat = [{"type": "function", "name": name} for name in names]
    nested = [{"type": "function", "function": {"name": name}} for name in names]
    custom = [{"name": name, "input_schema": {"type": "object"}} for name in names]
    deep: Any = {"type": "ǂ" * 90}
    for _ in range(30):
        deep = {"ǂ" * 90: deep}
    tried = [
        {"tools": tools, "tool_choice": choice}
        for tools in (flat, nested, custom)
        for choice in (
            {"type": "function", "name": "ǂ"},
            {"type": "function", "function": {"name": "ǂ"}},
            {"type": "tool", "name": "ǂ"},
            "ǂ" * 50,
        )
    ]
    tried += [{"stop": names * 2}, {"stop_sequences": names * 2}, {"metadata": deep}]
    tried += [{"logit_bias": dict.fromkeys(names, 1)}, {"stop_token_ids": names}]
    tried += [{"options": deep}, {"sampling_params": deep | {"stop": names * 2}}]
    tried += [{"fullstop": {"stop_scopes": dict.fromkeys(names, "text")}}]
    tried += [{"fullstop": {"stop_scopes": dict.fromkeys(names, "ǂ" * 300)}}]
    for change in tried:
        reply = site.send("POST", path, BODIES[path] | change)
        assert reply.status < 500
        assert reply.status == 200 or repeated(reply.body) <= MOST, reply.body


@pytest.mark.parametrize("schema", SCHEMAS)
def test_a_schema_is_not_quoted_whole(site: Any, schema: Callable[[str], Any]) -> None:
    long = "ǂ🦑" * (LENGTH // 2)
    made = schema(long)
    tool = {"name": long[:100], "parameters": made, "input_schema": made}
    asked = [
        ("/v1/chat/completions", {
            "messages": [{"role": "user", "content": "Hi"}],
            "response_format": {
                "type": "json_schema", "json_schema": {"name": long, "schema": made},
            },
        }),
        ("/v1/chat/completions", {
            "messages": [{"role": "user", "content": "Hi"}],
            "tools": [{"type": "function", "function": tool}], "tool_choice": "required",
        }),
        ("/v1/messages", {
            "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 2,
            "tools": [tool], "tool_choice": {"type": "any"},
        }),
        ("/v1/responses", {
            "input": "Hi",
            "text": {"format": {"type": "json_schema", "name": long, "schema": made}},
        }),
        ("/api/chat", {"messages": [{"role": "user", "content": "Hi"}], "format": made}),
        ("/generate", {"text": "Hi", "sampling_params": {"json_schema": json.dumps(made)}}),
        ("/generate", {"text": "Hi", "sampling_params": {"regex": f"[{long}"}}),
    ]  # fmt: skip
    for path, body in asked:
        body = {"model": "m", "max_tokens": 2, "stream": False} | body
        if path == "/v1/responses":
            body["max_output_tokens"] = 16
        if "options" not in body and path == "/api/chat":
            body["options"] = {"num_predict": 2}
        if "sampling_params" in body:
            body["sampling_params"]["max_new_tokens"] = 2
        reply = site.send("POST", path, body)
        assert reply.status == 200 or repeated(reply.body) <= MOST, reply.body


@pytest.mark.parametrize("name", few_of(sorted(CHARACTERS), 3))
def test_names_of_all_kinds_are_cut(staged: Callable[..., Any], name: str) -> None:
    site = staged(step_s=0).site
    character = CHARACTERS[name]
    long = character * LENGTH
    for path in BODIES:
        for change in (
            {"tool_choice": {"type": long}}, {"messages": [{"role": long, "content": "a"}]},
            {"input": [{"type": long}]}, {"response_format": {"type": long}},
            {"stop": [{long: long}]}, {"prompt": {long: long}},
            {"text": {"format": {"type": long}}},
            {"think": long}, {"model": {long: long}}, {"tools": [{"type": long}]},
        ):  # fmt: skip
            reply = site.send("POST", path, BODIES[path] | change)
            if reply.status != 200:
                text = json.dumps(reply.json, ensure_ascii=False)
                # As JSON writes it, and again inside a message that quotes it.
                seen = max(text.count(json.dumps(character)[1:-1]), text.count(character))
                assert seen <= MOST + 40, reply.body


def test_addresses_and_headers_are_cut(site: Any) -> None:
    long = "q" * LENGTH
    sent = [
        ("GET", f"/{long}", {}),
        ("POST", f"/v1/{long}", {}),
        ("GET", f"/v1/models/{long}", {}),
        ("GET", f"/v1/models?{long}={long}", {}),
        ("DELETE", f"/v1/messages?{long}", {}),
        ("GET", "/v1/models", {"Host": long}),
        ("GET", "/v1/models", {"Origin": f"https://{long}.example"}),
        ("GET", "/v1/models", {"Sec-Fetch-Site": long}),
        ("POST", "/v1/messages", {"Content-Encoding": long}),
        ("POST", "/v1/messages", {"anthropic-version": long, "anthropic-beta": long}),
        ("POST", "/v1/chat/completions", {"Content-Type": f"application/{long}; charset={long}"}),
    ]
    for method, path, headers in sent:
        reply = site.send(method, path, {"q" * 300: 1} if method == "POST" else None, headers)
        assert reply.status < 500
        assert reply.status == 200 or reply.body.decode().count("q") <= MOST + 10, reply.body


def test_every_route_that_takes_a_body_is_tried() -> None:
    assert {route.path for route in ROUTES if route.request is not None} == BODIES.keys()

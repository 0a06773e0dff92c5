"""A keyword of a schema that no grammar enforces is named in a header, as the client spelled it."""

from typing import Any

import pytest

from tests.api.conftest import Site

TURNS = [{"role": "user", "content": "Count from 1 to 3"}]
SCHEMA = {
    "type": "object",
    "properties": {"tags": {"type": "array", "items": {"type": "string"}, "uniqueItems": True}},
}
PLACE = "properties.tags.uniqueItems"
FUNCTION = {"name": "tag", "description": "Tags.", "parameters": SCHEMA}
CASES: dict[str, tuple[str, dict[str, Any], str]] = {
    "chat": (
        "/v1/chat/completions",
        {
            "messages": TURNS,
            "response_format": {"type": "json_schema", "json_schema": {"schema": SCHEMA}},
        },
        f"response_format.json_schema.schema.{PLACE}",
    ),
    "completions": (
        "/v1/completions",
        {"prompt": "One", "guided_json": SCHEMA},
        f"guided_json.{PLACE}",
    ),
    "responses": (
        "/v1/responses",
        {"input": "Hi", "text": {"format": {"type": "json_schema", "name": "a", "schema": SCHEMA}}},
        f"text.format.schema.{PLACE}",
    ),
    "messages": (
        "/v1/messages",
        {
            "messages": TURNS,
            "output_config": {"format": {"type": "json_schema", "schema": SCHEMA}},
        },
        f"output_config.format.schema.{PLACE}",
    ),
    "ollama": ("/api/chat", {"messages": TURNS, "format": SCHEMA}, f"format.{PLACE}"),
    "chat tools": (
        "/v1/chat/completions",
        {
            "messages": TURNS,
            "tools": [{"type": "function", "function": FUNCTION}],
            "tool_choice": "required",
        },
        f"tools.tag.parameters.{PLACE}",
    ),
}


@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("name", CASES)
def test_an_unenforced_keyword_is_named(site: Site, name: str, is_streamed: bool) -> None:
    path, fields, place = CASES[name]
    limit = {"/v1/responses": "max_output_tokens"}.get(path, "max_tokens")
    limits = {"options": {"num_predict": 4}} if path == "/api/chat" else {limit: 4}
    reply = site.send("POST", path, {**fields, **limits, "stream": is_streamed})
    assert reply.status == 200
    assert reply.headers["x-fullstop-not-applied"] == place


def _strict(path: str, schema: dict[str, Any]) -> dict[str, Any]:
    named = {"name": "a", "schema": schema, "strict": True}
    if path == "/v1/responses":
        form = {"type": "json_schema", **named}
        return {"input": "Hi", "max_output_tokens": 16, "text": {"format": form}}
    form = {"type": "json_schema", "json_schema": named}
    return {"messages": TURNS, "max_tokens": 4, "response_format": form}


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/responses"])
def test_a_strict_schema_is_refused_for_other_keywords_than_those_of_sets(
    site: Site, path: str
) -> None:
    reply = site.send("POST", path, _strict(path, SCHEMA))
    assert reply.status == 200
    assert reply.headers["x-fullstop-not-applied"].endswith(PLACE)
    unenforced = {"type": "object", "properties": {"a": {"not": {"const": 1}}}}
    reply = site.send("POST", path, _strict(path, unenforced))
    assert reply.status == 400
    assert "properties.a.not" in reply.body.decode()

"""Documents, search results, and the vendor's tools that run on the client."""

import base64
import json
from typing import Any

import pytest

from engine.values.request import GenerationRequest, Message, Tool
from tests.api.dialects.asking import refused_field, request

FOUND = {
    "type": "search_result",
    "source": "https://example.com/tides",
    "title": "Tides",
    "content": [{"type": "text", "text": "High at six."}, {"type": "text", "text": "Low at noon."}],
}
FOUND_TEXT = "Search result: Tides (https://example.com/tides)\nHigh at six.\nLow at noon."


def read(content: list[dict[str, Any]], **fields: Any) -> GenerationRequest:
    return request("messages", messages=[{"role": "user", "content": content}], **fields)


def document(source: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "document", "source": source, **more}


@pytest.mark.parametrize(
    ("block", "text"),
    [
        (document({"type": "text", "media_type": "text/plain", "data": "All well."}), "All well."),
        (
            document({"type": "text", "data": "All well."}, title="Log", context="Of May."),
            "Document: Log\nOf May.\nAll well.",
        ),
        (document({"type": "content", "content": "All well."}), "All well."),
        (
            document(
                {
                    "type": "content",
                    "content": [{"type": "text", "text": "All"}, {"type": "text", "text": "well."}],
                },
                title="Log",
            ),
            "Document: Log\nAll\nwell.",
        ),
        (
            document(
                {
                    "type": "base64",
                    "media_type": "text/markdown",
                    "data": base64.b64encode("grün".encode()).decode(),
                }
            ),
            "grün",
        ),
        (FOUND, FOUND_TEXT),
    ],
)
def test_a_block_of_text_is_read(block: dict[str, Any], text: str) -> None:
    asked = read([{"type": "text", "text": "Look:"}, block])
    assert asked.messages == (Message("user", f"Look:\n{text}"),)


@pytest.mark.parametrize(
    ("source", "place"),
    [
        ({"type": "text", "data": 5}, ("source", "data")),
        ({"type": "content", "content": [{"type": "audio"}]}, ("source", "content", 0)),
        ({"type": "base64", "media_type": "text/plain", "data": "!"}, ("source", "data")),
        ({"type": "url", "url": "https://example.com/a.pdf"}, ()),
    ],
)
def test_a_block_that_cannot_be_read_is_refused_with_its_place(
    source: Any, place: tuple[Any, ...]
) -> None:
    found = refused_field("messages", messages=[{"role": "user", "content": [document(source)]}])
    assert found == ("messages", 0, "content", 0, *place)


@pytest.mark.parametrize(
    ("kind", "name", "parameters"),
    [
        ("bash_20250124", "bash", {"command", "restart"}),
        ("text_editor_20250124", "str_replace_editor", {"command", "path", "new_str"}),
        ("text_editor_20250728", "str_replace_based_edit_tool", {"insert_line", "view_range"}),
        ("memory_20250818", "memory", {"insert_text", "old_path", "new_path"}),
    ],
)
def test_a_tool_that_the_client_runs_becomes_a_function_for_the_model(
    kind: str, name: str, parameters: set[str]
) -> None:
    asked = read([{"type": "text", "text": "Go"}], tools=[{"type": kind, "name": name}])
    [tool] = asked.tools
    assert isinstance(tool, Tool)
    assert (tool.name, bool(tool.description)) == (name, True)
    assert parameters <= tool.parameters["properties"].keys()
    json.dumps(dict(tool.parameters))

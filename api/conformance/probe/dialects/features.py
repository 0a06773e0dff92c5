"""Requests for features of some dialects: several choices, tools, structure, logprobs.

Each function returns the changed body, or None if the dialect lacks the feature. Pure; any thread.
"""

from typing import Any

from api.conformance.captures.values import WireDialect
from api.conformance.probe.dialects.asks import Body

TOOL_PROMPT = "Call the tool note with the text: red green blue"
STRUCTURE_PROMPT = "Describe a large blue circle as JSON with color, shape and size"

_NAME = "note"
_WHAT = "Keeps a text."
_PARAMETERS: Body = {
    "type": "object",
    "properties": {"text": {"type": "string"}},
    "required": ["text"],
}
_SCHEMA: Body = {
    "type": "object",
    "properties": {name: {"type": "string"} for name in ("color", "shape", "size")},
    "required": ["color", "shape", "size"],
    "additionalProperties": False,
}


def with_choices(dialect: WireDialect, body: Body, count: int) -> Body | None:
    """Return a request for several answers; None if the dialect lacks the feature.

    Args:
        dialect: The dialect of the body.
        body: A request for one answer.
        count: How many answers.
    """
    if dialect in (WireDialect.CHAT, WireDialect.COMPLETIONS):
        return {**body, "n": count}
    return None


def with_logprobs(dialect: WireDialect, body: Body) -> Body | None:
    """Return a request for the probabilities of the answer's tokens."""
    match dialect:
        case WireDialect.CHAT:
            return {**body, "logprobs": True}
        case WireDialect.COMPLETIONS:
            return {**body, "logprobs": 1}
        case _:
            return None


def with_structure(dialect: WireDialect, body: Body) -> Body | None:
    """Return a request for JSON of a given structure."""
    match dialect:
        case WireDialect.CHAT:
            named = {"name": "thing", "strict": True, "schema": _SCHEMA}
            return {**body, "response_format": {"type": "json_schema", "json_schema": named}}
        case WireDialect.RESPONSES:
            form = {"type": "json_schema", "name": "thing", "strict": True, "schema": _SCHEMA}
            return {**body, "text": {"format": form}}
        case WireDialect.OLLAMA:
            return {**body, "format": _SCHEMA}
        case _:
            return None


def with_tool(dialect: WireDialect, body: Body) -> Body | None:
    """Return a request that offers a tool, and requires its use if the dialect can."""
    function: dict[str, Any] = {
        "name": _NAME,
        "description": _WHAT,
        "parameters": _PARAMETERS,
    }
    match dialect:
        case WireDialect.MESSAGES:
            tool = {"name": _NAME, "description": _WHAT, "input_schema": _PARAMETERS}
            return {**body, "tools": [tool], "tool_choice": {"type": "tool", "name": _NAME}}
        case WireDialect.CHAT:
            choice = {"type": "function", "function": {"name": _NAME}}
            tools = [{"type": "function", "function": function}]
            return {**body, "tools": tools, "tool_choice": choice}
        case WireDialect.RESPONSES:
            tools = [{"type": "function", **function}]
            return {**body, "tools": tools, "tool_choice": {"type": "function", "name": _NAME}}
        case WireDialect.OLLAMA:
            return {**body, "tools": [{"type": "function", "function": function}]}
        case _:
            return None

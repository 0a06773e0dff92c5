"""Reads what a tool server asks of a person: a form's fields, or an address to visit. Pure.

https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation
"""

import math
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from app.mcp.processes import printable
from ui.records.tools import QuestionField, ServerQuestion

_MOST_FIELDS = 30
_MOST_CHOICES = 200
_MOST_MESSAGE_CHARS = 2_000
_FORMATS = ("email", "uri", "date", "date-time")


class BadQuestion(ValueError):
    """A question cannot be shown; the message tells the server why."""


def question_from(server: str, params: Any) -> ServerQuestion:
    """Return the question of a request.

    Args:
        server: The server's name.
        params: The parameters of ``elicitation/create``.

    Raises:
        BadQuestion: The form has what this version cannot show, or the address is none.
    """
    message = "\n".join(printable(line, 500) for line in params.message.splitlines())
    message = message[:_MOST_MESSAGE_CHARS]
    if params.mode == "url":
        return ServerQuestion(server, message, url=_address(params.url))
    schema = params.requested_schema
    properties, required = schema.get("properties", {}), schema.get("required", [])
    if not isinstance(properties, dict) or not isinstance(required, list):
        raise BadQuestion("requestedSchema must have an object of properties")
    if len(properties) > _MOST_FIELDS:
        raise BadQuestion(f"requestedSchema has more than {_MOST_FIELDS} properties")
    fields = [_field(name, values, name in required) for name, values in properties.items()]
    return ServerQuestion(server, message, tuple(fields))


def _address(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or not url.isprintable():
        raise BadQuestion("url must be an address that begins with https:// or http://")
    return url


def _field(name: str, values: Any, is_required: bool) -> QuestionField:
    if not isinstance(values, dict):
        raise BadQuestion(f"the property {name[:80]} must be an object")
    title = printable(str(values.get("title") or name), 120)
    says = printable(str(values.get("description") or ""), 500)
    default = values.get("default")
    choices = _choices(values)
    match values.get("type", "string"):
        case "string" if choices:
            return QuestionField(name, title, says, "choice", is_required, choices, default)
        case "string":
            least, most = _bound(values, "minLength"), _bound(values, "maxLength")
            form = values.get("format")
            form = form if form in _FORMATS else ""
            return QuestionField(
                name, title, says, "text", is_required, (), default, least, most, form
            )
        case "number" | "integer" as kind:
            least, most = _bound(values, "minimum"), _bound(values, "maximum")
            return QuestionField(
                name,
                title,
                says,
                "whole" if kind == "integer" else "number",
                is_required,
                default=default,
                least=least,
                most=most,
            )
        case "boolean":
            return QuestionField(name, title, says, "yes", is_required, (), default)
        case "array" if offered := _choices(values.get("items")):
            least, most = _bound(values, "minItems"), _bound(values, "maxItems")
            return QuestionField(
                name, title, says, "choices", is_required, offered, default, least, most
            )
    raise BadQuestion(f"the property {name[:80]} has a type that cannot be asked for in a form")


def _choices(values: Any) -> tuple[tuple[str, str], ...]:
    """Return the values that can be chosen, each with its words; empty for none."""
    if not isinstance(values, Mapping):
        return ()
    titled = values.get("oneOf") or values.get("anyOf")
    if isinstance(titled, list):
        pairs = [
            (one.get("const"), one.get("title") or one.get("const"))
            for one in titled[:_MOST_CHOICES]
            if isinstance(one, dict)
        ]
    else:
        plain, names = values.get("enum"), values.get("enumNames")
        if not isinstance(plain, list):
            return ()
        words = names if isinstance(names, list) and len(names) == len(plain) else plain
        pairs = list(zip(plain, words, strict=True))[:_MOST_CHOICES]
    return tuple(
        (value, printable(str(words), 200)) for value, words in pairs if isinstance(value, str)
    )


def _bound(values: Mapping[str, Any], name: str) -> float | None:
    value = values.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if math.isfinite(value) else None

"""What the text of a tool call says, and the header of a Harmony message."""

import json
import re
from typing import Any

from mlx_lm.tool_parsers.mistral import parse_tool_call as parse_bracketed

from engine.stopping.record import Channel

Calls = tuple[tuple[str, Any], ...]


def parsed_calls(raw: str, *, has_brackets: bool) -> Calls | None:
    """Return the names and arguments of the calls in a text; None if it is not a call.

    Args:
        raw: The text between the tags.
        has_brackets: Whether it is written ``name[ARGS]{…}`` and not as JSON.
    """
    try:
        found = parse_bracketed(raw) if has_brackets else json.loads(raw.strip())
    except ValueError:
        return None
    calls: list[tuple[str, Any]] = []
    for call in found if isinstance(found, list) else [found]:
        if not isinstance(call, dict) or not isinstance(call.get("name"), str):
            return None
        arguments = _object(call.get("arguments"))
        if not call["name"] or arguments is None:
            return None
        calls.append((call["name"], arguments))
    return tuple(calls) or None


def parsed_arguments(raw: str, name: str) -> Calls | None:
    """Return the call of the tool that a Harmony message names; None if the text is not a call."""
    arguments = _object(raw)
    return None if arguments is None else ((name, arguments),)


def _object(value: object) -> dict[str, Any] | None:
    """Return the one object that arguments are; none at all, or its text, will do."""
    if value is None or (isinstance(value, str) and not value.strip()):
        return {}
    try:
        found = json.loads(value.strip()) if isinstance(value, str) else value
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def opened_by(header: str) -> tuple[Channel, str]:
    """Return the channel of the message that a Harmony header opens, and the tool it calls."""
    recipient = re.search(r"(?:^|[\s>])to=([^\s<]+)", header)
    name = recipient[1].removeprefix("functions.") if recipient else ""
    if name:
        return Channel.TOOL, name
    named = header.rpartition("<|channel|>")
    words = re.split(r"<\|\w+\|>", named[2])[0].split()
    is_analysis = bool(named[1]) and words[:1] == ["analysis"]
    return (Channel.THINKING if is_analysis else Channel.TEXT), ""

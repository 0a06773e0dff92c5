"""What the text of a tool call says, and the header of a Harmony message."""

import json
import re
from typing import Any

from mlx_lm.tool_parsers.mistral import parse_tool_call as parse_bracketed

from engine.stopping.record import Channel

Calls = tuple[tuple[str, Any], ...]


def parsed_calls(raw: str, *, has_brackets: bool) -> Calls | None:
    """Return names and arguments of the calls that a text is; None where it is none.

    Args:
        raw: The text between the tags.
        has_brackets: Whether it is written ``name[ARGS]{…}`` and not as JSON.
    """
    try:
        found = parse_bracketed(raw) if has_brackets else json.loads(raw.strip())
    except ValueError:
        return None
    calls = found if isinstance(found, list) else [found]
    for call in calls:
        if not isinstance(call, dict) or not isinstance(call.get("name"), str):
            return None
        if not call["name"] or not isinstance(call.get("arguments", {}), dict):
            return None
    return tuple((call["name"], call.get("arguments", {})) for call in calls)


def parsed_arguments(raw: str, name: str) -> Calls | None:
    """Return the call of a tool that a Harmony message names; None where the text is none."""
    try:
        arguments = json.loads(raw)
    except ValueError:
        return None
    return ((name, arguments),) if isinstance(arguments, dict) else None


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

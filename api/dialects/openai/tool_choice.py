"""Reads which tools may or must be called, as Chat Completions and Responses spell it.

Pure functions, no web framework. Any thread.
"""

from collections.abc import Sequence

from api.transport.errors import FieldPath, invalid, shown, unsupported
from engine import Tool, ToolChoice

_FIELD = "tool_choice"


def chosen_tools(choice: object, tools: Sequence[Tool]) -> tuple[tuple[Tool, ...], ToolChoice]:
    """Return the offered tools, and whether one of them must be called.

    Args:
        choice: The request's ``tool_choice``: a word, an object or nothing.
        tools: The request's functions.

    Raises:
        ApiError: The choice is of an unknown kind, or names a tool that is not offered.
    """
    match choice:
        case None | "auto":
            return tuple(tools), ToolChoice()
        case "none":
            return (), ToolChoice("none")
        case "required":
            return _required(tools)
        case dict() if choice.get("type") == "function":
            name = _name(choice)
            _find(name, tools)
            return tuple(tools), ToolChoice("required", name)
        case dict() if choice.get("type") == "allowed_tools":
            return _allowed(choice, tools)
        case str() | {"type": _}:
            raise unsupported((_FIELD,), f"the tool choice {_kind(choice)!r}")
        case _:
            raise invalid((_FIELD,), "must be a word, an object with a type, or null")


def _required(tools: Sequence[Tool]) -> tuple[tuple[Tool, ...], ToolChoice]:
    if not tools:
        raise invalid((_FIELD,), "requires a call, but there is no function among the tools")
    return tuple(tools), ToolChoice("required")


def _allowed(
    choice: dict[str, object], tools: Sequence[Tool]
) -> tuple[tuple[Tool, ...], ToolChoice]:
    """Keep the tools of a list; Chat puts it one level deeper than Responses."""
    inner = choice.get("allowed_tools", choice)
    listed = inner.get("tools") if isinstance(inner, dict) else None
    if not isinstance(listed, list):
        raise invalid((_FIELD, "tools"), "must be a list of tools")
    names = [_name(one) for one in listed if isinstance(one, dict)]
    kept = [_find(name, tools) for name in dict.fromkeys(names)]
    if isinstance(inner, dict) and inner.get("mode") == "required":
        return _required(kept)
    return tuple(kept), ToolChoice()


def _name(choice: dict[str, object]) -> str:
    """Return the name of a function; Chat puts it one level deeper than Responses."""
    inner = choice.get("function", choice)
    name = inner.get("name") if isinstance(inner, dict) else None
    path: FieldPath = (_FIELD, "function", "name") if "function" in choice else (_FIELD, "name")
    if not isinstance(name, str) or not name:
        raise invalid(path, "must be the name of one of the tools")
    return name


def _find(name: str, tools: Sequence[Tool]) -> Tool:
    for tool in tools:
        if tool.name == name:
            return tool
    raise invalid((_FIELD,), f"{shown(name)} is not among the tools")


def _kind(choice: object) -> object:
    return choice.get("type") if isinstance(choice, dict) else choice

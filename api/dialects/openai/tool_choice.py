"""Reads which tools may or must be called, as Chat Completions and Responses spell it.

Pure functions, no web framework. Any thread.
"""

from collections.abc import Sequence

from api.dialects.openai.offered_tools import OfferedTool
from api.transport.errors import FieldPath, invalid, shown, unsupported
from engine import Tool, ToolChoice

_FIELD = "tool_choice"
_KINDS = ("function", "custom")


def chosen_tools(
    choice: object, offered: Sequence[OfferedTool]
) -> tuple[tuple[Tool, ...], ToolChoice]:
    """Return the offered tools, and whether one of them must be called."""
    tools = tuple(tool.function for tool in offered)
    match choice:
        case None | "auto":
            return tools, ToolChoice()
        case "none":
            return (), ToolChoice("none")
        case "required":
            return _required(tools)
        case dict() if choice.get("type") in _KINDS:
            return tools, ToolChoice("required", _found(choice, offered).name)
        case dict() if choice.get("type") == "allowed_tools":
            return _allowed(choice, offered)
        case str() | {"type": _}:
            raise unsupported((_FIELD,), f"the tool choice {_kind(choice)!r}")
        case _:
            raise invalid((_FIELD,), "must be a word, an object with a type, or null")


def _required(tools: Sequence[Tool]) -> tuple[tuple[Tool, ...], ToolChoice]:
    if not tools:
        raise invalid((_FIELD,), "requires a call, but there is no function among the tools")
    return tuple(tools), ToolChoice("required")


def _allowed(
    choice: dict[str, object], offered: Sequence[OfferedTool]
) -> tuple[tuple[Tool, ...], ToolChoice]:
    """Keep the tools of a list; Chat puts it one level deeper than Responses."""
    inner = choice.get("allowed_tools", choice)
    listed = inner.get("tools") if isinstance(inner, dict) else None
    if not isinstance(listed, list):
        raise invalid((_FIELD, "tools"), "must be a list of tools")
    found: list[Tool] = []
    for one in listed:
        kind = one.get("type", "function") if isinstance(one, dict) else None
        if kind == "namespace":
            found += [tool.function for tool in offered if tool.namespace == one.get("name")]
        elif kind in _KINDS:
            found.append(_found(one, offered))
        # Other kinds do not run here and were left out, so that they cannot be called either.
    kept = [tool for index, tool in enumerate(found) if tool not in found[:index]]
    if isinstance(inner, dict) and inner.get("mode") == "required":
        return _required(kept)
    return tuple(kept), ToolChoice()


def _found(choice: dict[str, object], offered: Sequence[OfferedTool]) -> Tool:
    """Return the function that the model is told for a tool that the client names.

    Chat puts the name one level deeper than Responses. A namespace may be left out.
    """
    kind = str(choice.get("type") or "function")
    inner = choice.get(kind, choice)
    name = inner.get("name") if isinstance(inner, dict) else None
    path: FieldPath = (_FIELD, kind, "name") if kind in choice else (_FIELD, "name")
    if not isinstance(name, str) or not name:
        raise invalid(path, "must be the name of one of the tools")
    namespace = choice.get("namespace")
    for tool in offered:
        is_meant = name in (tool.name, tool.function.name) and namespace in (None, tool.namespace)
        if is_meant and tool.is_custom == (kind == "custom"):
            return tool.function
    raise invalid((_FIELD,), f"{shown(name)} is not among the tools")


def _kind(choice: object) -> object:
    return choice.get("type") if isinstance(choice, dict) else choice

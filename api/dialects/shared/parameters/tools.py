"""Decides which tools that are not the client's functions are refused or left out.

The same in every dialect. An answer's header names those that were left out. Pure; knows no
vendor's request. Any thread.
"""

import re
from collections.abc import Iterator
from typing import Any

from pydantic import Field

from api.dialects.shared.body import WireModel
from api.transport.errors import FieldPath, required, unsupported
from engine import Tool

# Requests that offer one of these tools depend on it, but no model here can call it, or nothing
# here can run it. Dated names (``bash_20250124``) begin with one of them.
_REFUSED = (
    "apply_patch",
    "bash",
    "code_execution",
    "code_interpreter",
    "computer",
    "custom",
    "file_search",
    "local_shell",
    "mcp",
    "memory",
    "shell",
    "str_replace",
    "text_editor",
)
# Tools that become functions, in the dialects that have them.
_FUNCTIONS = ("", "custom", "function", "namespace")
_MOST_NAMED = 20
# Anything else a client could write is not repeated in a header.
_KIND = re.compile(r"[a-z0-9_.-]{1,64}")


class FunctionParam(WireModel):
    """A function that the client runs, as Chat Completions and Ollama describe it."""

    name: str = Field(min_length=1)
    description: str | None = None
    parameters: dict[str, Any] | None = None


def described(function: FunctionParam) -> Tool:
    """Return a function as the engine knows it."""
    return Tool(function.name, function.description or "", function.parameters or {})


def function_of(kind: str | None, function: FunctionParam | None, path: FieldPath) -> Tool | None:
    """Return the function of a tool, or None for another kind of tool that is left out."""
    if kind and kind != "function":
        check_left_out(kind, path)
        return None
    if function is None:
        raise required((*path, "function"))
    return described(function)


def check_left_out(kind: str, path: FieldPath) -> None:
    """Refuse a tool that must not be left out of a request.

    Tools that clients offer in every request (``web_search``), and unknown tools, are left out;
    the model then answers without them.
    """
    if _is_refused(kind):
        raise unsupported((*path, "type"), f"the tool {kind}")


def left_out_tools(params: object) -> tuple[str, ...]:
    """Return the types of the tools that a request was read without, each once."""
    kinds = dict.fromkeys(_kinds(getattr(params, "tools", None)))
    found = [one for one in kinds if one not in _FUNCTIONS and not _is_refused(one)]
    return tuple(one if _KIND.fullmatch(one) else "unknown" for one in found[:_MOST_NAMED])


def _kinds(tools: Any) -> Iterator[str]:
    for tool in tools or ():
        yield tool.type or ""
        yield from _kinds(getattr(tool, "tools", None))


def _is_refused(kind: str) -> bool:
    return any(kind == name or kind.startswith(f"{name}_") for name in _REFUSED)

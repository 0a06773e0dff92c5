"""Decides which tools that are not the client's functions are refused or left out.

The same in every dialect. Pure; knows no vendor's request. Any thread.
"""

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


class FunctionParam(WireModel):
    """A function that the client runs, as Chat Completions and Ollama describe it."""

    name: str = Field(min_length=1)
    description: str | None = None
    parameters: dict[str, Any] | None = None


def function_of(kind: str | None, described: FunctionParam | None, path: FieldPath) -> Tool | None:
    """Return the function of a tool, or None for another kind of tool that is left out.

    Args:
        kind: The tool's type; None or empty means a function.
        described: The function.
        path: The tool's path in the request.

    Raises:
        ApiError: It is a function without a description, or a tool that must not be left out.
    """
    if kind and kind != "function":
        check_left_out(kind, path)
        return None
    if described is None:
        raise required((*path, "function"))
    return Tool(described.name, described.description or "", described.parameters or {})


def check_left_out(kind: str, path: FieldPath) -> None:
    """Refuse a tool that must not be left out of a request.

    Tools that clients offer in every request (``web_search``, ``namespace``), and unknown tools,
    are left out; the model then answers without them.

    Args:
        kind: The tool's type; not a function.
        path: The tool's path in the request.

    Raises:
        ApiError: The answer would change without the tool.
    """
    if any(kind == name or kind.startswith(f"{name}_") for name in _REFUSED):
        raise unsupported((*path, "type"), f"the tool {kind}")

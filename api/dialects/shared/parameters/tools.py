"""Tools that are not functions of the client: which are refused and which are left out.

The same in every dialect. Pure; knows no vendor's request. Any thread.
"""

from typing import Any

from pydantic import Field

from api.dialects.shared.body import WireModel
from api.transport.errors import FieldPath, required, unsupported
from engine import Tool

# Requests that offer one of these rely on it, but no model here can call it, or nothing here
# can run it. A dated name (``bash_20250124``) begins with one of them.
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
    """Return the function that a tool is, or None where it is another tool that is left out.

    Args:
        kind: The tool's type; none or an empty one is that of a function.
        described: The function.
        path: Where the tool is in the request.

    Raises:
        ApiError: It is a function that is not described, or a tool that cannot be left out.
    """
    if kind and kind != "function":
        check_left_out(kind, path)
        return None
    if described is None:
        raise required((*path, "function"))
    return Tool(described.name, described.description or "", described.parameters or {})


def check_left_out(kind: str, path: FieldPath) -> None:
    """Make sure that a tool of some type can be left out of a request.

    What clients offer in every request whether it is wanted or not (``web_search``,
    ``namespace``), and what nobody knows yet, is left out; the model then does without it.

    Args:
        kind: The tool's type, not that of a function.
        path: Where the tool is in the request.

    Raises:
        ApiError: The answer would be another one without it.
    """
    if any(kind == name or kind.startswith(f"{name}_") for name in _REFUSED):
        raise unsupported((*path, "type"), f"the tool {kind}")

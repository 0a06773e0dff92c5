"""Tools that are not functions of the client: which are refused and which are left out.

The same in every dialect. Pure; knows no vendor's request. Any thread.
"""

from api.errors import FieldPath, unsupported

# A request that offers one of these counts on it, and no model here knows how to call it or no
# server is there to run it. A dated name (``bash_20250124``) begins with one of them.
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

"""The vendor's tools that the client runs, as functions.

The vendor's own models know their schemas; others receive them as functions.
https://platform.claude.com/docs/en/agents-and-tools/tool-use/overview
"""

from dataclasses import replace
from typing import Any

from engine.values.request import Tool


def _text(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}


def _file_tool(
    name: str, description: str, *more_commands: str, **more_fields: dict[str, Any]
) -> Tool:
    commands = ["view", "create", "str_replace", "insert", *more_commands]
    fields = {
        "command": {"type": "string", "enum": commands},
        "path": _text("the absolute path of a file or folder"),
        "view_range": {
            "type": "array",
            "items": {"type": "integer"},
            "minItems": 2,
            "maxItems": 2,
            "description": "view: the first and the last line, counted from 1; -1 is the end",
        },
        "file_text": _text("create: the content of the file"),
        "old_str": _text("str_replace: the text that is replaced; it occurs once"),
        "new_str": _text("str_replace and insert: the new text"),
        "insert_line": {
            "type": "integer",
            "description": "insert: the line after which the text is inserted; 0 is the beginning",
        },
    }
    required = ["command"] if more_fields else ["command", "path"]
    return Tool(name, description, _object({**fields, **more_fields}, required))


def _object(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required}


_EDITOR = "View, create and edit text files."
_SHELL = Tool(
    "bash",
    "Run a command in a shell that keeps its state between calls.",
    _object(
        {
            "command": _text("the command"),
            "restart": {"type": "boolean", "description": "true restarts the shell"},
        },
        [],
    ),
)
_OLDER_EDITOR = _file_tool("str_replace_editor", _EDITOR, "undo_edit")
_NEWER_EDITOR = _file_tool("str_replace_based_edit_tool", _EDITOR)
_MEMORY = _file_tool(
    "memory",
    "Keep notes between conversations, as text files in the folder /memories. Look there first.",
    "delete",
    "rename",
    new_str=_text("str_replace: the new text"),
    insert_text=_text("insert: the text that is inserted"),
    old_path=_text("rename: the current path"),
    new_path=_text("rename: the new path"),
)
_KNOWN = {
    "bash_20241022": _SHELL,
    "bash_20250124": _SHELL,
    "text_editor_20241022": _OLDER_EDITOR,
    "text_editor_20250124": _OLDER_EDITOR,
    "text_editor_20250429": _NEWER_EDITOR,
    "text_editor_20250728": _NEWER_EDITOR,
    "memory_20250818": _MEMORY,
}


def client_tool(kind: str, name: str | None) -> Tool | None:
    """Return the function for a tool of the vendor; None if the type is unknown."""
    known = _KNOWN.get(kind)
    return replace(known, name=name) if known is not None and name else known

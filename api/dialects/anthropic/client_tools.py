"""The vendor's tools that the client runs, as functions.

The vendor's own models know their schemas; others receive them as functions.
https://platform.claude.com/docs/en/agents-and-tools/tool-use/overview
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from engine import Tool

_TEXT: Mapping[str, Any] = MappingProxyType({"type": "string"})
_EDITING = ("view", "create", "str_replace", "insert")
_EDITOR = "View, create and edit text files."


class _Known(NamedTuple):
    name: str
    description: str
    parameters: Mapping[str, Any]


def _object(required: tuple[str, ...], **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


def _files(commands: tuple[str, ...], what: str, **more: Any) -> dict[str, Any]:
    """Return the schema of a tool whose commands work on files."""
    text = {"old_str": _described("str_replace: the text that is replaced; it occurs once"),
            "new_str": _described("str_replace: the new text")}  # fmt: skip
    inserted = {what: _described("insert: the text that is inserted")}
    if what == "new_str":
        inserted = {what: _described("str_replace and insert: the new text")}
    return _object(
        ("command",) if more else ("command", "path"),
        command={"type": "string", "enum": list(commands)},
        path=_described("the absolute path of a file or folder"),
        view_range={
            "type": "array",
            "items": {"type": "integer"},
            "minItems": 2,
            "maxItems": 2,
            "description": "view: the first and the last line, counted from 1; -1 is the end",
        },
        file_text=_described("create: the content of the file"),
        **(text | inserted),
        insert_line={
            "type": "integer",
            "description": "insert: the line after which the text is inserted; 0 is the beginning",
        },
        **more,
    )


def _described(description: str) -> dict[str, Any]:
    return {**_TEXT, "description": description}


_SHELL = _Known(
    "bash",
    "Run a command in a shell that keeps its state between calls.",
    _object(
        (),
        command=_described("the command"),
        restart={"type": "boolean", "description": "true restarts the shell"},
    ),
)
_OLDER_EDITOR = _Known("str_replace_editor", _EDITOR, _files((*_EDITING, "undo_edit"), "new_str"))
_NEWER_EDITOR = _Known("str_replace_based_edit_tool", _EDITOR, _files(_EDITING, "new_str"))
_MEMORY = _Known(
    "memory",
    "Keep notes between conversations, as text files in the folder /memories. Look there first.",
    _files(
        (*_EDITING, "delete", "rename"),
        "insert_text",
        old_path=_described("rename: the current path"),
        new_path=_described("rename: the new path"),
    ),
)
# https://platform.claude.com/docs/en/agents-and-tools/tool-use/overview
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
    if known is None:
        return None
    return Tool(name or known.name, known.description, known.parameters)

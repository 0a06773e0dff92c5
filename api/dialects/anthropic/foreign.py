"""Blocks of a conversation that other servers wrote: what of them the model can read.

Conversations that began with the vendor's service contain calls and results of tools that run
there, and newer clients send blocks that are not known here. Their readable text stays in the
conversation; the rest is left out. Pure; any thread, any process.

https://docs.claude.com/en/docs/agents-and-tools/tool-use/server-tools
"""

from collections.abc import Iterator, Mapping
from typing import Any

# The types of such blocks in the vendor's reference.
FOREIGN_TYPES = (
    "advisor_tool_result",
    "bash_code_execution_tool_result",
    "browser_state",
    "code_execution_tool_result",
    "compaction",
    "container_upload",
    "fallback",
    "mcp_tool_listing",
    "mcp_tool_result",
    "mcp_tool_use",
    "server_tool_use",
    "text_editor_code_execution_tool_result",
    "tool_search_tool_result",
    "web_fetch_tool_result",
    "web_search_tool_result",
)
# The fields of a block that hold text, in the order in which it is read.
_TEXTS = (
    "title",
    "url",
    "text",
    "source",
    "content",
    "stdout",
    "stderr",
    "lines",
    "data",
    "error_code",
    "error_message",
)
# Sources whose data is text.
_TEXT_SOURCES = ("text", "content")
_RESULT = "_tool_result"
_COMPACTION = "compaction"
_SUMMARY = "A summary of the conversation before this message:"
# Blocks of a request are at most this deep in each other; deeper ones are not read.
_MAX_DEPTH = 8


def readable_text(block: Mapping[str, Any]) -> str:
    """Return the text of a block as it was sent; empty if it has none."""
    return "\n".join(_texts(block, 0))


def headed_text(kind: str, text: str, tool_name: str | None) -> str:
    """Return the text of a block below the line that says what it is.

    Args:
        kind: The type of the block.
        text: Its text.
        tool_name: The name of the tool whose result it is, if an earlier block has it.
    """
    if kind == _COMPACTION:
        return f"{_SUMMARY}\n{text}"
    if kind.endswith(_RESULT):
        return f"Result of {tool_name or kind.removesuffix(_RESULT)}:\n{text}"
    return text


def referenced_tools(block: Mapping[str, Any]) -> list[str]:
    """Return the names of the tools that a search of the vendor has found."""
    content = block.get("content")
    found = content.get("tool_references") if isinstance(content, Mapping) else None
    items = [item for item in found if isinstance(item, Mapping)] if isinstance(found, list) else []
    return [item["tool_name"] for item in items if isinstance(item.get("tool_name"), str)]


def _texts(value: object, depth: int) -> Iterator[str]:
    if depth > _MAX_DEPTH:
        return
    if isinstance(value, str):
        if value.strip():
            yield value
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item, depth + 1)
    elif isinstance(value, Mapping):
        kind = value.get("type")
        for name in _TEXTS:
            if name == "data" and kind not in _TEXT_SOURCES:
                continue
            if name == "url" and kind == "image":
                continue
            yield from _texts(value.get(name), depth + 1)

"""Parts of a conversation that other servers wrote: what of them the model can read.

Conversations that began with a vendor's service contain calls and results of tools that run there,
and newer clients send parts that are not known here. Their readable text stays in the
conversation; parts without any are left out, and named in the answer's header. Pure; any thread.
"""

from collections.abc import Iterator, Mapping
from typing import Any

# The fields that hold text, or parts with text, in the order in which they are read.
_TEXTS = (
    "title",
    "filename",
    "url",
    "text",
    "source",
    "sources",
    "action",
    "code",
    "content",
    "stdout",
    "stderr",
    "lines",
    "logs",
    "data",
    "result",
    "results",
    "outputs",
    "error_code",
    "error_message",
)
# Whose data is text; that of other parts is bytes in base64.
_TEXT_SOURCES = ("text", "content")
_IMAGES = ("image", "image_generation_call")
_ENDINGS = ("_tool_result", "_call")
# Parts of a request are at most this deep in each other; deeper ones are not read.
_MAX_DEPTH = 8


def readable_text(part: Mapping[str, Any]) -> str:
    """Return the text of a part as it was sent; empty if it has none."""
    return "\n".join(_texts(part, 0))


def result_text(kind: str, text: str, tool_name: str | None = None) -> str:
    """Return the text of a part below a line that names the tool, if it is the result of one."""
    for ending in _ENDINGS:
        if kind.endswith(ending):
            return f"Result of {tool_name or kind.removesuffix(ending)}:\n{text}"
    return text


def _texts(value: object, depth: int) -> Iterator[str]:
    if depth > _MAX_DEPTH:
        return
    if isinstance(value, str):
        if value.strip():
            yield value
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item, depth + 1)
    elif isinstance(value, Mapping) and value.get("type") not in _IMAGES:
        for name in _TEXTS:
            if name != "data" or value.get("type") in _TEXT_SOURCES:
                yield from _texts(value.get(name), depth + 1)

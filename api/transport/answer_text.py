"""The text of answers: compact JSON, and the pieces of a stream. Pure; any thread."""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

# Only ASCII, because some clients split a stream's lines at U+0085 and U+2028 too.
_ENCODER = json.JSONEncoder(separators=(",", ":"))
# The keepalive of an event stream: a comment, which readers skip.
COMMENT = ": still here\n\n"


def json_text(value: Any) -> str:
    """Return a value as compact JSON text; fast for a plain string."""
    return _ENCODER.encode(value)


def long_json_text(value: Mapping[str, Any]) -> str:
    """Return the same as ``json_text``, in steps that let other threads run in between.

    For answers with megabytes of numbers: Python's encoder blocks all threads until it is done.
    """
    members = []
    for key, inner in value.items():
        is_list = isinstance(inner, list)
        text = f"[{','.join(map(json_text, inner))}]" if is_list else json_text(inner)
        members.append(f"{json_text(key)}:{text}")
    return f"{{{','.join(members)}}}"


class SseEvent(NamedTuple):
    """One event: its name, if the dialect names events, and its serialised data."""

    name: str | None
    data: str

    def frame(self) -> str:
        """Return the event as text of the stream."""
        if self.name is None:
            return f"data: {self.data}\n\n"
        return f"event: {self.name}\ndata: {self.data}\n\n"


# The last event of a stream of OpenAI's older APIs and of their relatives.
DONE = SseEvent(None, "[DONE]")


class JsonLine(NamedTuple):
    """One line of a stream of lines."""

    value: Mapping[str, Any]

    def frame(self) -> str:
        """Return the line as text of the stream."""
        return f"{json_text(self.value)}\n"


StreamFrame = SseEvent | JsonLine

"""The text of answers: compact JSON, and the pieces of a stream. Pure; any thread."""

import json
from collections.abc import Mapping
from typing import Any

# Only ASCII, because some clients split a stream's lines at U+0085 and U+2028 too.
_ENCODER = json.JSONEncoder(separators=(",", ":"))
# The keepalive of an event stream: a comment, which readers skip.
COMMENT = ": still here\n\n"
# The last event of a stream of OpenAI's older APIs and of their relatives.
DONE = "data: [DONE]\n\n"


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


def sse_event(data: str, name: str | None = None) -> str:
    """Return an event of a stream: its serialised data, and its name if the dialect names events.

    https://html.spec.whatwg.org/multipage/server-sent-events.html
    """
    return f"data: {data}\n\n" if name is None else f"event: {name}\ndata: {data}\n\n"


def json_line(value: Mapping[str, Any]) -> str:
    """Return a line of a stream of lines."""
    return f"{json_text(value)}\n"

"""The text of answers: compact JSON, and the pieces of a stream. Pure; any thread."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from api.transport.errors import ApiError
from engine import Event

# Only ASCII, because some clients split a stream's lines at U+0085 and U+2028 too.
_ENCODER = json.JSONEncoder(separators=(",", ":"))
# How many items of a long list are encoded in one step. The largest items, tokens with the logprobs
# of twenty others, have 1.5 kB each.
_STEP = 128


def json_text(value: Any) -> str:
    """Return a value as compact JSON text; fast for a plain string."""
    return _ENCODER.encode(value)


def json_with(value: Mapping[str, Any], encoded: Mapping[str, str]) -> str:
    """Return an object as compact JSON text; some of its values are already encoded.

    Args:
        value: The object; its own values for the keys of ``encoded`` are ignored.
        encoded: The JSON text of the encoded values, by key.
    """
    members = (
        f"{json_text(key)}:{encoded[key] if key in encoded else json_text(inner)}"
        for key, inner in value.items()
    )
    return f"{{{','.join(members)}}}"


def long_json_text(value: Any) -> str:
    """Return the same as ``json_text``, in small steps that let other threads run in between.

    For answers of megabytes: Python's own encoder blocks all threads until it is done.
    """
    return "".join(_parts(value))


def _parts(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        before = "{"
        for key, inner in value.items():
            yield f"{before}{json_text(key)}:"
            yield from _parts(inner)
            before = ","
        yield "}" if value else "{}"
    elif isinstance(value, list) and len(value) > _STEP:
        before = "["
        for start in range(0, len(value), _STEP):
            yield f"{before}{json_text(value[start : start + _STEP])[1:-1]}"
            before = ","
        yield "]"
    elif isinstance(value, list):
        before = "["
        for inner in value:
            yield before
            yield from _parts(inner)
            before = ","
        yield "]" if value else "[]"
    else:
        yield json_text(value)


class GrowingJsonText:
    """A JSON string that grows at its end. Earlier text is not encoded again."""

    def __init__(self) -> None:
        self._json = '"'
        self._added: list[str] = []

    def add(self, text: str) -> None:
        """Add text at its end."""
        # Each character is escaped by itself, so pieces can be encoded one by one.
        self._added.append(json_text(text)[1:-1])

    def json(self) -> str:
        """Return the same as ``json_text`` for the whole value."""
        if self._added:
            self._json = "".join((self._json, *self._added))
            self._added.clear()
        return f'{self._json}"'


class GrowingList:
    """A JSON list that grows at its end. Earlier items are not encoded again."""

    def __init__(self) -> None:
        self._json = "["
        self._added: list[Any] = []

    def add(self, items: Iterable[Any]) -> None:
        """Add items at its end."""
        self._added.extend(items)

    def add_json(self, items: str) -> None:
        """Add the items of a list that ``json_text`` has encoded."""
        self._settle()
        self._append(items[1:-1])

    def json(self) -> str:
        """Return the same as ``json_text`` for the whole value."""
        self._settle()
        return f"{self._json}]"

    def _settle(self) -> None:
        if self._added:
            self._append(json_text(self._added)[1:-1])
            self._added.clear()

    def _append(self, items: str) -> None:
        if items:
            comma = "," if len(self._json) > 1 else ""
            self._json = f"{self._json}{comma}{items}"


# The keepalive of an event stream: a comment, which readers skip.
COMMENT = ": still here\n\n"


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


class StreamFrame(Protocol):
    """A piece of a stream."""

    def frame(self) -> str:
        """Return it as text of the stream."""
        ...


class StreamEncoder(Protocol):
    """Renders a running answer in a dialect; pure except for its own state."""

    @property
    def failure(self) -> ApiError | None:
        """Why the answer failed; the stream ends with this error."""
        ...

    def encode(self, events: Sequence[Event], choice: int = 0) -> Sequence[StreamFrame]:
        """Return the frames for some events of the ``choice``-th generation."""
        ...

    def fail(self, error: ApiError) -> Sequence[StreamFrame]:
        """Return the frames that report a failed answer."""
        ...

    def keepalive(self) -> str:
        """Return the dialect's keepalive."""
        ...

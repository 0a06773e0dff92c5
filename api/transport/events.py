"""The pieces of a stream as values, and the protocol of a dialect's stream encoder.

Pure; knows no vendor and no web framework. Any thread.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from api.transport.errors import ApiError
from engine import Event

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

"""Pieces of a stream as values, and what an encoder of a dialect's stream has to offer.

Pure; knows no vendor and no web framework. Any thread.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from api.transport.errors import ApiError
from engine import Event

# What breaks the silence of an event stream: readers skip comments.
COMMENT = ": still here\n\n"


class SseEvent(NamedTuple):
    """One event: its name where the dialect names events, and its data, already serialised."""

    name: str | None
    data: str

    def frame(self) -> str:
        """Return the event as it stands in the stream."""
        if self.name is None:
            return f"data: {self.data}\n\n"
        return f"event: {self.name}\ndata: {self.data}\n\n"


# The word that ends the streams of OpenAI's older APIs and of their relatives.
DONE = SseEvent(None, "[DONE]")


class StreamFrame(Protocol):
    """A piece of a stream."""

    def frame(self) -> str:
        """Return it as it stands in the stream."""
        ...


class StreamEncoder(Protocol):
    """A dialect's rendering of a running answer; pure but for its own state."""

    @property
    def failure(self) -> ApiError | None:
        """Why the answer broke off; the stream ends with it."""
        ...

    def encode(self, events: Sequence[Event], choice: int = 0) -> Sequence[StreamFrame]:
        """Return what the dialect says about some events of its ``choice``-th generation."""
        ...

    def fail(self, error: ApiError) -> Sequence[StreamFrame]:
        """Return what the dialect says when the answer breaks off."""
        ...

    def keepalive(self) -> str:
        """Return what breaks a silence and says nothing."""
        ...

"""What an observer is told of requests, and the notes that are taken of one while it is answered.

Without an observer nothing here is made and no body is kept. Knows no web framework; runs on the
server's loop.
"""

from collections import deque
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Protocol

from engine.events import Event, Finished, TokenTrace, ToolCallDelta
from engine.generation import Generation
from engine.request import GenerationRequest, TraceLevel

KEPT_BYTES = 256 * 1024
_MOST_EVENTS = 20_000
_RECORDED = (TokenTrace, ToolCallDelta, Finished)


@dataclass(frozen=True, slots=True)
class RequestBegan:
    """A request has arrived. Secrets have been taken out of all texts.

    Attributes:
        request_id: Its id, as the response's headers have it.
        began_at: Seconds since the epoch.
        client: The address that it came from.
        method: The HTTP method.
        path: Path and query.
        dialect: Name of the dialect it speaks; empty for routes of no dialect.
        headers: Names and values, in their order.
    """

    request_id: str
    began_at: float
    client: str
    method: str
    path: str
    dialect: str
    headers: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Body:
    """As much of a body as is kept.

    Attributes:
        text: Its first part, decoded.
        size_bytes: How long the whole of it was.
        is_whole: Whether ``text`` is all of it.
    """

    text: str = ""
    size_bytes: int = 0
    is_whole: bool = True


@dataclass(frozen=True, slots=True)
class TracedRun:
    """A generation with what was recorded of it.

    Attributes:
        generation: What was asked for, and under which circumstances.
        events: Its tokens, tool calls and end; of a long one the newest.
    """

    generation: Generation
    events: tuple[Event, ...]


@dataclass(frozen=True, slots=True)
class RequestEnded:
    """A request has been answered, or its client has left.

    Attributes:
        began: What was known at its beginning.
        took_s: From its arrival to the last byte of the answer.
        status: The HTTP status; 499 where the client left before the end.
        is_stream: Whether the answer was written as a stream.
        model: Id of the model that answered; empty where none did.
        asked: The request's body.
        answered: The response's body.
        answer_headers: Names and values of the response's headers.
        ends: How its generations ended; those that did not in time are left out.
        runs: Its generations, as far as the observer wanted to know of their tokens.
    """

    began: RequestBegan
    took_s: float
    status: int
    is_stream: bool
    model: str
    asked: Body
    answered: Body
    answer_headers: tuple[tuple[str, str], ...]
    ends: tuple[Finished, ...]
    runs: tuple[TracedRun, ...] = ()


class RequestObserver(Protocol):
    """Whoever wants to know of requests. Called on the server's loop; must return at once."""

    def wanted_trace(self) -> tuple[TraceLevel, int]:
        """Return how much of each token is wanted, and how many alternatives of it."""

    def request_began(self, began: RequestBegan) -> None:
        """A request has arrived."""

    def request_ended(self, ended: RequestEnded) -> None:
        """A request has ended; each that began ends once."""


class KeptBytes:
    """The first bytes of a body that may be long."""

    def __init__(self, most_bytes: int = KEPT_BYTES) -> None:
        self._most_bytes = most_bytes
        self._kept = bytearray()
        self.size_bytes = 0

    def add(self, data: bytes) -> None:
        """Take more of it."""
        self.size_bytes += len(data)
        room = self._most_bytes - len(self._kept)
        if room > 0:
            self._kept += data[:room]

    def body(self, clean: Callable[[str], str]) -> Body:
        """Return what was kept, cleaned of secrets."""
        text = self._kept.decode("utf-8", "replace")
        is_whole = len(self._kept) == self.size_bytes
        return Body(clean(text if is_whole else text.rstrip("\ufffd")), self.size_bytes, is_whole)


class Observation:
    """The notes taken of one request while it is answered.

    Args:
        trace: How much of each token is wanted, and how many alternatives of it.
    """

    def __init__(self, trace: tuple[TraceLevel, int] = (TraceLevel.OFF, 0)) -> None:
        self.trace = trace
        self._heard: list[tuple[Generation, deque[Event]]] = []
        self.asked = KeptBytes()
        self.answered = KeptBytes()
        self.is_stream = False
        self.is_delivered = False
        self.model = ""
        self.generations: list[Generation] = []

    @property
    def runs(self) -> tuple[TracedRun, ...]:
        """What was recorded of the generations."""
        return tuple(TracedRun(one, tuple(events)) for one, events in self._heard)

    def listen_to(self, generation: Generation, *, hides_traces: bool) -> None:
        """Record a generation's tokens as they are read."""
        events: deque[Event] = deque(maxlen=_MOST_EVENTS)
        self._heard.append((generation, events))

        def hear(batch: list[Event]) -> None:
            events.extend(event for event in batch if isinstance(event, _RECORDED))

        generation.listen(hear, hides_traces=hides_traces)


_current: ContextVar[Observation | None] = ContextVar("observation", default=None)


def observe(observation: Observation) -> None:
    """Let the notes of the present request's task, and of tasks it starts, go here."""
    _current.set(observation)


def traced(request: GenerationRequest) -> GenerationRequest:
    """Return a request that asks for as much of each token as the observer wants to know."""
    observation = _current.get()
    if observation is None or request.trace is not TraceLevel.OFF:
        return request
    level, count = observation.trace
    if level is TraceLevel.OFF:
        return request
    return replace(request, trace=level, top_logprobs=count if level is TraceLevel.FULL else 0)


def note_generation(generation: Generation, model: str, asked: GenerationRequest) -> None:
    """Note that a generation belongs to the request that is being answered.

    Args:
        generation: The generation, none of whose events has been read.
        model: Id of the model that answers.
        asked: What the client asked for, before ``traced``.
    """
    observation = _current.get()
    if observation is None:
        return
    observation.generations.append(generation)
    observation.model = model
    if TraceLevel.OFF not in (generation.request.trace, observation.trace[0]):
        observation.listen_to(generation, hides_traces=asked.trace is TraceLevel.OFF)


def note_streamed(data: bytes) -> None:
    """Note that a part of a stream was written."""
    observation = _current.get()
    if observation is not None:
        observation.is_stream = True
        observation.answered.add(data)


def note_stream_delivered() -> None:
    """Note that the end of a stream was written: a client that leaves now has it all."""
    observation = _current.get()
    if observation is not None:
        observation.is_delivered = True

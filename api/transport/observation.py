"""What an observer learns of requests, and the record of a request while it is answered.

An observer gets the request that the engine ran, its events, and the first part of each body, so
that it need not parse bodies to learn what happened. Without an observer nothing is recorded and no
body is kept. Knows no web framework; runs on the server's loop.
"""

from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from enum import Flag, auto
from typing import Protocol, TypedDict, Unpack

from api.transport.errors import ErrorKind
from engine import (
    Event,
    Finished,
    GenerationRequest,
    RunSetting,
    TextDelta,
    ThinkingDelta,
    TokenTrace,
    ToolCallCompleted,
    TraceLevel,
    Vocabulary,
)

KEPT_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True)
class Body:
    """The kept part of a body.

    Attributes:
        text: Its first part, decoded.
        size_bytes: The size of the whole body.
        is_whole: Whether ``text`` is all of it.
    """

    text: str = ""
    size_bytes: int = 0
    is_whole: bool = True


class KeptBytes:
    """The first bytes of a body that may be long."""

    def __init__(self, max_bytes: int = KEPT_BYTES) -> None:
        self._max_bytes = max_bytes
        self._kept = bytearray()
        self.size_bytes = 0

    def add(self, data: bytes) -> None:
        """Add the next bytes of the body."""
        self.size_bytes += len(data)
        room = self._max_bytes - len(self._kept)
        if room > 0:
            self._kept += data[:room]

    def body(self, clean: Callable[[str], str]) -> Body:
        """Return the kept part, with secrets removed."""
        text = self._kept.decode("utf-8", "replace")
        is_whole = len(self._kept) == self.size_bytes
        return Body(clean(text if is_whole else text.rstrip("\ufffd")), self.size_bytes, is_whole)


MOST_TOKENS = 20_000


class Content(Flag):
    """How much of a request's content is kept for an observer."""

    NONE = 0
    TEXTS = auto()
    BODIES = auto()


EVERYTHING = Content.TEXTS | Content.BODIES


@dataclass(frozen=True, slots=True)
class RequestBegan:
    """A request has arrived. Secrets have been removed from all texts.

    Attributes:
        request_id: Its id, as in the response's headers.
        began_at: Seconds since the epoch.
        client: The client's address.
        method: The HTTP method.
        path: Path and query.
        dialect: Name of its dialect; empty for routes that belong to no dialect.
        headers: Names and values, in their order.
        route: The route's path as the table spells it, without anything chosen by the client; empty
            for an unknown route.
        operation: What the model is asked to do, in the terms of OpenTelemetry's conventions; empty
            for routes whose answer the model does not generate.
        server: The address and the port at which it arrived; None if not known.
    """

    request_id: str
    began_at: float
    client: str
    method: str
    path: str
    dialect: str
    headers: tuple[tuple[str, str], ...]
    route: str = ""
    operation: str = ""
    server: tuple[str, int] | None = None


class ServedAnswer(Protocol):
    """One answer that is being generated. ``engine.Generation`` says what each part means.

    A recorded answer has the same parts.
    """

    request: GenerationRequest
    prompt_tokens: int
    written_tokens: int
    setting: RunSetting
    vocabulary: Vocabulary | None
    finished: Finished | None
    not_applied: tuple[str, ...]

    def cancel(self) -> None:
        """End the answer within one step."""

    def listen(self, listener: Callable[[list[Event]], None], *, hides_traces: bool) -> None:
        """Pass the events to a listener as well, as they are read.

        Args:
            listener: Called with each batch of events.
            hides_traces: Whether traces of tokens are hidden from the reader.
        """

    def batches(self) -> AsyncIterator[list[Event]]:
        """Yield the events as they arrive; ends after ``Finished``."""
        ...

    async def ended(self) -> Finished:
        """Wait until the end has been read, and return it."""
        ...


@dataclass(eq=False, slots=True)
class ObservedRun:
    """A generation with its events.

    Attributes:
        generation: The generation. Its texts are those that the model read: secrets are not removed
            from them.
        texts: The answer, piece by piece.
        thoughts: The reasoning, piece by piece.
        calls: The tool calls.
        tokens: The newest tokens, in as much detail as the observer wanted.
        finished: Why it ended; None until that is known.
    """

    generation: ServedAnswer
    texts: list[str] = field(default_factory=list)
    thoughts: list[str] = field(default_factory=list)
    calls: list[ToolCallCompleted] = field(default_factory=list)
    tokens: deque[TokenTrace] = field(default_factory=lambda: deque(maxlen=MOST_TOKENS))
    finished: Finished | None = None

    def record_finish(self, batch: list[Event]) -> None:
        """Record only how it ended."""
        if isinstance(batch[-1], Finished):
            self.finished = batch[-1]

    def record(self, batch: list[Event]) -> None:
        """Record the events that the generation's reader receives."""
        for event in batch:
            match event:
                case TokenTrace():
                    self.tokens.append(event)
                case TextDelta():
                    self.texts.append(event.text)
                case ThinkingDelta():
                    self.thoughts.append(event.text)
                case ToolCallCompleted():
                    self.calls.append(event)
                case Finished():
                    self.finished = event
                case _:
                    pass


@dataclass(frozen=True, slots=True)
class RequestAdvanced:
    """A request has named its model, or the engine has accepted an answer to it.

    Attributes:
        began: The request as it began.
        model: Id of the model that answers; empty while none does.
        asked_model: The model that the client named; empty if it named none.
        answers: The answers that are being generated.
    """

    began: RequestBegan
    model: str
    asked_model: str
    answers: tuple[ServedAnswer, ...]


@dataclass(frozen=True, slots=True)
class RequestEnded:
    """A request has been answered, or its client has left.

    Attributes:
        began: The request as it began.
        took_s: From its arrival to the last byte of the answer.
        status: The HTTP status; 499 if the client disconnected before the end.
        is_stream: Whether the answer was written as a stream.
        model: Id of the model that answered; empty if none did.
        asked: The request's body.
        answered: The response's body.
        answer_headers: Names and values of the response's headers.
        runs: The generations that answered it, without those still running when the server ended.
        asked_model: The model that the client named; empty if it named none.
        wants_stream: Whether the client asked for a stream.
        wanted: The generations that the engine was asked for, accepted or not.
        failure: The kind of error that the client received; None if there was none.
        answer_id: The id of the answer as the client gets it; empty if it has none.
        embedded_tokens: How many tokens became vectors; None if none did.
    """

    began: RequestBegan
    took_s: float
    status: int
    asked: Body
    answered: Body
    answer_headers: tuple[tuple[str, str], ...]
    is_stream: bool = False
    model: str = ""
    runs: tuple[ObservedRun, ...] = ()
    asked_model: str = ""
    wants_stream: bool = False
    wanted: Sequence[GenerationRequest] = ()
    failure: ErrorKind | None = None
    answer_id: str = ""
    embedded_tokens: int | None = None

    @property
    def ends(self) -> tuple[Finished, ...]:
        """The ends of its generations."""
        return tuple(run.finished for run in self.runs if run.finished is not None)


class Facts(TypedDict, total=False):
    """What is learned of a request while it is answered; ``RequestEnded`` says what it means."""

    is_stream: bool
    model: str
    asked_model: str
    wants_stream: bool
    wanted: Sequence[GenerationRequest]
    failure: ErrorKind
    answer_id: str
    embedded_tokens: int


class RequestObserver(Protocol):
    """Is told when requests begin and end. Called on the server's loop; must return at once."""

    def requested_trace(self) -> tuple[TraceLevel, int]:
        """Return how much detail of each token is wanted, and how many alternatives."""

    def requested_content(self) -> Content:
        """Return how much of a request's content to keep."""
        ...

    def request_began(self, began: RequestBegan) -> None:
        """A request has arrived."""

    def request_advanced(self, advanced: RequestAdvanced) -> None:
        """More is known about a request that is being answered."""

    def request_ended(self, ended: RequestEnded) -> None:
        """A request has ended; called exactly once for each that began."""


class Observation:
    """The record of one request while it is answered.

    Args:
        trace: How much detail of each token is wanted, and how many alternatives.
        content: How much of the request's content is kept.
    """

    def __init__(
        self,
        trace: tuple[TraceLevel, int] = (TraceLevel.OFF, 0),
        content: Content = EVERYTHING,
    ) -> None:
        self.trace = trace
        self.content = content
        self.asked = KeptBytes()
        self.answered = KeptBytes()
        self.is_delivered = False
        self.facts: Facts = {}
        self.runs: list[ObservedRun] = []
        # Called when the model is named, and when an answer begins.
        self.tell_advanced: Callable[[], None] = lambda: None

    def advanced(self, began: RequestBegan) -> RequestAdvanced:
        """Return what is known about the request by now."""
        answers = tuple(run.generation for run in self.runs)
        facts = self.facts
        return RequestAdvanced(began, facts.get("model", ""), facts.get("asked_model", ""), answers)

    def listen_to(self, generation: ServedAnswer, *, hides_traces: bool) -> None:
        """Record the events of a generation as they are read."""
        run = ObservedRun(generation)
        if self.trace[0] is TraceLevel.OFF:
            run.tokens = deque(maxlen=0)  # the client's traces are not wanted here
        self.runs.append(run)
        keeps_texts = Content.TEXTS in self.content
        listener = run.record if keeps_texts else run.record_finish
        generation.listen(listener, hides_traces=hides_traces)


_current: ContextVar[Observation | None] = ContextVar("observation", default=None)


def observe(observation: Observation) -> None:
    """Record here what this task, and the tasks that it starts, do for the current request."""
    _current.set(observation)


def traced(request: GenerationRequest) -> GenerationRequest:
    """Return a request that asks for as much detail of each token as the observer wants."""
    observation = _current.get()
    if observation is None or request.trace is not TraceLevel.OFF:
        return request
    level, count = observation.trace
    if level is TraceLevel.OFF:
        return request
    return replace(request, trace=level, top_logprobs=count if level is TraceLevel.FULL else 0)


def note_generation(generation: ServedAnswer, model: str, asked: GenerationRequest) -> None:
    """Record that a generation belongs to the request that is being answered."""
    observation = _current.get()
    if observation is None:
        return
    observation.facts["model"] = model
    is_ours = generation.request.trace is not asked.trace  # only ``traced`` asked for traces
    observation.listen_to(generation, hides_traces=is_ours)
    observation.tell_advanced()


def note(**facts: Unpack[Facts]) -> None:
    """Record facts of the request that is being answered."""
    observation = _current.get()
    if observation is not None:
        observation.facts.update(facts)
        if "wanted" in facts:
            observation.tell_advanced()


def note_streamed(data: bytes) -> None:
    """Record that a part of a stream was written."""
    observation = _current.get()
    if observation is not None:
        observation.facts["is_stream"] = True
        if Content.BODIES in observation.content:
            observation.answered.add(data)


def note_stream_delivered() -> None:
    """Record that the end of a stream was written: a client that leaves now has everything."""
    observation = _current.get()
    if observation is not None:
        observation.is_delivered = True


class Observers:
    """Several observers that are told as one.

    Args:
        observers: The observers; each receives whatever any of them asked for.
    """

    def __init__(self, observers: Sequence[RequestObserver]) -> None:
        self._observers = tuple(observers)

    def requested_trace(self) -> tuple[TraceLevel, int]:
        """Return the most detailed token trace that any of them wants."""
        levels = list(TraceLevel)
        return max(
            (observer.requested_trace() for observer in self._observers),
            key=lambda wanted: (levels.index(wanted[0]), wanted[1]),
            default=(TraceLevel.OFF, 0),
        )

    def requested_content(self) -> Content:
        """Return the content that any of them wants to have kept."""
        content = Content.NONE
        for observer in self._observers:
            content |= observer.requested_content()
        return content

    def request_began(self, began: RequestBegan) -> None:
        """Tell all of them."""
        for observer in self._observers:
            observer.request_began(began)

    def request_advanced(self, advanced: RequestAdvanced) -> None:
        """Tell all of them."""
        for observer in self._observers:
            observer.request_advanced(advanced)

    def request_ended(self, ended: RequestEnded) -> None:
        """Tell all of them."""
        for observer in self._observers:
            observer.request_ended(ended)

"""What an observer is told of requests, and the notes that are taken of one while it is answered.

An observer gets the request that the engine ran and the events that came, beside the first part of
each body: nobody has to parse those bytes to learn what happened. Without an observer nothing here
is made and no body is kept. Knows no web framework; runs on the server's loop.
"""

from collections import deque
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from enum import Flag, auto
from typing import Protocol

from api.transport.bodies.kept_bodies import Body, KeptBytes
from api.transport.errors import ErrorKind
from api.transport.served_engine import ServedAnswer
from engine import (
    Event,
    Finished,
    GenerationRequest,
    TextDelta,
    ThinkingDelta,
    TokenTrace,
    ToolCallCompleted,
    TraceLevel,
)

MOST_TOKENS = 20_000


class Content(Flag):
    """What of a request's content is kept for an observer."""

    NONE = 0
    TEXTS = auto()
    BODIES = auto()


EVERYTHING = Content.TEXTS | Content.BODIES


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
        route: The route's own path, which holds nothing that the client made up; empty where
            there is no such route.
        operation: What the model is asked for, in the words of OpenTelemetry's conventions; empty
            for routes without an answer of the model.
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


@dataclass(eq=False, slots=True)
class ObservedRun:
    """A generation with all that came of it.

    Attributes:
        generation: The request that ran, and under which circumstances. Its texts are what the
            model was given: no secret is taken out of them.
        texts: The answer, piece by piece.
        thoughts: The reasoning, piece by piece.
        calls: The tool calls.
        tokens: The newest tokens, as far as the observer wanted to know of them.
        finished: Why it ended; None until that is known.
    """

    generation: ServedAnswer
    texts: list[str] = field(default_factory=list)
    thoughts: list[str] = field(default_factory=list)
    calls: list[ToolCallCompleted] = field(default_factory=list)
    tokens: deque[TokenTrace] = field(default_factory=lambda: deque(maxlen=MOST_TOKENS))
    finished: Finished | None = None

    def hear_the_end(self, batch: list[Event]) -> None:
        """Note only how it ended."""
        if isinstance(batch[-1], Finished):
            self.finished = batch[-1]

    def hear(self, batch: list[Event]) -> None:
        """Note what the generation's reader is being given."""
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
class RequestEnded:
    """A request has been answered, or its client has left.

    Attributes:
        began: What was known at its beginning.
        took_s: From its arrival to the last byte of the answer.
        status: The HTTP status; 499 where the client disconnected before the end.
        is_stream: Whether the answer was written as a stream.
        model: Id of the model that answered; empty where none did.
        asked: The request's body.
        answered: The response's body.
        answer_headers: Names and values of the response's headers.
        runs: The generations that answered it; those that the server did not outlive are left out.
        asked_model: The model that the client named; empty where it named none.
        wants_stream: Whether the client asked for a stream.
        wanted: What the engine was asked for, whether or not it accepted that.
        failure: The kind of error that the client was told of; None where there was none.
    """

    began: RequestBegan
    took_s: float
    status: int
    is_stream: bool
    model: str
    asked: Body
    answered: Body
    answer_headers: tuple[tuple[str, str], ...]
    runs: tuple[ObservedRun, ...] = ()
    asked_model: str = ""
    wants_stream: bool = False
    wanted: Sequence[GenerationRequest] = ()
    failure: ErrorKind | None = None

    @property
    def ends(self) -> tuple[Finished, ...]:
        """How its generations ended."""
        return tuple(run.finished for run in self.runs if run.finished is not None)


class RequestObserver(Protocol):
    """Whoever wants to know of requests. Called on the server's loop; must return at once."""

    def wanted_trace(self) -> tuple[TraceLevel, int]:
        """Return how much of each token is wanted, and how many alternatives of it."""

    def wanted_content(self) -> Content:
        """Return what of the request's content is to be kept."""
        ...

    def request_began(self, began: RequestBegan) -> None:
        """A request has arrived."""

    def request_ended(self, ended: RequestEnded) -> None:
        """A request has ended; each that began ends once."""


class Observation:
    """The notes taken of one request while it is answered.

    Args:
        trace: How much of each token is wanted, and how many alternatives of it.
        content: What of the request's content is kept.
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
        self.is_stream = False
        self.is_delivered = False
        self.model = ""
        self.asked_model = ""
        self.wants_stream = False
        self.wanted: Sequence[GenerationRequest] = ()
        self.failure: ErrorKind | None = None
        self.runs: list[ObservedRun] = []

    def listen_to(self, generation: ServedAnswer, *, hides_traces: bool) -> None:
        """Note what comes of a generation as it is read."""
        run = ObservedRun(generation)
        if self.trace[0] is TraceLevel.OFF:
            run.tokens = deque(maxlen=0)  # the client may have asked for tokens; the observer not
        self.runs.append(run)
        keeps_texts = Content.TEXTS in self.content
        hear = run.hear if keeps_texts else run.hear_the_end
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


def note_generation(generation: ServedAnswer, model: str, asked: GenerationRequest) -> None:
    """Note that a generation belongs to the request that is being answered.

    Args:
        generation: The generation, none of whose events has been read.
        model: Id of the model that answers.
        asked: What the client asked for, before ``traced``.
    """
    observation = _current.get()
    if observation is None:
        return
    observation.model = model
    is_ours = generation.request.trace is not asked.trace  # ``traced`` asked, the client did not
    observation.listen_to(generation, hides_traces=is_ours)


def note_wanted(
    wanted: Sequence[GenerationRequest], asked_model: str, *, wants_stream: bool
) -> None:
    """Note what a request asks the engine for, before it is accepted.

    Args:
        wanted: The generations.
        asked_model: The model that the client named.
        wants_stream: Whether it asked for a stream.
    """
    observation = _current.get()
    if observation is not None:
        observation.wants_stream = wants_stream
        observation.wanted = wanted
        observation.asked_model = asked_model


def note_failure(kind: ErrorKind) -> None:
    """Note the kind of error that is sent to the client."""
    observation = _current.get()
    if observation is not None:
        observation.failure = kind


def note_streamed(data: bytes) -> None:
    """Note that a part of a stream was written."""
    observation = _current.get()
    if observation is not None:
        observation.is_stream = True
        if Content.BODIES in observation.content:
            observation.answered.add(data)


def note_stream_delivered() -> None:
    """Note that the end of a stream was written: a client that leaves now has it all."""
    observation = _current.get()
    if observation is not None:
        observation.is_delivered = True

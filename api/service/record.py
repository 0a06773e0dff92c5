"""The record of one HTTP request, and the observers that receive it.

Runs on the server's loop. Without an observer no content is recorded.
"""

import base64
import binascii
import hashlib
import re
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from api.service.errors import ErrorKind
from api.service.redaction import safe_body
from engine import Generation
from engine.values.events import (
    Event,
    Finished,
    PromptDifference,
    TextDelta,
    ThinkingDelta,
    TokenTrace,
    ToolCallCompleted,
)
from engine.values.request import GenerationRequest, TraceLevel

MAX_BODY_BYTES = 256 * 1024
MAX_TOKENS = 20_000
# The status of a request whose client disconnected before the end of the answer.
CLIENT_DISCONNECTED = 499
# A picture in base64 in JSON: as files of PNG, GIF, WebP and JPEG begin.
_PICTURE = re.compile(
    rb'(?<=[",])(?:iVBORw0KGgo|R0lGOD|UklGR|(?:\\)?/9j)(?:[A-Za-z0-9+/]++|\\[nr/])++={0,2}'
)
_MIN_PICTURE = 64


class RecordedBody:
    """The first part of a body, and its whole size; ``secret`` is never in its text.

    Its pictures are recorded as their size and digest.
    """

    def __init__(self, data: bytes = b"", secret: str | None = None) -> None:
        self.size_bytes = 0
        self.is_whole = True
        self._secret = secret
        self._prefix = bytearray()
        self.add(data)

    @property
    def text(self) -> str:
        """The recorded part, decoded, without secrets."""
        text = self._prefix.decode("utf-8", "replace")
        return safe_body(text if self.is_whole else text.rstrip("\ufffd"), self._secret)

    def add(self, data: bytes | bytearray) -> None:
        self.size_bytes += len(data)
        if len(data) > _MIN_PICTURE:
            data = _PICTURE.sub(_digest_picture, data)
        room = MAX_BODY_BYTES - len(self._prefix)
        self.is_whole = self.is_whole and len(data) <= room
        self._prefix += data[:room]


def _digest_picture(match: re.Match[bytes]) -> bytes:
    text = re.sub(rb"\\[nr]|\\", b"", match[0])
    if len(text) < _MIN_PICTURE:
        return match[0]
    try:
        data = base64.b64decode(text)
    except binascii.Error:
        data = text
    digest = hashlib.sha256(data).hexdigest()[:16]
    return f"[picture of {len(data):,} bytes, SHA-256 {digest}]".encode()


@dataclass(eq=False, slots=True)
class RecordedRun:
    """A generation with its events."""

    generation: Generation
    texts: list[str] = field(default_factory=list)
    thoughts: list[str] = field(default_factory=list)
    calls: list[ToolCallCompleted] = field(default_factory=list)
    tokens: deque[TokenTrace] = field(default_factory=lambda: deque(maxlen=MAX_TOKENS))
    finished: Finished | None = None

    def record(self, batch: list[Event]) -> None:
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


@dataclass(eq=False, slots=True)
class RequestRecord:
    """One HTTP request, from its arrival to the last byte of its answer.

    Attributes:
        began_at: Seconds since the epoch.
        route: The route's path as the table spells it; empty for an unknown route.
        operation: The operation's name in OpenTelemetry's conventions; empty for routes whose
            answer the model does not generate.
        client_id: The client's name in caches and kept answers: others get nothing of it.
        field_names: The request's own names of engine fields, for errors.
        embedded_tokens: How many tokens became vectors or scores; None if none did.
    """

    request_id: str = ""
    began_at: float = 0.0
    client: str = ""
    method: str = ""
    path: str = ""
    dialect: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    route: str = ""
    operation: str = ""
    server: tuple[str, int] | None = None
    trace: tuple[TraceLevel, int] = (TraceLevel.OFF, 0)
    observers: Sequence["RequestObserver"] = ()
    client_id: str = ""
    took_s: float = 0.0
    status: int = 500
    is_stream: bool = False
    is_delivered: bool = False
    wants_stream: bool = False
    model: str = ""
    requested_model: str = ""
    requests: Sequence[GenerationRequest] = ()
    runs: list[RecordedRun] = field(default_factory=list)
    generations: list[Generation] = field(default_factory=list)
    failure: ErrorKind | None = None
    answer_id: str = ""
    field_names: Mapping[str, str] = field(default_factory=dict)
    embedded_tokens: int | None = None
    tools_left_out: tuple[str, ...] = ()
    not_applied: tuple[str, ...] = ()
    task_limit: int | None = None
    request_body: RecordedBody = field(default_factory=RecordedBody)
    response_body: RecordedBody = field(default_factory=RecordedBody)
    response_headers: tuple[tuple[str, str], ...] = ()

    @property
    def ends(self) -> tuple[Finished, ...]:
        return tuple(run.finished for run in self.runs if run.finished is not None)

    @property
    def no_effect(self) -> tuple[str, ...]:
        """The parts of the request without effect on its answers, tools of left-out kinds too."""
        kinds = (f"tools ({kind})" for kind in self.tools_left_out)
        return tuple(dict.fromkeys((*self.not_applied, *kinds)))

    @property
    def prompt_difference(self) -> PromptDifference | None:
        """The place in which a prompt first differs from an earlier one, and was read again."""
        ends = [each.finished for each in self.generations if each.finished is not None]
        found = (end.usage.prompt_difference for end in ends)
        return next((difference for difference in found if difference is not None), None)

    def add_trace(self, request: GenerationRequest) -> GenerationRequest:
        """Return a request with as much detail of each token as the observers want."""
        level, count = self.trace
        if level is TraceLevel.OFF or request.trace is not TraceLevel.OFF:
            return request
        return replace(request, trace=level, top_logprobs=count if level is TraceLevel.FULL else 0)

    def advance(self) -> None:
        """Report to the observers that the model is named, or that an answer begins."""
        for observer in self.observers:
            observer.request_advanced(self)

    def add_run(self, generation: Generation, model: str, *, hides_traces: bool) -> None:
        self.model = model
        self.generations.append(generation)
        if not self.observers:
            return
        run = RecordedRun(generation)
        if self.trace[0] is TraceLevel.OFF:
            run.tokens = deque(maxlen=0)  # the traces that the client wants are not recorded
        self.runs.append(run)
        generation.listen(run.record, hides_traces=hides_traces)
        self.advance()

    def add_streamed(self, data: bytes) -> None:
        self.is_stream = True
        if self.observers:
            self.response_body.add(data)


class RequestObserver:
    """Receives the record of each request when it begins, advances and ends.

    Called on the server's loop; must return at once. ``request_ended`` is called exactly once for
    each request that began.
    """

    def requested_trace(self) -> tuple[TraceLevel, int]:
        """Return the detail of token traces to record, and the number of alternatives."""
        return TraceLevel.OFF, 0

    def request_began(self, record: RequestRecord) -> None:
        """A request has arrived."""

    def request_advanced(self, record: RequestRecord) -> None:
        """A request has named its model, or the engine has accepted an answer to it."""

    def request_ended(self, record: RequestRecord) -> None:
        """A request has been answered, or its client has disconnected."""

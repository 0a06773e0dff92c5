"""The run that the inspector shows, wherever it comes from, and what the application adds to it.

Plain values and a protocol; main thread.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Literal, Protocol

from engine import Finished, GenerationRequest, Timing, Usage
from engine.recording.replay import Recording, replay
from engine.recording.run_trace import RunTrace, trace_of
from engine.recording.saved_run import to_json
from ui.records.runs import Run, RunState
from ui.server.requests import RequestAnswer, RequestEntry
from ui.words import day_words


class RunSource(StrEnum):
    """Where a run comes from."""

    CHAT = "this window"
    PAST = "another conversation"
    REQUEST = "another app"
    FILE = "a saved run"


@dataclass(frozen=True, slots=True)
class ShownRun:
    """One run with everything that is known about it.

    Attributes:
        run: The request and its answer; grows while the answer streams.
        trace: Its tokens; None if none were recorded, or they were deleted.
        question: The last message of the user.
        source: Where it comes from.
        name: Its name in lists, such as the name of a file.
        asked: The request that ran, if it is known without a trace.
    """

    run: Run
    trace: RunTrace | None = None
    question: str = ""
    source: RunSource = RunSource.CHAT
    name: str = ""
    asked: GenerationRequest | None = None

    @property
    def request(self) -> GenerationRequest | None:
        """The request that ran; None for saved runs, and if nothing was recorded."""
        if self.asked is not None or self.trace is None:
            return self.asked
        return self.trace.request

    @property
    def can_be_replayed(self) -> bool:
        """Whether other stop lists can be tried on it."""
        return self.trace is not None and self.trace.can_be_replayed


def shown_answer(
    entry: RequestEntry, answer: RequestAnswer, trace: RunTrace | None = None
) -> ShownRun:
    """Return an answer to a request of another app."""
    request = answer.request
    run = Run(
        stops=request.stops.strings,
        max_tokens=request.max_tokens,
        model_id=entry.model,
        state=RunState.FINISHED,
        text=answer.text,
        thinking=answer.thinking,
        tool_calls=list(answer.tool_calls),
        finished=answer.finished,
        is_own=False,
        started_at=entry.began_at,
    )
    name = f"{entry.agent or entry.client}, {entry.method} {entry.path}"
    return ShownRun(run, trace, _question(request), RunSource.REQUEST, name, request)


def _question(request: GenerationRequest) -> str:
    """Return the last message of the user, or the text of the raw prompt."""
    if request.prompt is not None:
        return request.prompt if isinstance(request.prompt, str) else ""
    said = (message.content for message in reversed(request.messages) if message.role == "user")
    return next(said, "")


def saved_run(shown: ShownRun) -> str:
    """Return the text of the file in which a run that can be replayed is saved; takes a moment."""
    recording = None if shown.trace is None else shown.trace.recording()
    assert recording is not None, "only a run that can be replayed is saved"
    return to_json(recording, shown.question)


def shown_recording(recording: Recording, name: str, question: str = "") -> ShownRun:
    """Return a saved run as it is shown: its own stops are replayed over its tokens."""
    trace = trace_of(recording)
    played = replay(recording)
    stop = played.stop or recording.stop
    times = [token.time_s for token in trace.tokens] or [0.0]
    finished = Finished(
        stop,
        Usage(output_tokens=len(recording.tokens)),
        Timing(first_token_s=times[0], decode_s=times[-1] - times[0], total_s=times[-1]),
        speculation=recording.speculation,
    )
    run = Run(
        stops=recording.rules.strings,
        max_tokens=recording.max_tokens,
        model_id=recording.setting.model,
        state=RunState.FINISHED,
        text=played.text,
        thinking=played.thinking,
        tool_calls=list(played.calls),
        finished=finished,
        is_own=False,
    )
    return ShownRun(run, trace, question, RunSource.FILE, name)


def when_words(run: Run) -> str:
    """Return when a run began, in a few words; a dash where nobody recorded that."""
    if run.started_at <= 0:
        return "\u2013"
    time_of_day = datetime.fromtimestamp(run.started_at).strftime("%H:%M")
    return f"{day_words(run.started_at)} {time_of_day}"


def ended_words(run: Run) -> str:
    """Return how a run ended, in a few words."""
    if (said := run.verdict) is not None:
        return said.words.label
    return "Not sent" if run.is_over else "Answering\u2026"


# What the application provides: API views of a run, captures, the probe.

Severity = Literal["error", "warning", "note"]
CheckOutcome = Literal["held", "failed", "undecided", "skipped", "not asked"]


@dataclass(frozen=True, slots=True)
class WireView:
    """A run as one API sends it, byte for byte.

    Attributes:
        name: The API's name.
        path: Its route.
        request: The request's body.
        whole: The answer as one response, with its status line and headers.
        stream: The answer as a stream.
        curl: A curl command that sends the same request.
        python: A Python program that sends it with the vendor's own package.
    """

    name: str
    path: str
    request: str
    whole: str
    stream: str
    curl: str
    python: str


@dataclass(frozen=True, slots=True)
class CaptureFinding:
    """One thing that is wrong, or worth knowing, in a captured answer."""

    severity: Severity
    sentence: str
    excerpt: str = ""
    event_index: int | None = None


@dataclass(frozen=True, slots=True)
class CaptureView:
    """A captured answer, read.

    Attributes:
        title: What the answer is, in one line; if nothing was recognised, why.
        is_answer: Whether anything could be recognised.
        facts: Names and values.
        thinking: The reasoning.
        text: The answer's text.
        matched: The stop that the server names, if it is a string.
        findings: Its faults, worst first.
        events: Name and data of each event.
        report: All of it as text.
    """

    title: str
    is_answer: bool
    facts: tuple[tuple[str, str], ...] = ()
    thinking: str = ""
    text: str = ""
    matched: str | None = None
    findings: tuple[CaptureFinding, ...] = ()
    events: tuple[tuple[str, str], ...] = ()
    report: str = ""


@dataclass(frozen=True, slots=True)
class ProbeTarget:
    """Which server to probe, and how.

    Attributes:
        url: Its address.
        dialect: The name of the API; empty detects it.
        model: The model's name; empty takes the first that the server lists.
        api_key: Its key; empty for none. It is never saved.
    """

    url: str
    dialect: str = ""
    model: str = ""
    api_key: str = ""


@dataclass(frozen=True, slots=True)
class ProbeFault:
    """What a check found wrong.

    Attributes:
        sentence: What is wrong.
        evidence: What was expected, what the server sent, and the request as a command; by lines.
    """

    sentence: str
    evidence: str = ""


@dataclass(frozen=True, slots=True)
class ProbeRow:
    """One check and its result."""

    title: str
    outcome: CheckOutcome
    sentence: str
    faults: tuple[ProbeFault, ...] = ()


@dataclass(frozen=True, slots=True)
class ProbeProgress:
    """How far a probe has come."""

    done: int
    total: int
    title: str
    row: ProbeRow | None = None


@dataclass(frozen=True, slots=True)
class ProbeOutcome:
    """A finished probe.

    Attributes:
        summary: The result in a sentence.
        has_passed: Whether no check failed.
        rows: The checks.
        markdown: A report for a bug tracker.
        html: The same as a page.
        json: The same for programs.
    """

    summary: str
    has_passed: bool
    rows: tuple[ProbeRow, ...]
    markdown: str
    html: str
    json: str


class ProbeProblem(Exception):
    """The probe could not begin; the message gives the reason and the remedy."""


class InspectorTools(Protocol):
    """What the application provides to the inspector. Everything runs on the window's loop."""

    @property
    def probe_dialects(self) -> Sequence[str]:
        """The dialects that can be probed."""

    async def wire_views(self, shown: ShownRun) -> Sequence[WireView]:
        """Return what each API would send for a run.

        Raises:
            ValueError: The run cannot be rendered; the message says why.
        """

    def capture_text(self, content: bytes) -> str:
        """Return the text of a file with captured answers; a compressed file is decompressed.

        Raises:
            ValueError: It cannot be read; the message is the end of a sentence.
        """

    def read_capture(self, text: str, stops: Sequence[str] = ()) -> CaptureView:
        """Read a captured answer; never raises."""

    async def probe(
        self, target: ProbeTarget, on_progress: Callable[[ProbeProgress], None]
    ) -> ProbeOutcome:
        """Probe a server; cancelling the task ends it.

        Raises:
            ProbeProblem: It could not begin.
        """

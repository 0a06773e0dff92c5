"""The run that the inspector shows, wherever it comes from, and what the application adds to it.

Plain values and a protocol; main thread.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING

from engine import Finished, GenerationRequest, Timing, Usage
from engine.recording.replay import Recording, replay
from engine.recording.run_trace import RunTrace, trace_of
from engine.recording.saved_run import to_json
from ui.records.runs import Run, RunState
from ui.server.requests import RequestAnswer, RequestEntry
from ui.words import day_words

if TYPE_CHECKING:
    from api.conformance.probe.values import ProbeOptions, Progress, Report


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
        rules=request.stops,
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
        rules=recording.rules,
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


# What the application provides: a run as each API sends it, and the probe.


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
class InspectorTools:
    """What the application provides to the inspector. Everything runs on the window's loop.

    Attributes:
        wire_views: Returns what each API would send for a run; raises ``ValueError`` with the
            reason if the run cannot be rendered.
        probe: Probes a server, and tells its progress; raises ``ProbeFailed`` if it could not
            begin. Cancelling the task ends it.
    """

    wire_views: Callable[[ShownRun], Awaitable[Sequence[WireView]]]
    probe: "Callable[[ProbeOptions, Callable[[Progress], None]], Awaitable[Report]]"

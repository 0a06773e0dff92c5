"""The run that the inspector shows, wherever it comes from. Plain values; main thread."""

from dataclasses import dataclass
from enum import StrEnum

from engine.events import Finished, Timing, Usage
from engine.replay import Recording, replay
from ui.viewmodels.inspector.traces import RunTrace, trace_of
from ui.viewmodels.runs import Run, RunState


class Source(StrEnum):
    """Where a run comes from."""

    CHAT = "this window"
    REQUEST = "another app"
    FILE = "a saved run"


@dataclass(frozen=True, slots=True)
class ShownRun:
    """One run with all that is known of it.

    Attributes:
        run: What was asked for and what came of it, live while it streams.
        trace: Its tokens; None where none were recorded or they have been forgotten.
        question: The last thing that the user said.
        source: Where it comes from.
        name: What it is called where it can be chosen; a file's name, say.
    """

    run: Run
    trace: RunTrace | None = None
    question: str = ""
    source: Source = Source.CHAT
    name: str = ""

    @property
    def can_be_replayed(self) -> bool:
        """Whether other stop lists can be tried on it."""
        return self.trace is not None and self.trace.can_be_replayed


def shown_recording(recording: Recording, name: str, question: str = "") -> ShownRun:
    """Return a saved run as it is shown: its own stops played over its tokens once more."""
    trace = trace_of(recording)
    played = replay(recording)
    stop = played.stop or recording.stop
    times = [token.time_s for token in trace.tokens] or [0.0]
    finished = Finished(
        stop,
        Usage(output_tokens=len(recording.tokens)),
        Timing(first_token_s=times[0], decode_s=times[-1] - times[0], total_s=times[-1]),
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
    )
    return ShownRun(run, trace, question, Source.FILE, name)

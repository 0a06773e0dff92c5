"""One answer as the window remembers it: the request's settings, the answer, and its end.

Plain records without Qt; changed on the main thread only.
"""

import time
import uuid
from dataclasses import dataclass, field, replace
from enum import StrEnum

from engine import (
    Channel,
    Event,
    Finished,
    PromptProgress,
    PromptScores,
    StopKind,
    StopRules,
    TextDelta,
    ThinkingDelta,
    TokenTrace,
    ToolCall,
    ToolCallAbandoned,
    ToolCallArguments,
    ToolCallCompleted,
    ToolCallStarted,
)
from ui.records.pace import Pace
from ui.records.tooling.calls import CallProgress, CallResult
from ui.words.verdicts import (
    INTERRUPTED_VERDICT,
    UNRECORDED_VERDICT,
    WRITTEN_VERDICT,
    Verdict,
    verdict,
)


class RunState(StrEnum):
    """The stages of a run.

    ``REFUSED`` ones never reached the model; ``INTERRUPTED`` ones were cut off with the program.
    ``UNRECORDED`` ones came from elsewhere, without a record of how they ended.
    ``WRITTEN`` ones were written by a person, not by a model.
    """

    QUEUED = "queued"
    PREFILL = "prefill"
    STREAMING = "streaming"
    FINISHED = "finished"
    REFUSED = "refused"
    INTERRUPTED = "interrupted"
    UNRECORDED = "unrecorded"
    WRITTEN = "written"


_OVER = frozenset(RunState) - {RunState.QUEUED, RunState.PREFILL, RunState.STREAMING}
# The ends that the engine does not report.
_UNJUDGED = {
    RunState.INTERRUPTED: INTERRUPTED_VERDICT,
    RunState.WRITTEN: WRITTEN_VERDICT,
    RunState.UNRECORDED: UNRECORDED_VERDICT,
}
_CONTINUED = (
    StopKind.MAX_TOKENS,
    StopKind.MEMORY_FULL,
    StopKind.CANCELLED,
    StopKind.STOP_STRING,
    StopKind.STOP_TOKEN,
)


@dataclass(eq=False)
class GrowingCall:
    """A tool call that the model is writing.

    Attributes:
        call_id: Its identifier.
        name: The tool.
        texts: Its arguments so far, in parts.
    """

    call_id: str
    name: str
    texts: list[str] = field(default_factory=list)


@dataclass(eq=False)
class Run:
    """One generation and its result.

    Attributes:
        stops: The stop sequences it ran with, in their order.
        rules: All of its stops with their scopes; None if only the sequences are known.
        without: The stop of its conversation that was left out for this run; None for none.
        max_tokens: Its limit, None for none.
        model_id: The model that answered.
        state: Its stage.
        text: The answer so far.
        thinking: The reasoning so far.
        thinking_s: Seconds that the reasoning took; None while it lasts, and without reasoning.
        tool_calls: The calls that the model made.
        growing_calls: The calls that it is writing.
        results: The results of the calls that were run, denied or stopped.
        progress: The calls that wait for approval or are running, by their ids.
        is_calling: Whether its calls are being run.
        paused_at: The limit of calls at which it was paused; 0 if it was not.
        is_cut_off: Whether its calls were not run, because the program ended. Not stored.
        prompt_processed: Prompt tokens read so far.
        prompt_total: Prompt tokens to read.
        prompt_cached: Prompt tokens that came from a cache.
        finished: The engine's last event, once it has arrived.
        refusal: Why it was refused, for ``REFUSED``.
        continued_chars: Characters of its text that an earlier answer had, which it continues.
        held: Text that the matcher has held back long enough to tell the person; otherwise empty.
        held_s: For how many seconds it has been held back.
        pace: The speed, while it is written.
        is_loading: Whether it waits until its model is loaded.
        starting: The names of tool servers that it waits for.
        is_cancelling: Whether it was cancelled and has not ended yet.
        started_at: Unix time of the request, in seconds.
        id: Unique.
        copied_from: The id of the run that this one was copied from; empty for none. Not stored.
    """

    stops: tuple[str, ...] = ()
    rules: StopRules | None = None
    without: str | int | None = None
    max_tokens: int | None = None
    model_id: str = ""
    state: RunState = RunState.QUEUED
    text: str = ""
    thinking: str = ""
    thinking_s: float | None = None
    tool_calls: list[ToolCall] = field(default_factory=list)
    results: list[CallResult] = field(default_factory=list)
    progress: dict[str, CallProgress] = field(default_factory=dict)
    is_calling: bool = False
    paused_at: int = 0
    is_cut_off: bool = False
    growing_calls: list[GrowingCall] = field(default_factory=list, repr=False)
    prompt_processed: int = 0
    prompt_total: int = 0
    prompt_cached: int = 0
    finished: Finished | None = None
    refusal: str = ""
    continued_chars: int = 0
    held: str = ""
    held_s: float = 0.0
    pace: Pace = field(default_factory=Pace, repr=False, compare=False)
    is_loading: bool = False
    starting: tuple[str, ...] = ()
    is_cancelling: bool = False
    started_at: float = field(default_factory=time.time)
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    copied_from: str = ""
    _prefill_began: tuple[float, int] | None = field(default=None, repr=False)
    _thinking_began_s: float | None = field(default=None, repr=False)

    @property
    def verdict(self) -> Verdict | None:
        """Why it ended; None while it is running, and if it was refused."""
        if self.finished is None:
            return _UNJUDGED.get(self.state)
        return verdict(self.finished, self.max_tokens)

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self.state in _OVER

    def copy(self) -> "Run":
        """Return a separate run with the same content: deleting one does not affect the other."""
        return replace(self, id=uuid.uuid4().hex, copied_from=self.id)

    def result_of(self, call_id: str) -> CallResult | None:
        """Return the result of a call; None if there is none yet."""
        return next((one for one in self.results if one.call_id == call_id), None)

    @property
    def prompt_tokens_per_s(self) -> float | None:
        """The speed at which the prompt is read; None until some of it was read."""
        if self._prefill_began is None:
            return None
        began_s, before = self._prefill_began
        took_s, read = time.monotonic() - began_s, self.prompt_processed - before
        return read / took_s if read > 0 and took_s > 0 else None

    @property
    def can_be_continued(self) -> bool:
        """Whether the model could go on where this answer ends."""
        if not self.text.strip() or self.tool_calls:
            return False
        if self.state in (RunState.INTERRUPTED, RunState.UNRECORDED, RunState.WRITTEN):
            return True
        return self.finished is not None and self.finished.stop.kind in _CONTINUED

    @property
    def stopped_by(self) -> str | int | None:
        """The stop sequence or stop token that ended it; None if something else ended it."""
        if self.finished is None:
            return None
        stop = self.finished.stop
        is_stop = stop.kind in (StopKind.STOP_STRING, StopKind.STOP_TOKEN)
        return stop.value if is_stop else None

    def take_model(self, rules: StopRules, model_id: str) -> None:
        """Note which model answers, once it is loaded, and the stops that it runs with."""
        self.rules, self.model_id, self.is_loading = rules, model_id, False

    def apply(self, event: Event) -> None:
        """Update the record with one event of the engine."""
        match event:
            case PromptProgress():
                self.state = RunState.PREFILL
                if self._prefill_began is None:
                    self._prefill_began = (time.monotonic(), event.processed)
                self.prompt_processed = event.processed
                self.prompt_total = event.total
                self.prompt_cached = event.cached
            case ThinkingDelta():
                self.state = RunState.STREAMING
                if self._thinking_began_s is None:
                    self._thinking_began_s = time.monotonic()
                self.thinking += event.text
            case TextDelta():
                self.state = RunState.STREAMING
                self._end_thinking()
                self.text += event.text
            case ToolCallStarted():
                self.state = RunState.STREAMING
                self._end_thinking()
                self.growing_calls.append(GrowingCall(event.call_id, event.name))
            case ToolCallArguments():
                self.growing_calls[-1].texts.append(event.text)
            case ToolCallAbandoned():
                self._end_growing(event.call_id)
            case ToolCallCompleted():
                self.state = RunState.STREAMING
                self._end_thinking()
                self._end_growing(event.call.id)
                self.tool_calls.append(event.call)
            case Finished():
                self.growing_calls.clear()
                self._end_thinking()
                self.state = RunState.FINISHED
                self.finished = self._placed(event)
                self.is_cancelling = False
            case TokenTrace() | PromptScores():
                pass

    def _end_growing(self, call_id: str) -> None:
        self.growing_calls = [one for one in self.growing_calls if one.call_id != call_id]

    def _placed(self, finished: Finished) -> Finished:
        """Return the end with its offset in the whole text, not in the continuation."""
        if not self.continued_chars or finished.stop.channel is not Channel.TEXT:
            return finished
        offset = finished.stop.text_offset + self.continued_chars
        return replace(finished, stop=replace(finished.stop, text_offset=offset))

    def _end_thinking(self) -> None:
        if self._thinking_began_s is not None and self.thinking_s is None:
            self.thinking_s = time.monotonic() - self._thinking_began_s


@dataclass(frozen=True, slots=True)
class PastRun:
    """A run with the conversation that it belongs to.

    Attributes:
        conversation_id: The conversation.
        title: Its title.
        question: The question, or its beginning.
        run: The run.
    """

    conversation_id: str
    title: str
    question: str
    run: Run

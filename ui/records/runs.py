"""One answer as the window remembers it: the request's settings, the answer, and its end.

Plain records without Qt; changed on the main thread only.
"""

import json
import re
import time
import uuid
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Literal

from engine.recording.fork import describe_fork
from engine.recording.replay import replay
from engine.recording.run_trace import RunTrace
from engine.stopping.record import FORK_SOURCE, Channel, StopKind
from engine.stopping.repetition import Repetition
from engine.stopping.rules import StopRules
from engine.values.events import (
    Event,
    Finished,
    PromptProgress,
    TextDelta,
    ThinkingDelta,
    Timing,
    TokenTrace,
    ToolCallAbandoned,
    ToolCallArguments,
    ToolCallCompleted,
    ToolCallStarted,
    Usage,
)
from engine.values.request import ToolCall
from engine.values.tokens import PromptScores
from engine.values.verdict import AnswerContext
from engine.wording import counted, figure
from ui.records.attachments import Attachment
from ui.records.tool_calls import CallProgress, CallResult
from ui.words import (
    UNRECORDED_VERDICT,
    WRITTEN_VERDICT,
    Verdict,
    display_name,
    interrupted_verdict,
    verdict,
)

RunState = Literal[
    "queued",
    "prefill",
    "streaming",
    "finished",
    "refused",  # never reached the model
    "interrupted",  # ended with the program
    "unrecorded",  # imported without a record of its end
    "written",  # by the user, not by a model
]

# The beginning of a call as most models write it.
_CALL = re.compile(r'\s*\{\s*"name"\s*:\s*"[^"]*"\s*,\s*"(?:arguments|parameters)"\s*:')


class Pace:
    """The tokens of a running answer, and their rate since the first ones."""

    def __init__(self) -> None:
        self.tokens = 0
        self.per_s: float | None = None
        self._first: tuple[float, int] | None = None
        self._shown_at_s = float("-inf")

    @property
    def label(self) -> str:
        """The rate and the number of tokens; empty before the first token."""
        if not self.tokens:
            return ""
        rate = "" if self.per_s is None else f"{figure(self.per_s)} tok/s · "
        return rate + counted(self.tokens, "token")

    def note(self, tokens: int, time_s: float) -> bool:
        """Note the number of tokens; return whether to show it, four times a second at most."""
        if not tokens or time_s - self._shown_at_s < 0.25:
            return False
        self.tokens, self._shown_at_s = tokens, time_s
        self._first = self._first or (time_s, tokens)
        since_s, first = self._first
        if time_s > since_s:
            self.per_s = (tokens - first) / (time_s - since_s)
        return True


@dataclass(frozen=True, slots=True)
class StopChange:
    """How the stops of one answer differ from its conversation's list, which stays as it is."""

    without: str | int | None = None
    goes_past_repetition: bool = False


NO_CHANGE = StopChange()


@dataclass(frozen=True, slots=True)
class LeftOut:
    """The messages at the beginning of a conversation that an answer's prompt is without."""

    until: int
    messages: int
    context: int
    is_summarized: bool = False
    problem: str = ""

    @property
    def sentence(self) -> str:
        """The number of messages without which the answer was made, for the user."""
        count = counted(self.messages, "earlier message")
        if self.is_summarized:
            return f"{count} included as a summary"
        text = f"{count} not included"
        if not self.problem:
            return text
        return f"{text}; no summary could be made: {self.problem.rstrip('.')}"


@dataclass(frozen=True, slots=True)
class ForkOrigin:
    """The answer whose beginning another one repeats, and the texts at the token where both differ.

    ``chosen`` is empty for the end of the answer. ``version`` counts the answers to the question
    from 1; 0 for the answer of another app.
    """

    run_id: str
    token_index: int
    replaced: str
    chosen: str
    version: int = 0

    @property
    def sentence(self) -> str:
        """``Version 1, but token 35 is “ END” in place of “ the”``."""
        name = f"Version {self.version}" if self.version else "The original"
        return f"{name}, but {describe_fork(self.token_index, self.replaced, self.chosen)}"


@dataclass(eq=False)
class GrowingCall:
    """A tool call that the model is writing."""

    call_id: str
    name: str
    texts: list[str] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class LiveRun:
    """How far a run is in this process; neither stored nor copied.

    Attributes:
        is_cut_off: Whether its calls were not run, because the program ended.
        held: The end of its text that is held back, because it may be a stop.
        held_s: For how many seconds it has been held back.
        is_load_failure: Whether its model could not be loaded; a bar of the window has the cause.
    """

    is_loading: bool = False
    starting: tuple[str, ...] = ()
    summarizing: str = ""
    prefill_began: tuple[float, int] | None = None
    thinking_began_s: float | None = None
    pace: Pace = field(default_factory=Pace)
    held: str = ""
    held_s: float = 0.0
    growing_calls: list[GrowingCall] = field(default_factory=list)
    progress: dict[str, CallProgress] = field(default_factory=dict)
    is_calling: bool = False
    is_cut_off: bool = False
    is_cancelling: bool = False
    is_closing: bool = False
    is_load_failure: bool = False


@dataclass(eq=False)
class Run:
    """One generation and its result.

    Attributes:
        stop_change: How its stops differ from its conversation's list.
        stops_from: Where the list came from, as in ``Conversation.stops_from``.
        thinking_s: Seconds that the reasoning took; None while it lasts, and without reasoning.
        started_at: Unix time of the request, in seconds.
        copied_from: The id of the run that this one was copied from; empty for none. Not stored.
    """

    rules: StopRules = field(default_factory=StopRules)
    stop_change: StopChange = NO_CHANGE
    stops_from: str = ""
    max_tokens: int | None = None
    model_id: str = ""
    state: RunState = "queued"
    text: str = ""
    thinking: str = ""
    thinking_s: float | None = None
    tool_calls: list[ToolCall] = field(default_factory=list)
    results: list[CallResult] = field(default_factory=list)
    pictures: tuple[Attachment, ...] = ()
    paused_at: int = 0
    prompt_processed: int = 0
    prompt_total: int = 0
    prompt_cached: int = 0
    finished: Finished | None = None
    refusal: str = ""
    left_out: LeftOut | None = None
    forked_from: ForkOrigin | None = None
    continued_chars: int = 0
    is_own: bool = True
    started_at: float = field(default_factory=time.time)
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    is_imported: bool = False
    copied_from: str = ""
    live: LiveRun = field(default_factory=LiveRun, repr=False, compare=False)

    @property
    def needs_user(self) -> bool:
        """Whether a call waits for the user: for approval, or for an answer to a question."""
        return any(progress.needs_user for progress in self.live.progress.values())

    @property
    def verdict(self) -> Verdict | None:
        """Why it ended; None while it is running, and if it was refused."""
        if self.state == "interrupted":
            is_quit = self.finished is not None  # a crash leaves no end
            return interrupted_verdict(has_text=self.has_text, is_quit=is_quit)
        if self.finished is None:
            ends = {"written": WRITTEN_VERDICT, "unrecorded": UNRECORDED_VERDICT}
            return ends.get(self.state)
        return verdict(self.finished, self.context)

    @property
    def has_text(self) -> bool:
        """Whether it has text, reasoning or a call that can be kept."""
        return bool(self.text.strip() or self.thinking.strip() or self.tool_calls)

    @property
    def context(self) -> AnswerContext:
        """The facts that the sentence about its end depends on, beside the end itself."""
        return AnswerContext(
            self.max_tokens, self.is_own, self.has_text, is_continued=self.continued_chars > 0
        )

    @property
    def is_over(self) -> bool:
        return self.state not in ("queued", "prefill", "streaming")

    @property
    def is_from_elsewhere(self) -> bool:
        """Whether it was not generated here."""
        return self.is_imported or self.state == "unrecorded"

    def copy(self) -> "Run":
        """Return a separate run with the same content: deleting one does not affect the other."""
        return replace(
            self,
            id=uuid.uuid4().hex,
            copied_from=self.id,
            tool_calls=list(self.tool_calls),
            results=list(self.results),
            live=LiveRun(),
        )

    def result_of(self, call_id: str) -> CallResult | None:
        """Return the result of a call; None if there is none yet."""
        return next((result for result in self.results if result.call_id == call_id), None)

    @property
    def shows_prompt_progress(self) -> bool:
        """Whether reading its prompt takes long enough for figures."""
        took_s = time.time() - self.started_at
        return took_s >= 3 or self.prompt_total >= 4_000

    @property
    def prompt_tokens_per_s(self) -> float | None:
        """The speed at which the prompt is read; None until some of it was read."""
        if self.live.prefill_began is None:
            return None
        began_s, before = self.live.prefill_began
        took_s, read = time.monotonic() - began_s, self.prompt_processed - before
        return read / took_s if read > 0 and took_s > 0 else None

    @property
    def can_be_continued(self) -> bool:
        """Whether the model could go on where this answer ends."""
        if not self.text_past_stop().strip() or self.tool_calls:
            return False
        if self.state in ("interrupted", "unrecorded", "written"):
            return True
        return self.finished is not None and self.finished.stop.kind in (
            StopKind.REPETITION,
            StopKind.MAX_TOKENS,
            StopKind.MEMORY_FULL,
            StopKind.CANCELLED,
            StopKind.STOP_STRING,
            StopKind.STOP_TOKEN,
        )

    @property
    def stopped_by(self) -> str | int | None:
        """The stop sequence or stop token that ended it; None if something else ended it."""
        if self.finished is None:
            return None
        stop = self.finished.stop
        is_stop = stop.kind in (StopKind.STOP_STRING, StopKind.STOP_TOKEN)
        return stop.value if is_stop else None

    @property
    def cut_text(self) -> str:
        """The text that a stop cut off the end of the answer."""
        if self.finished is None or self.stopped_by is None:
            return ""
        stop = self.finished.stop
        return stop.dropped if stop.channel is Channel.TEXT else ""

    @property
    def has_usual_end(self) -> bool:
        """Whether its end needs no word: the model ended it or called a tool; also if unknown."""
        if self.finished is None:
            return self.state == "unrecorded"
        end = self.finished
        is_cut = bool(end.unfinished_tool_call or end.details.planned_call)
        is_usual = end.stop.kind in (StopKind.EOS, StopKind.TOOL_CALL)
        return is_usual and not is_cut and end.stop.source != FORK_SOURCE

    @property
    def has_unreadable_call(self) -> bool:
        """Whether its whole text is a tool call that is not valid JSON, and so was not made."""
        if self.finished is None or self.tool_calls or not _CALL.match(self.text):
            return False
        try:
            json.loads(self.text)
        except (ValueError, RecursionError):
            return self.finished.stop.kind is StopKind.EOS
        return False

    def text_past_stop(self, structure: Collection[str] = ()) -> str:
        """Return the text with which the answer goes on: past the stop that ended it, if one did.

        What the stop cut off comes back as it was written, not as the model would write it now.
        """
        finished = self.finished
        if finished is None or not self.is_past_text(structure):
            return self.text
        return self.text + finished.stop.dropped

    def is_past_text(self, structure: Collection[str] = ()) -> bool:
        """Return whether a stop ended the answer that is itself a part of its text."""
        if self.finished is None or self.stopped_by is None:
            return False
        stop = self.finished.stop
        named = stop.value if isinstance(stop.value, str) else stop.token_text
        return stop.channel is Channel.TEXT and named not in structure

    @property
    def change_past_stop(self) -> StopChange:
        """The stops of a continuation: without the stop or the repetition that ended the answer."""
        change, past = self.stop_change, self.stopped_by
        if past is not None:
            change = replace(change, without=past)
        # A continuation that ran without detection went past a repetition, also before a restart.
        is_past = self.continued_chars > 0 and self.rules.repetition is None
        if is_past or self.is_repetitive:
            change = replace(change, goes_past_repetition=True)
        return change

    @property
    def cycles(self) -> tuple[Repetition, ...]:
        """The cycles at the end of its thinking and at its own end, as far as there are any."""
        finished = self.finished
        if finished is None:
            return ()
        details = finished.details
        thinking = None if details.budget_end is None else details.budget_end.repetition
        return tuple(cycle for cycle in (thinking, details.repetition) if cycle is not None)

    @property
    def is_repetitive(self) -> bool:
        """Whether it was ended because it repeated itself."""
        return self.finished is not None and self.finished.stop.kind is StopKind.REPETITION

    @property
    def stops(self) -> tuple[str, ...]:
        """The stop sequences it ran with, in their order."""
        return self.rules.strings

    def take_model(self, rules: StopRules, model_id: str) -> None:
        """Note which model answers, once it is loaded, and the stops that it runs with."""
        self.rules, self.model_id, self.live.is_loading = rules, model_id, False

    def apply(self, event: Event) -> None:
        """Update the record with one event of the engine."""
        match event:
            case PromptProgress():
                self.state = "prefill"
                if self.live.prefill_began is None:
                    self.live.prefill_began = (time.monotonic(), event.processed)
                self.prompt_processed = event.processed
                self.prompt_total = event.total
                self.prompt_cached = event.cached
            case ThinkingDelta():
                self.state = "streaming"
                if self.live.thinking_began_s is None:
                    self.live.thinking_began_s = time.monotonic()
                self.thinking += event.text
            case TextDelta():
                self.state = "streaming"
                self._end_thinking()
                self.text += event.text
            case ToolCallStarted():
                self.state = "streaming"
                self._end_thinking()
                self.live.growing_calls.append(GrowingCall(event.call_id, event.name))
            case ToolCallArguments():
                self.live.growing_calls[-1].texts.append(event.text)
            case ToolCallAbandoned():
                self._end_growing(event.call_id)
            case ToolCallCompleted():
                self.state = "streaming"
                self._end_thinking()
                self._end_growing(event.call.id)
                self.tool_calls.append(event.call)
            case Finished():
                self.live.growing_calls.clear()
                self._end_thinking()
                is_cancelled = event.stop.kind is StopKind.CANCELLED
                ends_program = self.live.is_closing and is_cancelled
                self.state = "interrupted" if ends_program else "finished"
                self.finished = event
                self.live.is_cancelling = False
            case TokenTrace() | PromptScores():
                pass

    def _end_growing(self, call_id: str) -> None:
        self.live.growing_calls = [
            call for call in self.live.growing_calls if call.call_id != call_id
        ]

    def _end_thinking(self) -> None:
        if self.live.thinking_began_s is not None and self.thinking_s is None:
            self.thinking_s = time.monotonic() - self.live.thinking_began_s


@dataclass(frozen=True, slots=True)
class PastRun:
    """A run with the conversation that it belongs to."""

    conversation_id: str
    title: str
    question: str
    run: Run


def progress_label(run: Run) -> str:
    """Return what a run that is not over is doing."""
    if run.live.is_cancelling:
        return "Stopping…"
    if run.live.summarizing:
        return run.live.summarizing
    if run.live.starting:
        return f"Starting the tools of {', '.join(run.live.starting)}…"
    if run.state == "queued":
        return (
            f"Waiting for {display_name(run.model_id)} to load…"
            if run.live.is_loading
            else "Waiting for the model…"
        )
    if run.state == "prefill":
        if not run.shows_prompt_progress:
            return "Reading…"
        text = f"Reading the prompt: {run.prompt_processed:,} of "
        text += counted(run.prompt_total, "token")
        rate = run.prompt_tokens_per_s
        return text if rate is None else f"{text}, {figure(rate)} tok/s"
    return "Answering…"


def recorded_run(recording: RunTrace) -> Run:
    """Return the run of a recording that has ended, as its own stops decide it."""
    played = replay(recording)
    assert recording.stop is not None, "only runs that have ended are recorded"
    times = [token.time_s for token in recording.tokens] or [0.0]
    finished = Finished(
        recording.stop,
        Usage(output_tokens=played.output_tokens, thinking_tokens=played.thinking_tokens),
        Timing(first_token_s=times[0], decode_s=times[-1] - times[0], total_s=times[-1]),
        speculation=recording.speculation,
        details=played.details,
    )
    return Run(
        rules=recording.rules,
        max_tokens=recording.max_tokens,
        model_id=recording.setting.model,
        state="finished",
        text=played.text,
        thinking=played.thinking,
        tool_calls=list(played.calls),
        finished=finished,
    )

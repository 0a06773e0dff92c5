"""The run that the inspector shows, wherever it comes from, and its tokens side by side.

Plain values, and what the application adds to them; main thread.
"""

import math
from bisect import bisect_right
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntFlag
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

from engine import Vocabulary
from engine.recording.ends import SeededAnswer, Side
from engine.recording.replay import Replayed, with_replayed_tokens
from engine.recording.run_trace import RunTrace
from engine.stopping.record import Channel, StopInfo, StopKind
from engine.stopping.repetition import Repetition
from engine.stopping.rules import StopRules
from engine.values.events import TokenTrace
from engine.values.request import PICTURE_MARK, GenerationRequest
from engine.values.tokens import TokenOrigin
from engine.wording import counted, percent, quoted, visible
from ui.kit.dates import format_day, format_time
from ui.records.runs import Run, recorded_run
from ui.server.requests import RequestAnswer, RequestEntry
from ui.words import ORIGIN_DESCRIPTIONS

if TYPE_CHECKING:
    from api.conformance.probe.values import LocalServer, ProbeOptions, Progress, Report


CHANNEL_NAMES = {
    Channel.TEXT: "Answer",
    Channel.THINKING: "Thinking",
    Channel.TOOL: "Tool call",
}

RunSource = Literal["chat", "past", "request", "file", "several", "fork"]
SOURCE_LABELS: dict[RunSource, str] = {
    "chat": "this window",
    "past": "another conversation",
    "request": "another app",
    "file": "a saved run",
    "several": "several answers",
    "fork": "a fork",
}
_DRAFTED = (TokenOrigin.LOOKUP, TokenOrigin.PREDICTION, TokenOrigin.DRAFT, TokenOrigin.HEAD)


@dataclass(frozen=True, slots=True)
class ShownRun:
    """One run with everything that is known about it."""

    run: Run  # grows while the answer streams
    trace: RunTrace | None = None  # None if none were recorded, or they were deleted
    question: str = ""
    source: RunSource = "chat"
    name: str = ""
    sent_request: GenerationRequest | None = None
    no_effect: tuple[str, ...] | None = None  # recorded by the server; None if it answered nobody
    api_path: str = ""  # of the request of another app

    @property
    def request(self) -> GenerationRequest | None:
        """The request that ran; None for saved runs, and if nothing was recorded."""
        if self.sent_request is not None or self.trace is None:
            return self.sent_request
        return self.trace.request

    @property
    def can_be_replayed(self) -> bool:
        return self.trace is not None and self.trace.can_be_replayed


def shown_answer(
    entry: RequestEntry, answer: RequestAnswer, trace: RunTrace | None = None
) -> ShownRun:
    """Return an answer to a request of another app."""
    run = _ended_run(answer.request, answer)
    run.model_id, run.started_at = entry.model, entry.began_at
    name = f"{entry.agent or entry.client}, {entry.method} {entry.path}"
    request = answer.request
    question = question_text(request)
    return ShownRun(
        run,
        trace,
        question,
        "request",
        name,
        request,
        entry.no_effect,
        entry.path.partition("?")[0],
    )


def shown_seeded(side: Side, answer: SeededAnswer) -> ShownRun:
    """Return one of several answers that has ended."""
    run = _ended_run(side.request, answer)
    run.model_id = side.request.model or ""
    name = f"seed {answer.seed}, {side.name}"
    return ShownRun(run, answer.trace, question_text(side.request), "several", name)


def _ended_run(request: GenerationRequest, answer: RequestAnswer | SeededAnswer) -> Run:
    return Run(
        rules=request.stops,
        max_tokens=request.max_tokens,
        state="finished",
        text=answer.text,
        thinking=answer.thinking,
        tool_calls=list(answer.tool_calls),
        finished=answer.finished,
        is_own=False,
    )


def question_text(request: GenerationRequest) -> str:
    """Return the last message of the user, or the text of the raw prompt."""
    if request.prompt is not None:
        prompt = request.prompt if isinstance(request.prompt, str) else ""
        return prompt.replace(PICTURE_MARK, "")
    text = (message.text for message in reversed(request.messages) if message.role == "user")
    return next(text, "")


def shown_recording(recording: RunTrace, name: str, question: str = "") -> ShownRun:
    """Return a saved run as it is shown: its own stops are replayed over its tokens."""
    trace = with_replayed_tokens(recording)
    run = recorded_run(trace)
    run.is_own = False
    return ShownRun(run, trace, question, "file", name)


def start_time_text(run: Run) -> str:
    """Return when a run began, in a few words; a dash where no user recorded that."""
    if run.started_at <= 0:
        return "\u2013"
    return f"{format_day(run.started_at)} {format_time(run.started_at)}"


def end_label(run: Run) -> str:
    """Return how a run ended, in a few words."""
    if (verdict := run.verdict) is not None:
        return verdict.text.label
    return "Not sent" if run.is_over else "Answering\u2026"


@dataclass(frozen=True, slots=True)
class WireView:
    """A run as one API sends it, byte for byte, or the problem that it cannot."""

    name: str
    path: str
    request: str = ""
    whole: str = ""
    stream: str = ""
    curl: str = ""
    python: str = ""
    problem: str = ""


@dataclass(frozen=True, slots=True)
class InspectorTools:
    """What the application provides to the inspector. Everything runs on the window's loop."""

    wire_views: Callable[[ShownRun], Awaitable[Sequence[WireView]]]  # raises ValueError
    probe: "Callable[[ProbeOptions, Callable[[Progress], None]], Awaitable[Report]]"
    local_servers: "Callable[[], Awaitable[Mapping[str, LocalServer]]]"  # by name, ours first


class TokenMark(IntFlag):
    """How a piece of text was produced, and what the stop matcher did with it."""

    NONE = 0
    HELD = 1
    MATCHED = 2
    CUT = 4
    DRAFTED = 8
    FORCED = 16
    LOST = 32  # kept by the run, cut by the list of What If
    GAINED = 64  # cut by the run, kept by the list of What If


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of one token's text that is marked in one way."""

    row: int
    text: str
    marks: TokenMark
    is_chip: bool = False


class Tape:
    """The tokens of a trace, or its newest ones, at one moment."""

    def __init__(
        self, trace: RunTrace, newest: int | None = None, tried: Replayed | None = None
    ) -> None:
        tokens = tuple(trace.tokens)
        self.tokens: Sequence[TokenTrace] = tokens if newest is None else tokens[-newest:]
        self.stop: StopInfo | None = trace.stop
        self.rules = trace.rules
        self.texts = [token.piece for token in self.tokens]
        if self.texts and self.stop is not None:
            self.texts[-1] += trace.residue
        self._starts: list[int] = []
        position = 0
        for text in self.texts:
            self._starts.append(position)
            position += len(text)
        self._length = position
        self.cut, self.matched = self._ends()
        kept = self.cut[0] if tried is None else self._kept_chars(tried.stop)
        self.lost, self.gained = (kept, self.cut[0]), (self.cut[0], kept)

    def spans(self) -> Iterator[Span]:
        for row, (token, text) in enumerate(zip(self.tokens, self.texts, strict=True)):
            origin = TokenMark.NONE
            if token.origin in _DRAFTED:
                origin = TokenMark.DRAFTED
            elif token.origin in (TokenOrigin.FORCED, TokenOrigin.BUDGET, TokenOrigin.CHOSEN):
                origin = TokenMark.FORCED
            if not text:
                yield Span(row, chip_text(token), origin | self._chip_marks(row), is_chip=True)
                continue
            start = self._starts[row]
            end = start + len(text)
            held = end - min(len(token.held), len(text)) if token.held else end
            edges = {start, end, held, *self.cut, *self.matched, *self.lost}
            positions = sorted(edge for edge in edges if start <= edge <= end)
            for begin, stop in pairwise(positions):
                marks = origin | (TokenMark.HELD if begin >= held else TokenMark.NONE)
                if self.matched[0] <= begin < self.matched[1]:
                    marks |= TokenMark.MATCHED
                if self.gained[0] <= begin < self.gained[1]:
                    marks |= TokenMark.GAINED
                elif self.cut[0] <= begin < self.cut[1]:
                    marks |= TokenMark.CUT
                if self.lost[0] <= begin < self.lost[1]:
                    marks |= TokenMark.LOST
                yield Span(row, text[begin - start : stop - start], marks)

    def first_matched_row(self) -> int | None:
        """Return the row of the token with the match's first character."""
        begin, end = self.matched
        if begin == end:
            return None
        return bisect_right(self._starts, begin) - 1

    def channel_text(self, channel: Channel) -> str:
        """Return all text of a channel, with the cut end."""
        pairs = zip(self.tokens, self.texts, strict=True)
        return "".join(text for token, text in pairs if token.channel is channel)

    def _kept_chars(self, stop: StopInfo | None) -> int:
        """Return where the tape would be cut by a stop of another list."""
        if stop is None or stop.token_index is None or not self.tokens:
            return self._length
        row = stop.token_index - self.tokens[0].index
        if not 0 <= row < len(self.texts):
            return 0 if row < 0 else self._length
        return max(0, self._starts[row] + len(self.texts[row]) - len(stop.dropped))

    def _ends(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Return the ranges that were cut and that matched; both lie at the tape's end."""
        none = (self._length, self._length)
        stop = self.stop
        if stop is None or not self.texts:
            return none, none
        last = self.tokens[-1]
        if stop.kind is StopKind.STOP_TOKEN and last.piece and self.rules.include_stop:
            return none, (self._length - len(last.piece), self._length)
        if stop.kind is not StopKind.STOP_STRING:
            return none, none
        value = str(stop.value)
        if not last.piece and value in (last.special, last.raw.decode("utf-8", "replace")):
            return none, none  # the text of a special token or a tag is not part of the answer
        cut = max(0, self._length - len(stop.dropped))
        begin = cut - len(value) if self.rules.include_stop else cut
        begin = max(0, begin)
        return (cut, self._length), (begin, min(self._length, begin + len(value)))

    def _chip_marks(self, row: int) -> TokenMark:
        stop = self.stop
        if stop is None or row != len(self.tokens) - 1:
            return TokenMark.NONE
        if stop.kind is StopKind.STOP_TOKEN or stop.kind is StopKind.STOP_STRING:
            return (
                TokenMark.MATCHED if self.rules.include_stop else TokenMark.MATCHED | TokenMark.CUT
            )
        return TokenMark.NONE


def chip_text(token: TokenTrace) -> str:
    """Return the label of a token without text: a special token's name, or its bytes."""
    if token.special is not None:
        return token.special
    if token.raw:
        try:
            return visible(token.raw.decode("utf-8"))
        except UnicodeDecodeError:
            return token.raw.hex(" ")
    return f"id {token.token_id}"


def alternatives(token: TokenTrace, vocabulary: Vocabulary | None) -> str:
    """Return the likeliest tokens in a token's place, best first; empty if they are unknown."""
    if token.stats is None or not token.stats.top:
        return ""
    return "   ".join(
        f"{quoted(token_name(token_id, vocabulary), 20)} {percent(math.exp(logprob))}"
        for token_id, logprob in token.stats.top
    )


def token_name(token_id: int, vocabulary: Vocabulary | None) -> str:
    """Return the text of a token, or its id where that is unknown."""
    text = None if vocabulary is None else vocabulary.text_of(token_id)
    return text or f"id {token_id}"


def copy_of(index: int, cycles: Iterable[Repetition]) -> tuple[int, Repetition] | None:
    """Return which copy of which cycle a token is in, the first being 1; None for none."""
    for cycle in cycles:
        position = index - cycle.token_index
        if 0 <= position < cycle.period * cycle.copies:
            return position // cycle.period + 1, cycle
    return None


def describe_copy(index: int, cycles: Iterable[Repetition]) -> str:
    """Return the copy that a token is in: ``copy 3 of 4, 70 tokens``; empty for none."""
    if (found := copy_of(index, cycles)) is None:
        return ""
    number, cycle = found
    return f"copy {number:,} of {cycle.copies:,}, {counted(cycle.period, 'token')}"


def describe_token(token: TokenTrace, rules: StopRules, cycles: Iterable[Repetition] = ()) -> str:
    """Return everything that is known about a token, in one line."""
    text = token.piece
    parts = [f"Token {token.index + 1:,}", f"id {token.token_id}"]
    if token.special is not None:
        parts.append(f"special token {token.special}")
    elif text:
        parts.append(quoted(text, 40))
    else:
        parts.append("no text yet")
    raw = token.raw
    count = counted(len(raw), "byte")
    parts.append(f"{count} {raw[:16].hex(' ')}{' …' if len(raw) > 16 else ''}".rstrip())
    parts.append(CHANNEL_NAMES[token.channel].lower())
    if sentence := ORIGIN_DESCRIPTIONS[token.origin]:
        parts.append(sentence)
    if copy := describe_copy(token.index, cycles):
        parts.append(copy)
    if token.held:
        parts.append(f"held back after it: {quoted(token.held, 40)}")
    if token.stats is not None:
        stats = token.stats
        parts.append(f"probability {percent(math.exp(stats.logprob))}, rank {stats.rank + 1:,}")
    reached = [
        f"{count} of {counted(len(stop.text), 'character')} of {quoted(stop.text, 16)}"
        for count, stop in zip(token.progress, rules.stops, strict=False)
        if count
    ]
    if reached:
        parts.append("reached " + ", ".join(reached))
    return " · ".join(parts)

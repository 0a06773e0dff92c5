"""Replays a recorded run with another stop list, through the real answer pipeline.

Pure and fast; needs no model. It uses the pipeline of a real run, so it gives the same record as a
real run, as far as the recording goes.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeVar

from engine.output.answer import AnswerBuilder, feed_traced
from engine.output.detokenizer import ByteDetokenizer, Detokenizer
from engine.output.tool_calls.call_text import (
    CALL_ENDS,
    CallReader,
    CallWriter,
    IrregularCall,
    NewReader,
    StreamBuffer,
    Waiting,
)
from engine.output.vocabulary import Vocabulary
from engine.recording.run_trace import RunTrace
from engine.stopping.record import Channel, StopInfo, StopKind
from engine.stopping.rules import StopRules
from engine.values.events import (
    EndDetails,
    Event,
    TextDelta,
    ThinkingDelta,
    TokenTrace,
    ToolCallCompleted,
)
from engine.values.request import LimitSource, ToolCall

_T = TypeVar("_T")

# Larger than any vocabulary: a file must not cost memory for any id that it names.
MAX_TOKEN_ID = 1 << 21


@dataclass(slots=True)
class Replayed:
    """The outcome of a replay; it has no stop where the recording ends before one."""

    stop: StopInfo | None = None
    text: str = ""
    thinking: str = ""
    calls: tuple[ToolCall, ...] = ()
    output_tokens: int = 0
    thinking_tokens: int = 0
    events: list[Event] = field(default_factory=list)
    details: EndDetails = field(default_factory=EndDetails)


def replay(
    run: RunTrace,
    rules: StopRules | None = None,
    *,
    is_traced: bool = False,
) -> Replayed:
    """Replay a run."""
    vocabulary = _vocabulary(run)
    detokenizer = _detokenizer(run, vocabulary)
    builder: AnswerBuilder = AnswerBuilder(
        setting=run.setting,
        rules=run.rules if rules is None else rules,
        max_tokens=run.max_tokens,
        vocabulary=vocabulary,
        detokenizer=detokenizer,
        new_reader=_recorded_calls(run, lambda: builder.calls.opened),
    )
    texts = detokenizer if isinstance(detokenizer, _RecordedText) else None
    stop: StopInfo | None = None
    for index, token in enumerate(run.tokens):
        if texts is not None:
            texts.index = index
        if is_traced:
            stop = feed_traced(builder, token.token_id, token.time_s, token.stats, token.origin)
        else:
            stop = builder.add(token.token_id)
        if stop is not None:
            break
    ended = run.stop
    if stop is None and ended and ended.kind in (StopKind.CANCELLED, StopKind.ERROR):
        stop = builder.end(ended.kind)
    events = builder.text.events
    held = {builder.text.channel: builder.reader.held} if stop is None else {}
    return Replayed(
        stop=stop,
        text="".join(e.text for e in events if isinstance(e, TextDelta))
        + held.get(Channel.TEXT, ""),
        thinking="".join(e.text for e in events if isinstance(e, ThinkingDelta))
        + held.get(Channel.THINKING, ""),
        calls=tuple(e.call for e in events if isinstance(e, ToolCallCompleted)),
        output_tokens=builder.reader.count,
        thinking_tokens=builder.reader.thinking_tokens,
        events=events,
        details=_details(run, stop, builder),
    )


def _details(run: RunTrace, stop: StopInfo | None, builder: AnswerBuilder) -> EndDetails:
    """Return the run's own details, as far as they hold for the replayed end."""
    details = run.details
    if stop is None or run.stop is None or stop.kind is not run.stop.kind:
        details = replace(details, limit_from=None, planned_call=None)
    if (end := details.budget_end) is not None and builder.reader.count <= end.token_index:
        details = replace(details, budget_end=None, budget_from=None)
    if LimitSource.PRESET not in (details.limit_from, details.budget_from):
        details = replace(details, preset="")
    return replace(details, repetition=builder.repetition)


def with_replayed_tokens(run: RunTrace) -> RunTrace:
    """Return a saved run with what its own stops did at each token, which its file leaves out."""
    played = replay(run, is_traced=True)
    tokens = deque(event for event in played.events if isinstance(event, TokenTrace))
    return replace(run, tokens=tokens, stop=played.stop or run.stop)


def by_id(values: dict[int, _T], missing: _T) -> list[_T]:
    """Return values at the indices of their token ids."""
    listed = [missing] * (max(values, default=-1) + 1)
    for index, value in values.items():
        listed[index] = value
    return listed


def _vocabulary(run: RunTrace) -> Vocabulary:
    raw = {token.token_id: token.raw for token in run.tokens}
    text: dict[int, str | None] = {}
    for token_id, value in raw.items():
        try:
            text[token_id] = value.decode("utf-8")
        except UnicodeDecodeError:
            text[token_id] = None
    known = by_id(raw, b"")
    return Vocabulary(
        raw=known,
        text=by_id(text, ""),
        special={t.token_id: t.special for t in run.tokens if t.special is not None},
        eos=frozenset(run.setting.eos),
        strips_first_space=run.setting.strips_first_space,
        size=len(known),
        eos_sources=dict(zip(run.setting.eos, run.setting.eos_sources, strict=False)),
    )


def _detokenizer(run: RunTrace, vocabulary: Vocabulary) -> Detokenizer:
    if run.setting.has_bytes:
        return ByteDetokenizer(vocabulary)
    # A piece contains the name of a special token only if the name was part of the text.
    tags = run.setting.family.tags
    pieces = [
        token.piece.removesuffix(token.special or tags.get(token.token_id, ""))
        for token in run.tokens
    ]
    return _RecordedText(pieces, run.residue)


class _RecordedText:
    """A detokenizer for recordings whose bytes alone do not determine the text."""

    def __init__(self, pieces: list[str], residue: str) -> None:
        self.index = 0
        self._pieces = pieces
        self._residue = residue

    def add(self, token_id: int) -> str:
        return self._pieces[self.index]

    peek = cut = add

    def finish(self) -> str:
        """Return the recorded residue, if the replay reached the recording's end."""
        return self._residue if self.index >= len(self._pieces) - 1 else ""


def _recorded_calls(run: RunTrace, number_of_text: Callable[[], int]) -> NewReader:
    """Return what replaces the reader of the model's calls: it looks a text's calls up in a run."""
    begun = run.setting.beginning.call
    recorded = sorted(run.calls, key=lambda text: len(text.raw), reverse=True)

    def new_reader(name: str | None) -> CallReader:
        def read(text: StreamBuffer, out: CallWriter) -> Waiting[None]:
            whole = yield from text.text_before(CALL_ENDS)
            # The prompt's part of a call is not in the recording, and a stop may have removed white
            # space at a call's end.
            number = number_of_text()
            matching = (
                (raw, one)
                for raw in (whole, whole.removeprefix(begun))
                for one in recorded
                if raw.strip() == one.raw.strip()
                or (one.raw and one.number in (0, number) and raw.startswith(one.raw))
            )
            raw, found = next(matching, ("", None))
            if found is None:
                raise IrregularCall("the recorded run did not read this as a call")
            known = found.raw
            for call in found.calls:
                # Two tools may have been called with equal arguments: the name is the tag's.
                out.start(name or call.name)
                out.write(call.arguments)
            if raw.strip() != known.strip():
                out.whole, out.end = out.count, len(whole) - len(raw) + len(known)
                raise IrregularCall("text follows the call")

        return CallReader(read)

    return new_reader

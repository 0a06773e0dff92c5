"""A run's tokens side by side: what was held, matched and cut. Pure; any thread."""

import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntFlag
from itertools import pairwise

from engine import (
    Channel,
    StopInfo,
    StopKind,
    StopRules,
    TokenTrace,
    Vocabulary,
    counted,
    quoted,
    visible,
)
from engine.recording.run_trace import RunTrace
from ui.words import ORIGIN_WORDS

CHANNEL_NAMES = {
    Channel.TEXT: "Answer",
    Channel.THINKING: "Thinking",
    Channel.TOOL: "Tool call",
}


class TokenMark(IntFlag):
    """What happened to a piece of text."""

    NONE = 0
    HELD = 1
    MATCHED = 2
    CUT = 4


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of one token's text that is marked in one way."""

    row: int
    text: str
    marks: TokenMark
    is_chip: bool = False


class Tape:
    """The tokens of a trace, or its newest ones, at one moment."""

    def __init__(self, trace: RunTrace, newest: int | None = None) -> None:
        tokens = tuple(trace.tokens)
        self.tokens: Sequence[TokenTrace] = tokens if newest is None else tokens[-newest:]
        self.stop: StopInfo | None = trace.stop
        self.rules = trace.rules
        self.texts = [token.piece for token in self.tokens]
        if self.texts and self.stop is not None:
            self.texts[-1] += trace.residue
        self._starts: list[int] = []
        place = 0
        for text in self.texts:
            self._starts.append(place)
            place += len(text)
        self._length = place
        self.cut, self.matched = self._ends()

    def spans(self) -> Iterator[Span]:
        """Yield the text piece by piece."""
        for row, (token, text) in enumerate(zip(self.tokens, self.texts, strict=True)):
            if not text:
                yield Span(row, chip_text(token), self._chip_marks(row), is_chip=True)
                continue
            start = self._starts[row]
            end = start + len(text)
            held = end - min(len(token.held), len(text)) if token.held else end
            edges = {start, end, held, *self.cut, *self.matched}
            places = sorted(edge for edge in edges if start <= edge <= end)
            for begin, stop in pairwise(places):
                marks = TokenMark.HELD if begin >= held else TokenMark.NONE
                if self.matched[0] <= begin < self.matched[1]:
                    marks |= TokenMark.MATCHED
                if self.cut[0] <= begin < self.cut[1]:
                    marks |= TokenMark.CUT
                yield Span(row, text[begin - start : stop - start], marks)

    def first_matched_row(self) -> int | None:
        """Return the row of the token with the match's first character."""
        begin, end = self.matched
        if begin == end:
            return None
        return bisect_right(self._starts, begin) - 1

    def channel_text(self, channel: Channel) -> str:
        """Return all text of a channel, including what was cut off."""
        pairs = zip(self.tokens, self.texts, strict=True)
        return "".join(text for token, text in pairs if token.channel is channel)

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
    """Return what is shown for a token without text: a special token's name, or its bytes."""
    if token.special is not None:
        return token.special
    if token.raw:
        try:
            return visible(token.raw.decode("utf-8"))
        except UnicodeDecodeError:
            return token.raw.hex(" ")
    return f"id {token.token_id}"


def percent(probability: float) -> str:
    """Return a probability with two or three digits: ``97 %``, ``0.42 %``, ``< 0.01 %``."""
    share = probability * 100
    if share >= 99.95:
        return "100 %"
    if share >= 10:
        return f"{share:.0f} %"
    if share >= 1:
        return f"{share:.1f} %"
    return f"{share:.2f} %" if share >= 0.01 else "< 0.01 %"


def alternatives(token: TokenTrace, vocabulary: Vocabulary | None) -> str:
    """Return the likeliest tokens in a token's place, best first; empty if they are unknown."""
    if token.stats is None or not token.stats.top:
        return ""
    return "   ".join(
        f"{quoted(_name(token_id, vocabulary), 20)} {percent(math.exp(logprob))}"
        for token_id, logprob in token.stats.top
    )


def _name(token_id: int, vocabulary: Vocabulary | None) -> str:
    text = None if vocabulary is None else vocabulary.text_of(token_id)
    return text or f"id {token_id}"


def token_words(token: TokenTrace, rules: StopRules) -> str:
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
    if said := ORIGIN_WORDS[token.origin]:
        parts.append(said)
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
    return "  ·  ".join(parts)

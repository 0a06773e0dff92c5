"""Chooses stops from the plain answers of a server, so that the effect of each is known.

Pure; any thread.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice, pairwise, product
from typing import Any, Self

from api.conformance.captures.values import Capture, CapturedEnding, first_occurrence
from api.conformance.probe.dialects import Ask

# A shorter answer has no text for stops.
MIN_CHARS = 12
# Occurs in no answer.
NEVER = "#~never~"
# A question in the most common chat template, for APIs without one.
CHATML = "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"
_JOINER = "\u200d"
_NO_CHARACTER = "\ufffd"


@dataclass(frozen=True, slots=True)
class Baseline:
    """The answer to one prompt without stops."""

    ask: Ask
    text: str
    # The text that all its answers have in common.
    stable: str
    thinking: str = ""
    # The ends of a stream's pieces; none if they do not show the tokens.
    bounds: tuple[int, ...] = ()
    tokens: int | None = None
    ending: CapturedEnding | None = None
    is_repeatable: bool = True
    output_ids: tuple[int, ...] = ()
    # The modes that are compared: not streams whose text always differs.
    modes: tuple[bool, ...] = (False, True)
    streamed_tokens: int | None = None

    @classmethod
    def of(cls, ask: Ask, capture: Capture, **others: Any) -> Self:
        """Return the baseline of an answer; all of its text is stable if nothing else is given."""
        text, tokens = capture.text, capture.output_tokens
        known = cls(ask, text, text, capture.thinking, tokens=tokens, ending=capture.ending)
        return replace(known, **others)

    def tokens_in(self, *, is_streamed: bool) -> int | None:
        return self.streamed_tokens if is_streamed else self.tokens

    @property
    def is_usable(self) -> bool:
        return len(self.stable.strip()) >= MIN_CHARS

    @property
    def offsets(self) -> range:
        """The offsets at which a stop may begin, so that text is before and after it."""
        size = len(self.stable)
        return range(max(1, int(size * 0.15)), max(2, int(size * 0.6)))

    def is_first(self, start: int, end: int) -> bool:
        return self.stable.find(self.stable[start:end]) == start

    def is_solid(self, start: int, end: int) -> bool:
        """Whether a text has no white space at its ends and occurs here first."""
        chosen = self.stable[start:end]
        return (
            end <= len(self.stable)
            and is_plain(chosen[0])
            and is_plain(chosen[-1])
            and _NO_CHARACTER not in chosen
            and self.is_first(start, end)
        )

    def solid_stops(
        self, starts: Iterable[int], lengths: Iterable[int]
    ) -> Iterator[tuple[int, str]]:
        """Yield the solid texts of some lengths with their offsets."""
        for length, start in product(lengths, starts):
            if self.is_solid(start, start + length):
                yield start, self.stable[start : start + length]

    def pieces(self, ends: Sequence[int]) -> Iterator[tuple[int, int]]:
        """Yield those pieces of a stream from which stops may be chosen."""
        for begin, end in pairwise((0, *ends)):
            if begin in self.offsets and end <= len(self.stable):
                yield begin, end


@dataclass(frozen=True, slots=True)
class StopCase:
    """Stops for one prompt, and their expected effect."""

    kind: str
    baseline: Baseline
    stops: tuple[str, ...]
    text: str
    matched: str | None
    # Why this one fires and no other.
    why: str = ""
    # Whether a stop occurs in the thinking too.
    is_thought: bool = False

    @property
    def end(self) -> int:
        if self.matched is None:
            return len(self.baseline.text)
        return len(self.text) + len(self.matched)


def bounds(capture: Capture) -> tuple[int, ...]:
    """Return the ends of a stream's pieces; () if these are too few to show its tokens."""
    ends: list[int] = []
    for event in capture.events:
        if event.text:
            ends.append(len(event.text) + (ends[-1] if ends else 0))
    # A few large pieces of a stream do not show its tokens.
    return tuple(ends) if len(ends) >= 4 else ()


def is_plain(char: str) -> bool:
    """Whether a character is neither white space nor invisible."""
    return char.isprintable() and not char.isspace() and char != _NO_CHARACTER


def plan(baselines: Sequence[Baseline]) -> list[StopCase]:
    """Return the case of each kind for which an answer has suitable stops."""
    return [case for kind in KINDS if (case := stop_case(kind, baselines)) is not None]


def stop_case(kind: str, baselines: Sequence[Baseline]) -> StopCase | None:
    """Return the case of a kind for the first answer that has suitable stops.

    Stops that occur in the answer alone come first: some servers stop in the thinking, too.
    """
    choose, why = KINDS[kind]
    found = (
        _case(kind, baseline, stops, why)
        for baseline in baselines
        for stops in islice(choose(baseline), 64)
        if not any(_NO_CHARACTER in stop for stop in stops)
    )
    return min(found, key=lambda each: each.is_thought, default=None)


def consecutive_cases(given: Baseline) -> Iterator[tuple[StopCase, StopCase]]:
    """Yield two cases each, whose stops are completed by consecutive pieces of the stream."""
    cases = (_case_within(given, begin, end) for begin, end in given.pieces(given.bounds))
    for first, second in pairwise(cases):
        if first is not None and second is not None and given.is_repeatable:
            yield first, second


def simple_case(given: Baseline, *, is_thinking_safe: bool = False) -> StopCase | None:
    """Return a case of one character, if the answer is repeatable and has one.

    Where every character of the answer occurs in the thinking, too, the stop has two to four. A
    stop that occurs in both is chosen last, and only if the server does not stop in the thinking.
    """
    thoughts = [given.thinking] if given.is_repeatable else []
    if is_thinking_safe and given.is_repeatable:
        thoughts.append("")
    starts = (*given.offsets, *range(1, len(given.stable)))
    for thinking in thoughts:
        for at, stop in given.solid_stops(starts, (1, 2, 3, 4)):
            if stop not in thinking and stop[0].isalnum() and stop[-1].isalnum():
                return StopCase("simple", given, (stop,), given.text[:at], stop)
    return None


def _case(kind: str, baseline: Baseline, stops: tuple[str, ...], why: str = "") -> StopCase:
    end, matched = first_occurrence(baseline.text, stops) or (len(baseline.text), None)
    is_thought = any(stop in baseline.thinking for stop in stops)
    return StopCase(kind, baseline, stops, baseline.text[:end], matched, why, is_thought)


def _case_within(given: Baseline, begin: int, end: int) -> StopCase | None:
    """Return a case whose stop is within a piece and occurs in the answer alone."""
    for start, stop in product(range(begin, end), range(begin + 1, end + 1)):
        chosen = given.stable[start:stop]
        if start < stop and given.is_solid(start, stop) and chosen not in given.thinking:
            return StopCase("within", given, (chosen,), given.text[:start], chosen)
    return None


# The kinds of stops: each function yields candidates from one answer.

_Candidates = Iterator[tuple[str, ...]]


def _one_character(given: Baseline) -> _Candidates:
    for start in given.offsets:
        if is_plain(given.stable[start]) and given.is_first(start, start + 1):
            yield (given.stable[start],)


def _token_ends(given: Baseline) -> tuple[tuple[int, ...], ...]:
    """Return where tokens end, as the pieces of a stream show it, or as most tokenizers do it.

    A server may send many tokens as one piece, or one in several; tokens seldom cross words, and
    begin with the space before a word.
    """
    text = given.stable
    word_ends = (*(at for at, char in enumerate(text) if char.isspace() and at), len(text))
    is_counted = given.tokens is not None and abs(given.tokens - len(given.bounds)) <= 1
    return (given.bounds,) if is_counted else (given.bounds, word_ends)


def _first_solid(given: Baseline, ranges: Iterator[tuple[int, int]]) -> _Candidates:
    found = (pair for pair in ranges if 0 < pair[0] < pair[1] and given.is_solid(*pair))
    for start, end in islice(found, 1):
        yield (given.stable[start:end],)


def _inside_token(given: Baseline) -> _Candidates:
    for begin, end in chain.from_iterable(map(given.pieces, _token_ends(given))):
        # Neither the first nor the last character of a piece; else at least not the first.
        yield from _first_solid(given, iter(((begin + 1, end - 1), (begin + 1, end))))


def _begins_inside(given: Baseline) -> _Candidates:
    for ends in _token_ends(given):
        for (begin, end), (_, after) in pairwise(given.pieces(ends)):
            ranges = product(range(begin + 1, end), range(end + 1, after + 2))
            yield from _first_solid(given, ranges)


def _across_tokens(given: Baseline) -> _Candidates:
    for ends in _token_ends(given):
        for here, there in pairwise(end for _, end in given.pieces(ends)):
            ranges = ((here - 1, end) for end in (there + 1, here + 1, here + 2))
            yield from _first_solid(given, ranges)


def _across_newline(given: Baseline) -> _Candidates:
    for start in given.offsets:
        chosen = given.stable[start : start + 3]
        is_across = [char == "\n" for char in chosen] == [False, True, False]
        if is_across and given.is_first(start, start + 3):
            yield (chosen,)


def _leading_space(given: Baseline) -> _Candidates:
    for start in given.offsets:
        chosen = given.stable[start : start + 2]
        is_led = len(chosen) == 2 and chosen[0] == " " and is_plain(chosen[1])
        if is_led and given.is_first(start, start + 2):
            yield (chosen,)


def _trailing_space(given: Baseline) -> _Candidates:
    # Without its white space the stop occurs earlier, so a server that trims it stops there.
    for start, length in product(range(1, len(given.stable)), (1, 2, 3)):
        end = start + length
        solid, space = given.stable[start:end], given.stable[end : end + 1]
        is_led = space.isspace() and is_plain(solid[0]) and is_plain(solid[-1])
        if is_led and not given.is_first(start, end) and given.is_first(start, end + 1):
            yield (solid + space,)


def _overlapping(given: Baseline) -> _Candidates:
    for start in given.offsets:
        first, second = given.stable[start : start + 3], given.stable[start + 2 : start + 5]
        if len(second) == 3 and _fires(given, (second, first), first, start):
            yield second, first


def _shadowed(given: Baseline) -> _Candidates:
    for start in given.offsets:
        short, long = given.stable[start : start + 2], given.stable[start : start + 4]
        if len(long) == 4 and _fires(given, (long, short), short, start):
            yield long, short


def _fires(given: Baseline, stops: tuple[str, str], matched: str, start: int) -> bool:
    """Whether a stop fires before the others, at its offset, without white space around it."""
    is_clean = all(is_plain(stop[0]) and is_plain(stop[-1]) for stop in stops)
    is_known = all(stop in given.stable for stop in stops) and stops[0] != stops[1]
    return first_occurrence(given.stable, stops) == (start, matched) and is_clean and is_known


def _nested(given: Baseline) -> _Candidates:
    for start in given.offsets:
        short = given.stable[start + 1 : start + 3]
        is_clean = len(short) == 2 and given.is_solid(start, start + 3)
        if is_clean and given.is_first(start + 1, start + 3):
            yield given.stable[start : start + 3] + NEVER, short


def _after_space(given: Baseline) -> _Candidates:
    for start in given.offsets:
        if given.stable[start - 1] == " " and given.is_solid(start, start + 2):
            yield (given.stable[start : start + 2],)


def _among_others(given: Baseline) -> _Candidates:
    for (chosen,) in _one_character(given):
        yield f"{NEVER}1", f"{NEVER}2", chosen, f"{NEVER}3"


def _alike(given: Baseline) -> _Candidates:
    # Longer than any token, so that a part of it could leak.
    for length, start in product((9, 7, 5), given.offsets):
        chosen = given.stable[start : start + length]
        if len(chosen) == length and given.is_solid(start, start + length):
            yield chosen + NEVER, chosen, chosen[:-1] + NEVER


def _recurring_prefix(given: Baseline) -> _Candidates:
    counts = {char: given.text.count(char) for char in set(given.text) - {_NO_CHARACTER}}
    often = max(counts, key=lambda char: (counts[char], char), default="")
    if often and given.is_repeatable:
        yield (often + NEVER,)


def _held_at_the_end(given: Baseline) -> _Candidates:
    end = given.text[-2:]
    if given.is_repeatable and len(end) == 2 and _NO_CHARACTER not in end:
        yield (end + NEVER,)


def _last_characters(given: Baseline) -> _Candidates:
    text = given.text
    is_ended = given.is_repeatable and given.ending is not CapturedEnding.LIMIT
    for length in range(1, min(12, len(text))):
        is_first = text.find(text[-length:]) == len(text) - length
        if is_first and is_ended and _NO_CHARACTER not in text:
            yield (text[-length:],)


def _alike_at_the_end(given: Baseline) -> _Candidates:
    for (last,) in _last_characters(given):
        yield last + NEVER, last


def _very_first(given: Baseline) -> _Candidates:
    # White space before it may be that of the prompt, which no stop can match.
    first = given.stable.lstrip()[0]
    if is_plain(first):
        yield (first,)


def _beyond_ascii(given: Baseline) -> _Candidates:
    for start, char in enumerate(given.stable):
        if start and not char.isascii() and is_plain(char) and given.is_first(start, start + 1):
            yield (char,)


def _emoji(given: Baseline) -> _Candidates:
    return (stops for stops in _beyond_ascii(given) if stops[0] > "\uffff")


def _joined(given: Baseline) -> _Candidates:
    # The second half of one visible character.
    for at, char in enumerate(given.stable):
        half = given.stable[at + 1 : at + 2]
        if at and char == _JOINER and half and given.is_first(at + 1, at + 2):
            yield (half,)


def _after_emoji(given: Baseline) -> _Candidates:
    # Beyond the basic plane: two units of UTF-16, four bytes of UTF-8.
    size = len(given.stable)
    first = next((at for at, char in enumerate(given.stable) if ord(char) > 0xFFFF), size)
    for start in range(first + 2, size):
        if given.is_solid(start, start + 2):
            yield (given.stable[start : start + 2],)


KINDS: dict[str, tuple[Callable[[Baseline], _Candidates], str]] = {
    "one_character": (_one_character, ""),
    "inside_token": (_inside_token, ""),
    "begins_inside": (_begins_inside, ""),
    "across_tokens": (_across_tokens, ""),
    "across_newline": (_across_newline, ""),
    "leading_space": (_leading_space, ""),
    "trailing_space": (_trailing_space, ""),
    "overlapping": (_overlapping, "the one whose last character comes first"),
    "shadowed": (_shadowed, "the shorter one is complete before the longer one can be"),
    "nested": (_nested, "the longer one around it is never complete"),
    "after_space": (_after_space, ""),
    "among_others": (_among_others, ""),
    "alike": (_alike, "the others that begin like it are never complete"),
    "recurring_prefix": (_recurring_prefix, ""),
    "held_at_the_end": (_held_at_the_end, ""),
    "last_characters": (_last_characters, ""),
    "alike_at_the_end": (_alike_at_the_end, "the longer one is never complete"),
    "very_first": (_very_first, ""),
    "unicode": (_beyond_ascii, ""),
    "emoji": (_emoji, ""),
    "joined": (_joined, ""),
    "after_emoji": (_after_emoji, ""),
}

"""Exact cycles at the end of an answer: a model that writes the same paragraph until its limit.

A cycle of period ``p`` has the last tokens equal to those ``p`` before them. Nothing is compared
token by token: a cycle that completes within the next tokens has matched for some tokens already,
so a search for the last few tokens, as bytes, finds every period that can complete before the next
search. Any thread; one detector for each answer.
"""

import sys
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from math import gcd

from engine.errors import InvalidRequest

MAX_PATTERN_SIZE = 4096
"""The longest pattern in tokens: about three pages. Loops of agents repeat up to some 1,000."""
MAX_PATTERN_TOKENS = 65_536
"""The most tokens that all copies may have: an answer's last 65,536 tokens are looked at."""
_BYTES = array("I").itemsize


@dataclass(frozen=True, slots=True)
class Repetition:
    """The last tokens of an answer are exact copies of one another.

    Attributes:
        period: The tokens of one copy: the smallest that the limits of the detection allow.
        copies: How many whole copies there are.
        token_index: Where the first copy begins, from 0 over the generated tokens.
    """

    period: int
    copies: int
    token_index: int


@dataclass(frozen=True, slots=True)
class RepetitionDetection:
    """Which cycle ends an answer; the names are vLLM's, but for ``min_tokens``.

    Attributes:
        max_pattern_size: The longest period, in tokens.
        min_pattern_size: The shortest period.
        min_count: The copies that complete a cycle, at least 2.
        min_tokens: The tokens that all copies have together, at least.

    Raises:
        InvalidRequest: The message names the field and its limits.
    """

    max_pattern_size: int
    min_pattern_size: int = 1
    min_count: int = 2
    min_tokens: int = 0

    def __post_init__(self) -> None:
        limits = {
            "max_pattern_size": (1, MAX_PATTERN_SIZE),
            "min_pattern_size": (1, self.max_pattern_size),
            "min_count": (2, MAX_PATTERN_TOKENS // max(self.max_pattern_size, 1)),
            "min_tokens": (0, MAX_PATTERN_TOKENS),
        }
        for name, (low, high) in limits.items():
            if not low <= (value := getattr(self, name)) <= high:
                raise InvalidRequest(
                    f"repetition_detection.{name}", f"must be {low} to {high:,}, not {value:,}"
                )

    def tokens_of(self, period: int) -> int:
        """Return how many last tokens the copies of a period must have."""
        return period * max(self.min_count, -(-self.min_tokens // period))

    def matches_of(self, period: int) -> int:
        """Return how many last tokens have to equal those one period before them."""
        return self.tokens_of(period) - period


DEFAULT_DETECTION = RepetitionDetection(MAX_PATTERN_SIZE, min_count=4, min_tokens=256)
"""The cycles that end an answer where nobody gives figures."""
RECORDED = replace(DEFAULT_DETECTION, min_tokens=64)
"""The cycles that records name: also in short answers that a limit ended."""


class RepetitionScope(StrEnum):
    """What a cycle may end.

    Attributes:
        NOTHING: It is not even recorded: a grammar or a prediction makes it.
        REASONING: In reasoning it ends the reasoning alone, and the answer elsewhere.
    """

    NOTHING = "nothing"
    ANSWER = "answer"
    REASONING = "reasoning"


@dataclass(frozen=True, slots=True)
class PeriodRange:
    """Periods that are searched together.

    The longer the periods, the more tokens have to match, and the less often they are searched.

    Attributes:
        searched: How many last tokens are searched: fewer than any of the periods needs.
        stride: A period that these tokens do not show needs this many more tokens, at least.
        window: The most tokens that a cycle of these periods needs.
    """

    first: int
    last: int
    searched: int
    stride: int
    window: int

    def matching(self, tail: bytes, searched: int, smallest: int) -> Iterator[int]:
        """Return the periods by which the last tokens match, the smallest first.

        Without multiples of the first, and without those whose divisor counts by itself: the
        theorem of Fine and Wilf names them, and no copies of them are complete any earlier.
        """
        size = searched * _BYTES
        # The end of the tail first: ``find`` is linear in the worst case, and ``rfind`` is not.
        backwards = tail[: -size - self.last * _BYTES - 1 : -1]
        begin, needle = self.first * _BYTES, backwards[:size]
        first = 0
        while (found := backwards.find(needle, begin)) >= 0:
            begin = found + 1
            if found % _BYTES:
                continue
            period = found // _BYTES
            if first and period <= searched and gcd(first, period) >= smallest:
                continue
            yield period
            if not first and period <= searched:
                first = period
                if smallest == 1:
                    begin = searched * _BYTES + 1


@lru_cache(maxsize=64)
def _ranges(detection: RepetitionDetection) -> tuple[PeriodRange, ...]:
    ranges, first = [], detection.min_pattern_size
    while first <= detection.max_pattern_size:
        least = max(16, detection.min_tokens // detection.min_count)
        last = min(max(least, 2 * first - 1), detection.max_pattern_size)
        periods = range(first, last + 1)
        fewest = min(map(detection.matches_of, periods))
        searched = max(1, fewest // 2)
        window = max(map(detection.tokens_of, periods))
        ranges.append(PeriodRange(first, last, searched, fewest - searched + 1, window))
        first = last + 1
    return tuple(ranges)


class RepetitionDetector:
    """Finds the token that completes a cycle, exactly there; ``add`` each token.

    Without a detection it only keeps the tokens for ``recorded``. A cycle counts only behind the
    first ``min_tokens`` tokens of the answer.
    """

    def __init__(self, detection: RepetitionDetection | None, min_tokens: int = 0) -> None:
        self._detection = detection
        self._min_tokens = min_tokens
        self._ranges = () if detection is None else _ranges(detection)
        self.restart(0)

    def restart(self, token_index: int) -> None:
        """Begin anew at a token: no cycle reaches over the beginning of a channel."""
        self._tokens = array("I")
        self._begin = token_index
        # The count of tokens at which each range is searched next.
        earliest = self._min_tokens + 1 - token_index
        self._due = [max(one.searched + one.stride, earliest) for one in self._ranges]
        self._next_due = min(self._due, default=sys.maxsize)

    @property
    def tokens_left(self) -> int:
        """The fewest further tokens that can complete a cycle."""
        return self._next_due - len(self._tokens)

    def add(self, token_id: int) -> Repetition | None:
        """Add a token; return the cycle that it completes."""
        tokens = self._tokens
        tokens.append(token_id)
        return self._check(self._detection) if len(tokens) >= self._next_due else None

    def _check(self, detection: RepetitionDetection | None) -> Repetition | None:
        assert detection is not None, "without one no range is due"
        count, is_found = len(self._tokens), False
        for index, one in enumerate(self._ranges):
            if self._due[index] > count:
                continue
            missing = one.stride
            tail = self._tokens[-one.window :].tobytes()
            for period in one.matching(tail, one.searched, detection.min_pattern_size):
                matches = detection.matches_of(period)
                if _repeats(tail, period, matches):
                    missing, is_found = 1, True
                    break
                if _repeats(tail, period, matches - missing + 1):
                    missing = matches - _count_matches(tail, period, one.searched, matches)
            self._due[index] = count + missing
        self._next_due = min(self._due)
        return self._found(detection) if is_found else None

    def recorded(self) -> Repetition | None:
        """Return the cycle with which the tokens end, as records name it."""
        return self._found(RECORDED)

    def _found(self, detection: RepetitionDetection) -> Repetition | None:
        found = find_repetition(self._tokens, detection)
        return found and replace(found, token_index=self._begin + found.token_index)


def _repeats(tail: bytes, period: int, matches: int) -> bool:
    size, shift = matches * _BYTES, period * _BYTES
    begin = len(tail) - size - shift
    return begin >= 0 and tail.endswith(tail[begin : begin + size])


def _count_matches(tail: bytes, period: int, low: int, high: int) -> int:
    """Return how many last tokens equal those one period before; ``low`` do, ``high`` do not."""
    while high - low > 1:
        middle = (low + high) // 2
        if _repeats(tail, period, middle):
            low = middle
        else:
            high = middle
    return low


def find_repetition(tokens: Sequence[int], detection: RepetitionDetection) -> Repetition | None:
    """Return the cycle with which tokens end, of the smallest period, with all of its copies."""
    tail = array("I", tokens).tobytes()
    for one in _ranges(detection):
        searched = one.searched + one.stride - 1
        for period in one.matching(tail, searched, detection.min_pattern_size):
            if _repeats(tail, period, matches := detection.matches_of(period)):
                found = _count_matches(tail, period, matches, len(tokens))
                copies = (found + period) // period
                return Repetition(period, copies, len(tokens) - copies * period)
    return None

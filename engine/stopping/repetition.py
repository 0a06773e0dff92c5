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


@lru_cache(maxsize=64)
def _bounds(detection: RepetitionDetection) -> tuple[int, int]:
    """Return the fewest tokens that have to match for a cycle, and the most that one needs."""
    periods = range(detection.min_pattern_size, detection.max_pattern_size + 1)
    return min(map(detection.matches_of, periods)), max(map(detection.tokens_of, periods))


def _periods(tail: bytes, searched: int, detection: RepetitionDetection) -> Iterator[int]:
    """Yield the periods by which the last ``searched`` tokens match, the smallest first."""
    size = searched * _BYTES
    # The end of the tail first: ``find`` is linear in the worst case, and ``rfind`` is not.
    backwards = tail[: -size - detection.max_pattern_size * _BYTES - 1 : -1]
    found = backwards.find(needle := backwards[:size], detection.min_pattern_size * _BYTES)
    while found >= 0:
        if found % _BYTES == 0:
            yield found // _BYTES
        found = backwards.find(needle, found + 1)


class RepetitionDetector:
    """Finds the token that completes a cycle, exactly there; ``add`` each token.

    Without a detection it only keeps the tokens for ``recorded``. A cycle counts only behind the
    first ``min_tokens`` tokens of the answer.
    """

    def __init__(self, detection: RepetitionDetection | None, min_tokens: int = 0) -> None:
        self._detection = detection
        self._min_tokens = min_tokens
        self.restart(0)

    def restart(self, token_index: int) -> None:
        """Begin anew at a token: no cycle reaches over the beginning of a channel."""
        self._tokens = array("I")
        self._begin = token_index
        # The count of tokens at which cycles are searched next.
        self._due = sys.maxsize
        if self._detection is not None:
            fewest, _ = _bounds(self._detection)
            self._due = max(fewest + 1, self._min_tokens + 1 - token_index)

    @property
    def tokens_left(self) -> int:
        """The fewest further tokens that can complete a cycle."""
        return self._due - len(self._tokens)

    def add(self, token_id: int) -> Repetition | None:
        self._tokens.append(token_id)
        return self._check(self._detection) if len(self._tokens) >= self._due else None

    def _check(self, detection: RepetitionDetection | None) -> Repetition | None:
        assert detection is not None, "without one nothing is due"
        fewest, window = _bounds(detection)
        searched = max(1, fewest // 2)
        # A period that the searched tokens do not show needs this many more, at least.
        missing = fewest - searched + 1
        tail = self._tokens[-window:].tobytes()
        is_found = False
        for period in _periods(tail, searched, detection):
            matches = detection.matches_of(period)
            if is_found := _repeats(tail, period, matches):
                missing = 1
                break
            if _repeats(tail, period, matches - missing + 1):
                missing = matches - _count_matches(tail, period, searched, matches)
        self._due = len(self._tokens) + missing
        return self._found(detection) if is_found else None

    def recorded(self) -> Repetition | None:
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
    for period in _periods(tail, _bounds(detection)[0], detection):
        if _repeats(tail, period, matches := detection.matches_of(period)):
            copies = 1 + _count_matches(tail, period, matches, len(tokens)) // period
            return Repetition(period, copies, len(tokens) - copies * period)
    return None

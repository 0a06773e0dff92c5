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
            "min_count": (2, MAX_PATTERN_TOKENS // self.max_pattern_size),
            "min_tokens": (0, MAX_PATTERN_TOKENS),
        }
        for name, (low, high) in limits.items():
            if not low <= (value := getattr(self, name)) <= high:
                raise InvalidRequest(
                    f"repetition_detection.{name}", f"must be {low} to {high:,}, not {value:,}"
                )

    def tokens_of(self, period: int) -> int:
        """Return how many last tokens have to repeat with a period."""
        return max(period * self.min_count, self.min_tokens)

    def matches_of(self, period: int) -> int:
        """Return how many last tokens have to equal those one period before them."""
        return self.tokens_of(period) - period


RECORDED = RepetitionDetection(MAX_PATTERN_SIZE, min_count=4, min_tokens=64)
"""The cycles that records name: a person at a limit reads why; fewer tokens say nothing."""


class RepetitionDetector:
    """Finds the token that completes a cycle, exactly there; ``add`` each token.

    Without a detection it only keeps the tokens for ``recorded``.
    """

    def __init__(self, detection: RepetitionDetection | None) -> None:
        self._detection = detection or RECORDED
        self._is_ending = detection is not None
        detection = self._detection
        fewest = _fewest_matches(detection)
        self._searched = max(1, fewest // 2)
        self._stride = fewest - self._searched + 1
        self._window = detection.tokens_of(detection.max_pattern_size)
        self._first_check = detection.tokens_of(detection.min_pattern_size)
        self.restart(0)

    def restart(self, token_index: int) -> None:
        """Begin anew at a token: no cycle reaches over the beginning of a channel."""
        self._tokens = array("I")
        self._begin = token_index
        self._check_at = self._first_check if self._is_ending else sys.maxsize

    @property
    def tokens_left(self) -> int:
        """The fewest further tokens that can complete a cycle."""
        return self._check_at - len(self._tokens)

    def add(self, token_id: int) -> Repetition | None:
        """Add a token; return the cycle that it completes."""
        tokens = self._tokens
        tokens.append(token_id)
        return self._check() if len(tokens) >= self._check_at else None

    def _check(self) -> Repetition | None:
        count = len(self._tokens)
        tail = self._tokens[-self._window :].tobytes()
        missing = self._stride
        for period in _matching_periods(tail, self._searched, self._detection):
            matches = self._detection.matches_of(period)
            if _repeats(tail, period, matches):
                self._check_at = count + 1
                copies = self._detection.tokens_of(period) // period
                return Repetition(period, copies, self._begin + count - copies * period)
            found = _count_matches(tail, period, self._searched, matches)
            missing = min(missing, matches - found)
        self._check_at = count + missing
        return None

    def recorded(self) -> Repetition | None:
        """Return the cycle with which the tokens end, as records name it."""
        if (found := find_repetition(self._tokens, RECORDED)) is None:
            return None
        return replace(found, token_index=self._begin + found.token_index)


def _fewest_matches(detection: RepetitionDetection) -> int:
    """Return the fewest last tokens that have to match, of any period."""
    first, last = detection.min_pattern_size, detection.max_pattern_size
    # Up to this period min_tokens decides, and the matches become fewer; then min_count decides.
    turn = min(max(first, -(-detection.min_tokens // detection.min_count)), last)
    periods = {first, max(first, turn - 1), turn, last}
    return min(map(detection.matches_of, periods))


def _matching_periods(tail: bytes, searched: int, detection: RepetitionDetection) -> Iterator[int]:
    """Return the periods by which the last ``searched`` tokens match, the smallest first."""
    size = searched * _BYTES
    if len(tail) <= size:
        return
    last, end = tail[-size:], len(tail) - detection.min_pattern_size * _BYTES
    begin = max(0, len(tail) - size - detection.max_pattern_size * _BYTES)
    while (found := tail.rfind(last, begin, end)) >= 0:
        distance = len(tail) - size - found
        if distance % _BYTES == 0:
            yield distance // _BYTES
        end = found + size - 1


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
    for period in _matching_periods(tail, _fewest_matches(detection), detection):
        if _repeats(tail, period, detection.matches_of(period)):
            found = _count_matches(tail, period, detection.matches_of(period), len(tokens))
            copies = (found + period) // period
            return Repetition(period, copies, len(tokens) - copies * period)
    return None

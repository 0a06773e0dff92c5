"""How many tokens one forward pass should check, from costs measured on the running machine. Pure.

A pass over several tokens takes longer than a pass over one, by how much depends on the machine,
the model and the number of rows: here eight tokens of one row take almost three times as long as
one, on a GPU hardly longer. So the time of each pass is noted, and a length is chosen by the tokens
that it is expected to give for that time. Knows no clock and no model.
"""

import math
from collections.abc import Sequence
from itertools import pairwise

# Tokens of one row in a pass, the known one included.
WIDTHS = (2, 3, 4, 6, 8, 12, 16, 24, 32)
# What a further token is expected to add to a pass, as a share of a pass over one token.
_EXPECTED_SLOPE = 0.3
# A pass over several tokens has to give so much more than the same time of plain decoding.
_LEAST_GAIN = 1.12
# The least of so many measurements counts: other programs only ever make a pass slower.
_REMEMBERED = 5
# Nothing is chosen before so many passes over one token were measured. Of those after the first
# ones, which are many, one in so many is.
_LEAST_MEASURED = 3
_ONE_IN = 4
# What was too slow is measured anew after so many times that guesses were passed over.
_FORGETS_AFTER = 512
# No longer does a pass keep rows waiting that may have nothing to gain from it.
_LONGEST_BESIDE_S = 0.05
# Widths are tried from small to large: the first ones up to this, then twice the largest so far.
_FIRST_WIDTH = 4


class Measured:
    """The time that something took of late: the least of the last few measurements."""

    __slots__ = ("_last", "value_s")

    def __init__(self) -> None:
        self._last: list[float] = []
        self.value_s: float | None = None

    @property
    def count(self) -> int:
        """How many measurements are remembered."""
        return len(self._last)

    def note(self, took_s: float) -> None:
        """Note one more measurement."""
        last = self._last
        last.append(took_s)
        if len(last) > _REMEMBERED:
            del last[0]
        self.value_s = min(last)

    def forget(self) -> None:
        """Forget all measurements."""
        self._last.clear()
        self.value_s = None


class CostCurve:
    """What passes over several tokens cost, against a pass over one.

    For one number of rows. Costs that were not measured are drawn from their neighbours.
    """

    def __init__(self) -> None:
        self._one = Measured()
        self._measured = {width: Measured() for width in WIDTHS}
        self._costs: dict[int, float] | None = None
        self._widest = _FIRST_WIDTH // 2
        self._passed_over = 0
        self._skipped = 0

    @property
    def one_s(self) -> float | None:
        """The time of a pass over one token; None before it was measured."""
        return self._one.value_s

    def note_one(self, took_s: float) -> None:
        """Note the time of a pass over one token of each row; of many, few are looked at."""
        self._skipped += 1
        if self._skipped < _ONE_IN and self._one.count >= _REMEMBERED:
            return
        self._skipped = 0
        before = self._one.value_s
        self._one.note(took_s)
        if self._one.value_s != before:
            self._costs = None

    def note(self, width: int, took_s: float) -> None:
        """Note the time of a pass over ``width`` tokens, which is one of ``WIDTHS``."""
        self._measured[width].note(took_s)
        self._widest = max(self._widest, width)
        self._costs = None

    def costs(self) -> dict[int, float]:
        """Return the cost of each width in passes over one token."""
        if self._costs is None:
            self._costs = self._drawn()
        return self._costs

    def _drawn(self) -> dict[int, float]:
        one = self._one.value_s
        known: list[tuple[int, float]] = []
        most = math.inf
        for width, measured in reversed(self._measured.items()):
            if one and measured.value_s is not None:
                # A pass that took longer than a wider one was held up by something else.
                most = min(most, max(1.0, measured.value_s / one))
                known.append((width, most))
        known = [(1, 1.0), *reversed(known)]
        costs = dict(known)
        for (left, low), (right, high) in pairwise(known):
            for width in WIDTHS:
                if left < width < right:
                    costs[width] = low + (high - low) * (width - left) / (right - left)
        last, high = known[-1]
        slope = _EXPECTED_SLOPE if last == 1 else min(_EXPECTED_SLOPE, (high - 1) / (last - 1))
        for width in WIDTHS:
            if width > last:
                costs[width] = high + slope * (width - last)
        return costs

    def choose(self, rows: int, guesses: Sequence[tuple[float, int]], extra: float = 0.0) -> int:
        """Return the width of the pass that gives the most for its time; 1 for plain decoding.

        Args:
            rows: All rows that decode.
            guesses: Of the rows that have guesses, how likely each guess is right, and how many
                there are at most.
            extra: What each guessed token costs before the pass, in passes over one token.
        """
        best, most = 1, _LEAST_GAIN
        if self._one.count < _LEAST_MEASURED:
            return best
        costs = self.costs()
        for width in WIDTHS:
            if width > 2 * self._widest:
                break
            if rows > 1 and costs[width] * (self._one.value_s or 0.0) > _LONGEST_BESIDE_S:
                break
            expected = float(rows)
            for likelihood, length in guesses:
                expected += _expected(likelihood, min(length, width - 1))
            gain = expected / rows / (costs[width] + extra * (width - 1))
            if gain > most:
                best, most = width, gain
        if best == 1 and guesses:
            self._reconsider()
        return best

    def _reconsider(self) -> None:
        """Forget after a while what was too slow: the machine may have been busy then."""
        self._passed_over += 1
        if self._passed_over >= _FORGETS_AFTER:
            self._passed_over = 0
            for measured in self._measured.values():
                measured.forget()
            self._widest = _FIRST_WIDTH // 2
            self._costs = None


def _expected(likelihood: float, length: int) -> float:
    """Return how many of some guesses are accepted, each of them as likely right as the others."""
    if likelihood >= 1.0:
        return float(length)
    return likelihood * (1.0 - likelihood**length) / (1.0 - likelihood)

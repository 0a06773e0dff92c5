"""What verification passes cost here, and whether the next one pays.

How much longer a pass over several tokens takes than a decode step depends on the machine, the
model and the number of rows, so it is measured. Costs are in decode steps of as many rows.
"""

from collections import defaultdict, deque
from collections.abc import Sequence
from functools import partial
from statistics import median_low

from engine.inference.speculation.sources import WIDTHS, DraftSource

MAX_ROWS = 3
"""With more rows, decoding is bound by computing: a wrong draft costs as much as a token."""
# A verification pass has to give this many times the tokens of decode steps.
_MIN_GAIN = 1.3
# What a further token adds to a pass, and what drafting one takes, before they were measured.
_EXPECTED_TOKEN_COST, _EXPECTED_DRAFT_COST = 0.15, 0.1
# What a wide pass adds to a decode step, in the same of a narrow pass.
_EXPECTED_WIDE_COST = 3.0
# After so many steps passes are measured again: other programs may have made them slow. Each
# measurement takes some decode steps, which talk does not earn back.
_REMEASURED_AFTER = 4096


class PassCosts:
    """The measured costs of one model's passes."""

    def __init__(self) -> None:
        # The last seconds of a decode step (width 1), a pass, or one draft of a model (width 0), by
        # the numbers of rows and of their groups, and their medians.
        self._last_s: defaultdict[tuple[int, int, int], deque[float]]
        self._last_s = defaultdict(partial(deque, maxlen=5))
        self._times_s: defaultdict[tuple[int, int], dict[int, float]] = defaultdict(dict)
        self._steps = 0

    def choose(
        self, rows: int, sources: Sequence[DraftSource], groups: int = 1
    ) -> tuple[int, float]:
        """Return the width of the pass that gives the most tokens for its time, and its gain.

        The width is 0 where decode steps give more. ``rows`` counts also rows without drafts.
        """
        times_s = self._times_s[rows, groups]
        best, best_gain = 0, _MIN_GAIN
        if not sources or len(self._last_s[rows, groups, 1]) < 3:
            return 0, 0.0
        drafts_cost = 0.0
        if any(source.is_computed for source in sources):
            drafts_cost = times_s[0] / times_s[1] if 0 in times_s else _EXPECTED_DRAFT_COST
        for width in WIDTHS:
            if width != WIDTHS[0] and WIDTHS[0] not in times_s:
                break  # the narrow pass is tried first
            drafts = min(width - 1, max(source.max_drafts for source in sources))
            cost = self.cost(rows, width, groups) + drafts_cost * drafts
            tokens = 1 + sum(source.expected_hits(drafts) for source in sources) / rows
            if tokens / cost > best_gain:
                best, best_gain = width, tokens / cost
        return best, best_gain

    def cost(self, rows: int, width: int, groups: int = 1) -> float:
        """Return the cost of a pass, estimated from the narrow one before it was measured."""
        times_s = self._times_s[rows, groups]
        if 1 in times_s and width in times_s:
            return max(1.0, times_s[width] / times_s[1])
        if width != WIDTHS[0] and WIDTHS[0] in times_s:
            return 1 + (self.cost(rows, WIDTHS[0], groups) - 1) * _EXPECTED_WIDE_COST
        return 1 + _EXPECTED_TOKEN_COST * (width - 1)

    def record(self, rows: int, width: int, took_s: float, groups: int = 1) -> None:
        """Record a decode step (width 1), a pass, or the time of one draft by a model (width 0)."""
        last_s = self._last_s[rows, groups, width]
        last_s.append(took_s)
        self._times_s[rows, groups][width] = median_low(last_s)
        self._steps += 1
        if self._steps % _REMEASURED_AFTER == 0:
            for rows, groups, width in [key for key in self._last_s if key[-1] != 1]:
                del self._last_s[rows, groups, width], self._times_s[rows, groups][width]

"""What verification passes cost here, and whether the next one pays.

How much longer a pass over several tokens takes than a decode step depends on the machine, the
model and the number of rows, so it is measured. Costs are in decode steps of as many rows.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

WIDTHS = (4, 16)
"""Tokens of each row in a verification pass, the pending token included."""
MAX_ROWS = 3
"""With more rows, decoding is bound by computing: a wrong draft costs as much as a token."""
MAX_CHAIN = WIDTHS[0] - 1
"""The length of a chain by a head or a draft model, each drafted from the one before."""

# A verification pass has to give this many times the tokens of decode steps.
_MIN_GAIN = 1.3
# What a further token adds to a pass, and what drafting one takes, before they were measured.
_EXPECTED_TOKEN_COST = 0.15
_EXPECTED_DRAFT_COST = 0.1
# What a wide pass adds to a decode step, in the same of a narrow pass.
_EXPECTED_WIDE_COST = 3.0
_MIN_DECODE_STEPS = 3
# A cost that was not used for so many steps is measured again: other programs may have raised it.
_REMEASURED_AFTER = 256


class MedianTime:
    """The median of the last few measured times, ``value_s``; None before the first time."""

    def __init__(self) -> None:
        self.value_s: float | None = None
        self._times: deque[float] = deque(maxlen=5)

    def __len__(self) -> int:
        """Return how many times are known."""
        return len(self._times)

    def add(self, took_s: float) -> None:
        """Add a time."""
        self._times.append(took_s)
        self.value_s = sorted(self._times)[(len(self._times) - 1) // 2]


class Chance(NamedTuple):
    """The likelihood of a row's next draft, and how many drafts it can have."""

    likelihood: float
    max_drafts: int = WIDTHS[-1] - 1

    def expected(self, drafts: int) -> float:
        """Return how many of ``drafts`` drafts are accepted."""
        drafts = min(drafts, self.max_drafts)
        p = min(self.likelihood, 0.99)
        return p * (1.0 - p**drafts) / (1.0 - p)


@dataclass
class _Times:
    """The measured times for one number of rows: of decode steps, passes, and single drafts."""

    decode: MedianTime = field(default_factory=MedianTime)
    passes: dict[int, MedianTime] = field(default_factory=dict)
    draft: MedianTime = field(default_factory=MedianTime)
    used_at: dict[int, int] = field(default_factory=dict)
    steps: int = 0

    def count(self, width: int = 1) -> None:
        """Count a step, and drop the times of passes that were not made for long."""
        self.steps += 1
        self.used_at[width] = self.steps
        for other in [*self.passes]:
            if self.steps - self.used_at[other] > _REMEASURED_AFTER:
                del self.passes[other]
                self.draft = MedianTime()


class PassCosts:
    """The measured costs of one model's passes."""

    def __init__(self) -> None:
        self._times: dict[int, _Times] = {}

    def choose(
        self, rows: int, chances: Sequence[Chance], *, uses_model: bool = False
    ) -> tuple[int, float]:
        """Return the width of the pass that gives the most tokens for its time, and its gain.

        The width is 0 where decode steps give more. ``rows`` counts also rows without drafts;
        ``uses_model`` where a head or another model makes the drafts.
        """
        times = self._of(rows)
        best, best_gain = 0, _MIN_GAIN
        if not chances or len(times.decode) < _MIN_DECODE_STEPS:
            return 0, 0.0
        for width in WIDTHS:
            if width != WIDTHS[0] and WIDTHS[0] not in times.passes:
                break  # the narrow pass is tried first
            drafts = min(width - 1, max(chance.max_drafts for chance in chances))
            cost = self.cost(rows, width)
            cost += self._draft_cost(rows) * drafts if uses_model else 0.0
            tokens = 1 + sum(chance.expected(drafts) for chance in chances) / rows
            if tokens / cost > best_gain:
                best, best_gain = width, tokens / cost
        return best, best_gain

    def cost(self, rows: int, width: int) -> float:
        """Return the cost of a pass, estimated from the narrow one before it was measured."""
        times = self._of(rows)
        decode_s = times.decode.value_s
        if decode_s and width in times.passes:
            return max(1.0, (times.passes[width].value_s or 0.0) / decode_s)
        if decode_s and width != WIDTHS[0] and WIDTHS[0] in times.passes:
            return 1 + (self.cost(rows, WIDTHS[0]) - 1) * _EXPECTED_WIDE_COST
        return 1 + _EXPECTED_TOKEN_COST * (width - 1)

    def _draft_cost(self, rows: int) -> float:
        times = self._of(rows)
        decode_s, draft_s = times.decode.value_s, times.draft.value_s
        return draft_s / decode_s if decode_s and draft_s is not None else _EXPECTED_DRAFT_COST

    def record_decode(self, rows: int, took_s: float) -> None:
        """Record a decode step."""
        times = self._of(rows)
        times.decode.add(took_s)
        times.count()

    def record_pass(self, rows: int, width: int, took_s: float) -> None:
        """Record a pass of a width in ``WIDTHS``."""
        times = self._of(rows)
        times.passes.setdefault(width, MedianTime()).add(took_s)
        times.count(width)

    def record_drafting(self, rows: int, took_s: float, drafts: int) -> None:
        """Record the time in which a head or another model made ``drafts`` drafts of each row."""
        self._of(rows).draft.add(took_s / drafts)

    def _of(self, rows: int) -> _Times:
        return self._times.setdefault(rows, _Times())

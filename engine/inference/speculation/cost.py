"""What forward passes cost, as measured: those that verify drafts, and those that read a prompt.

How many tokens one pass should verify is decided from these costs, which a file remembers. The
more tokens of a prompt its cache holds, the longer each further one takes to read.
"""

import json
import logging
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from engine.files.causes import os_cause
from engine.files.json_fields import DamagedFile, parsed_json
from engine.files.safe_files import make_folders, read_bounded, write_whole
from engine.values.tokens import TokenOrigin

# A pass over several tokens takes longer than a pass over one. How much longer depends on the
# machine, the model and the number of rows: on a CPU with two cores, eight tokens of one row took
# almost three times as long as one; on a GPU they take hardly longer. So the time of each pass is
# noted, and the chosen length is the one that is expected to give the most tokens for its time.

# Tokens of one row in a pass, the known one included.
WIDTHS = (2, 3, 4, 6, 8, 12, 16, 24, 32)
# What a further token is expected to add to a pass, as a share of a pass over one token.
_EXPECTED_SLOPE = 0.3
# A pass over several tokens has to give this many times the tokens of plain decoding.
_LEAST_GAIN = 1.12
# The least of this many measurements counts: other programs only ever make a pass slower.
_REMEMBERED = 5
# Drafting begins only after this many passes over one token were measured. After the first few,
# only one in ``_ONE_IN`` of these frequent passes is measured.
_LEAST_MEASURED = 3
_ONE_IN = 4
# Where nothing pays, what was held up by something else is measured again after so many tokens: a
# single pass easily is. That is repeated half as often each time, and in the end with all the rest.
_FORGETS_AFTER, _FORGETS_LATER = 32, 1024
# The longest pass while other rows, which may have no guesses, wait for it. Where one token takes
# long, it may be as long as this many passes over one: no stream becomes slower than that.
_LONGEST_BESIDE_S = 0.05
_LONGEST_BESIDE = 2.0
# What drafting may lose, in passes over one token: two at first, and from 100 tokens on a fiftieth
# of all tokens. Nothing is tried that may lose more, so that plain decoding is never faster by more
# than 2 %.
_FIRST_LOSS = 2.0
_LOSS = 0.02
# No more is saved up.
_MOST_LOSS = 8.0
# Passes that are wider than all before are compared with a pass over one token (``Rounding``).
COMPARING = 1.0
_COMPARED = 2
# What each token of the very first pass over several may cost, in passes over one.
_DEAREST = 1.1
# What a draft of the model's own head is expected to take before it was measured, in passes over
# one token, and what reading one more of the tokens that wait for the head takes, in its drafts.
_EXPECTED_DRAFT = 0.08
_READING = 0.25
# No file of remembered costs is larger.
_MOST_FILE_BYTES = 1 << 16

_log = logging.getLogger(__name__)


class Measured:
    """How long a pass takes: the median of the last few measurements."""

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
        self.value_s = statistics.median_low(last)

    def forget(self) -> None:
        """Forget all measurements."""
        self._last.clear()
        self.value_s = None


class Guess(NamedTuple):
    """What is expected of the guesses for one row.

    Attributes:
        likelihood: How likely the first one is right.
        most: The most guesses.
        later: How likely each further one is right after a right one; None for as likely.
        unread: How many tokens the model's own head reads before the first one.
    """

    likelihood: float
    most: int
    later: float | None = None
    unread: int = 0

    def expected(self, length: int) -> float:
        """Return how many of ``length`` guesses are accepted."""
        length = min(length, self.most)
        later = self.likelihood if self.later is None else self.later
        if later >= 1.0:
            return self.likelihood * length
        return self.likelihood * (1.0 - later**length) / (1.0 - later)


@dataclass(slots=True)
class Balance:
    """What drafting has saved, and may therefore lose, in passes over one token."""

    passes: float = _FIRST_LOSS
    tokens: float = 0.0

    def add(self, saved: float, tokens: float = 0.0) -> None:
        """Note that each row got some tokens, and how many passes less than plainly decoded."""
        before = max(_FIRST_LOSS, _LOSS * self.tokens)
        self.tokens += tokens
        saved += max(_FIRST_LOSS, _LOSS * self.tokens) - before
        # A first pass that was held up by something else does not count for long.
        self.passes = min(_MOST_LOSS, max(-_FIRST_LOSS, self.passes + saved))


class CostCurve:
    """The costs of passes over several tokens, relative to a pass over one.

    One curve is for one number of rows. Costs that were not measured are interpolated.

    Attributes:
        balance: What may be lost by trying widths; all curves of a model share it.
        draft: How long a draft of the model's own head takes, for all rows.
    """

    def __init__(self) -> None:
        self.balance = Balance()
        self.draft = Measured()
        self._remembered_draft: float | None = None
        self._one = Measured()
        self._measured = {width: Measured() for width in WIDTHS}
        self._costs: dict[int, float] | None = None
        self._most: dict[int, float] = {}
        # Widths are tried from small to large, at most twice the largest so far.
        self._widest = 1
        # Tokens since the last pass over several, and after how many of them all is forgotten.
        self._plain = 0
        self._forgets_after = _FORGETS_AFTER
        self._skipped = 0
        # What passes cost when the model was loaded before.
        self._remembered: dict[int, float] = {}

    @property
    def known(self) -> dict[int, float]:
        """The costs that were measured, now or before, in passes over one token."""
        costs = {width: self._cost(width) for width in WIDTHS}
        return {width: cost for width, cost in costs.items() if cost is not None}

    @property
    def known_draft(self) -> float | None:
        """What a draft of the model's own head was measured to cost, now or before."""
        one_s, took_s = self._one.value_s, self.draft.value_s
        return took_s / one_s if one_s and took_s is not None else self._remembered_draft

    @property
    def draft_cost(self) -> float:
        """What a draft of the model's own head costs for all rows, in passes over one token."""
        known = self.known_draft
        return _EXPECTED_DRAFT if known is None else known

    def note_drafts(self, took_s: float, drafts: int, read: int) -> None:
        """Note how long the head took for its drafts, and how many waiting tokens it read first.

        Where many waited, it says little of what a draft takes.
        """
        if self.draft.value_s is None or read <= drafts:
            self.draft.note(took_s / (drafts + _READING * read))

    def remember(self, costs: Mapping[int, float], draft: float | None = None) -> None:
        """Use costs of an earlier time until they are measured again."""
        self._remembered = dict(costs)
        self._remembered_draft = draft
        self._widest = max(self._widest, *costs)
        self._costs = None

    def _cost(self, width: int) -> float | None:
        """Return what a pass was measured to cost; None where none was."""
        one_s, took_s = self._one.value_s, self._measured[width].value_s
        return took_s / one_s if one_s and took_s is not None else self._remembered.get(width)

    @property
    def one_s(self) -> float | None:
        """The time of a pass over one token; None before it was measured."""
        return self._one.value_s

    def note_one(self, took_s: float) -> None:
        """Note the time of a pass over one token of each row; most of them are skipped."""
        self.balance.add(0.0, 1.0)
        self._plain += 1
        self._skipped += 1
        if self._skipped < _ONE_IN and self._one.count >= _REMEMBERED:
            return
        self._skipped = 0
        before = self._one.value_s
        self._one.note(took_s)
        if self._one.value_s != before:
            self._costs = None

    def note(self, width: int, took_s: float, tokens: float = 1.0, beside: float = 0.0) -> None:
        """Note the time of a pass over ``width`` tokens, which is one of ``WIDTHS``.

        Args:
            width: Tokens of each row.
            took_s: The time of the pass.
            tokens: How many of them each row got.
            beside: What making and comparing the guesses cost, in passes over one token.
        """
        self._measured[width].note(took_s)
        self._widest = max(self._widest, width)
        self._costs = None
        self._plain = 0
        if (cost := self._cost(width)) is not None:
            saved = tokens - cost - beside
            self.balance.add(saved, tokens)
            if saved > 0:
                self._forgets_after = _FORGETS_AFTER

    def costs(self) -> dict[int, float]:
        """Return the cost of each width in passes over one token."""
        if self._costs is None:
            self._costs, self._most = self._drawn()
        return self._costs

    def _drawn(self) -> tuple[dict[int, float], dict[int, float]]:
        """Return what each width is expected to cost, and what it costs at most."""
        known: list[tuple[int, float]] = []
        most = math.inf
        for width, cost in reversed(self.known.items()):
            # A pass that took longer than a wider one was held up by something else.
            most = min(most, max(1.0, cost))
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
        return costs, _most_costs(costs, last)

    def choose(self, rows: int, guesses: Sequence[Guess], extra: float = 0.0) -> int:
        """Return the width of the pass that gives the most for its time; 1 for plain decoding.

        Args:
            rows: All rows that decode.
            guesses: Those of each row that has some.
            extra: The cost of making one guess, in passes over one token.
        """
        best, most = 1, _LEAST_GAIN
        if self._one.count < _LEAST_MEASURED:
            return best
        self.costs()
        longest = math.inf
        if rows > 1 and (one_s := self._one.value_s):
            longest = max(_LONGEST_BESIDE, _LONGEST_BESIDE_S / one_s)
        for width in WIDTHS:
            if width > 2 * self._widest or self._most[width] > longest:
                break
            gain = self.gain(rows, guesses, extra, width)
            if gain > most and self._worst(rows, guesses, extra, width) <= self.balance.passes:
                best, most = width, gain
        if best == 1 and guesses and self._plain >= self._forgets_after:
            self._forget()
        return best

    def goes_on(self, agreeing: int, guesses: int) -> bool:
        """Return whether a pass that is to be compared is made after the pass over one token.

        Args:
            agreeing: For how many rows that pass says what is guessed first.
            guesses: How many rows have guesses.
        """
        return 2 * agreeing >= guesses

    def gain(self, rows: int, guesses: Sequence[Guess], extra: float, width: int) -> float:
        """Return how many times the tokens of plain decoding a pass gives for its time."""
        expected = rows + sum(guess.expected(width - 1) for guess in guesses)
        return expected / rows / (self.costs()[width] + extra * (width - 1))

    def _worst(self, rows: int, guesses: Sequence[Guess], extra: float, width: int) -> float:
        """Return what a pass loses if all its guesses are wrong.

        Each token of a pass that was never made may cost what those of others did so far. A pass
        that is to be compared is only made where the pass over one token agrees with half of them.
        """
        if self._cost(width) is None and all(self._cost(other) is None for other in WIDTHS):
            lost = _DEAREST * width - 1.0
        else:
            lost = self._most[width] - 1.0
        if self._measured[width].count < _COMPARED:
            lost = COMPARING + max(0.0, lost - math.ceil(len(guesses) / 2) / rows)
        unread = max(guess.unread for guess in guesses)
        return lost + extra * (width - 1) + self.draft_cost * _READING * unread

    def _forget(self) -> None:
        """Let what was held up by something else be measured again, and in the end everything.

        No pass should take longer than its tokens one by one, and no draft longer than a pass.
        """
        is_all = self._forgets_after == _FORGETS_LATER
        for width, measured in self._measured.items():
            if is_all or self.known.get(width, 0.0) > width:
                measured.forget()
        if is_all or self.draft_cost > 1:
            self.draft.forget()
        if is_all:
            self._remembered, self._remembered_draft = {}, None
        self._widest = max((1, *self.known))
        self._plain = 0
        self._forgets_after = min(_FORGETS_LATER, 2 * self._forgets_after)
        self._costs = None


def _most_costs(costs: Mapping[int, float], widest: int) -> dict[int, float]:
    """Return what passes cost at most, as far as was measured.

    What was not measured is expected to be cheap, so that it is tried. Where others wait for the
    pass, a further token counts as no cheaper than those of the widest pass that was measured.
    """
    if widest == 1:
        return {width: costs[width] if width == WIDTHS[0] else math.inf for width in WIDTHS}
    high = costs[widest]
    slope = (high - 1) / (widest - 1)
    wider = {width: high + slope * (width - widest) for width in WIDTHS if width > widest}
    return {**costs, **wider}


class PassCosts:
    """What the passes of one model cost on this machine, for each number of sequences.

    Attributes:
        proposing: For each kind of source but the model's own head: what one of its drafts takes.
    """

    def __init__(self, new_curve: Callable[[], CostCurve] = CostCurve) -> None:
        self.proposing = {origin: Measured() for origin in TokenOrigin}
        self._new_curve = new_curve
        self._balance = Balance()
        self._curves: dict[int, CostCurve] = {}
        self._file: Path | None = None
        # What the file holds: the model that it is of, the costs, and those of the head's drafts.
        self._model = ""
        self._remembered: dict[int, dict[int, float]] = {}
        self._remembered_drafts: dict[int, float] = {}

    def curve(self, rows: int) -> CostCurve:
        """Return the costs for a number of sequences; similar numbers share them."""
        key = rows if rows <= 4 else 1 << (rows - 1).bit_length()
        if (curve := self._curves.get(key)) is None:
            curve = self._curves[key] = self._new_curve()
            curve.balance = self._balance
            if key in self._remembered:
                curve.remember(self._remembered[key], self._remembered_drafts.get(key))
        return curve

    def remember_in(self, file: Path, model: str) -> None:
        """Begin with the costs in a file, and write them to it with ``save``.

        Args:
            file: Where they are; one that is damaged or of another model is replaced.
            model: The fingerprint of the model and of all else that the costs depend on.
        """
        self._file, self._model = file, model
        try:
            content = parsed_json(read_bounded(file, _MOST_FILE_BYTES).decode())
            if isinstance(content, dict) and content.get("model") == model:
                costs, drafts = _read_costs(content), content.get("drafts", {})
                if not isinstance(drafts, dict):
                    raise DamagedFile("it has no costs of drafts")
                drafts = {int(rows): _positive(cost) for rows, cost in drafts.items()}
                self._remembered, self._remembered_drafts = costs, drafts
        except FileNotFoundError:
            return
        except (OSError, ValueError) as error:
            _log.info("the remembered costs of passes in %s are not used: %s", file.name, error)

    def save(self) -> None:
        """Write what was measured since it was read; that it cannot be written is no error."""
        measured = {rows: curve.known for rows, curve in self._curves.items() if curve.known}
        drafts = {rows: curve.known_draft for rows, curve in self._curves.items()}
        drafts = {rows: draft for rows, draft in drafts.items() if draft is not None}
        known = self._remembered.items(), self._remembered_drafts.items()
        if self._file is None or (measured.items() <= known[0] and drafts.items() <= known[1]):
            return
        content: dict[str, Any] = {
            "model": self._model,
            "costs": {**self._remembered, **measured},
            "drafts": {**self._remembered_drafts, **drafts},
        }
        try:
            make_folders(self._file.parent)
            write_whole(self._file, json.dumps(content))
        except OSError as error:
            _log.info("what passes cost is not remembered: %s", os_cause(error))


def _read_costs(content: Mapping[str, Any]) -> dict[int, dict[int, float]]:
    """Return the costs of a file by number of sequences and width; raises ``ValueError``."""
    curves = content.get("costs")
    if not isinstance(curves, dict):
        raise DamagedFile("it has no costs")
    costs: dict[int, dict[int, float]] = {}
    for rows, curve in curves.items():
        if not isinstance(curve, dict) or not curve:
            raise DamagedFile("a curve has no costs")
        costs[int(rows)] = {int(width): _positive(cost) for width, cost in curve.items()}
        if not costs[int(rows)].keys() <= set(WIDTHS):
            raise DamagedFile("a pass has another width")
    return costs


def _positive(value: Any) -> float:
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 < value < math.inf:
        raise DamagedFile("a cost is not a number above 0")
    return float(value)

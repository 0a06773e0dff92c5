"""Decides at each step whether to verify drafts in one pass, or to decode. Engine thread.

mlx-lm's plain loop computes one pass ahead of the tokens that it returns. A verification pass has
to wait for that pass, so drafts are verified only where the hit rates of their sources and the
measured costs show that it pays, and only while few rows decode. Groups of rows are verified one
after the other.
"""

import time
from collections import abc, defaultdict
from collections.abc import Callable, Iterable, Mapping
from itertools import chain, islice
from typing import Any

import mlx.core as mx

from engine.inference.backend import RowStep, Step
from engine.inference.decoding_groups import DecodingGroups
from engine.inference.mlx_lm_internals import DecodingRows
from engine.inference.sequence import Sequence
from engine.inference.speculation.cost import MAX_ROWS, PassCosts
from engine.inference.speculation.head_drafts import HeadDrafts
from engine.inference.speculation.rollback import Pass, Rollback
from engine.inference.speculation.sources import MAX_CHAIN, WIDTHS, DraftSource
from engine.inference.speculation.verification import (
    Rounding,
    VerifiedSequence,
    first_logprobs,
    verify,
)
from engine.values.events import VerifiedDrafts
from engine.values.tokens import TokenOrigin

# Where requests come and go, as with an evaluation harness that keeps four at once, a pass delays
# the next request by more than it gains.
_STEADY_STEPS = 4


class Drafting:
    """Drafts tokens for the sequences of one batch, which are by their numbers.

    ``set_deltas`` prepares a pass over the rows of some numbers.
    """

    def __init__(
        self,
        model: Any,
        sequences: Mapping[int, Sequence],
        costs: PassCosts,
        set_deltas: Callable[[Iterable[int]], None],
    ) -> None:
        self._rollback = Rollback(model)
        self._sequences = sequences
        self._costs = costs
        self._set_deltas = set_deltas
        self._rounding = Rounding()
        # How many tokens of each answer its sources have.
        self._known: dict[int, int] = {}
        # The rows of the last passes, each with its index and how many tokens it got there.
        self._verified: dict[int, tuple[Pass | None, int, int]] = {}
        self._ended_at_s: float | None = None
        self._is_decode_due = False
        # The rows of the last step, and for how many steps they have been the same.
        self._rows: list[int] = []
        self._steady = 0

    def remove(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            self._known.pop(number, None)
        self._ended_at_s = None

    def clear(self) -> None:
        self._known.clear()
        self._forget_pass()
        self._ended_at_s = None

    def record_decode(self, rows: int, groups: int, took_s: float) -> None:
        """Record a decode step; the first one after a pass only starts mlx-lm's loop again."""
        if rows <= MAX_ROWS and self._ended_at_s is None:
            self._costs.record(rows, 1, took_s, groups)
        self._ended_at_s = None
        self._is_decode_due = False
        self._forget_pass()

    def is_due(self, decoding: DecodingGroups) -> bool:
        """Whether few rows decode, and have been the same for some steps."""
        if not 0 < len(decoding) <= MAX_ROWS:
            self._rows = []
            return False
        numbers = decoding.numbers
        self._steady = self._steady + 1 if numbers == self._rows else 0
        self._rows = numbers
        return not self._is_decode_due and (len(numbers) == 1 or self._steady >= _STEADY_STEPS)

    def step(self, groups: abc.Sequence[DecodingRows]) -> Step | None:
        """Verify drafts for the decoding rows; None where a decode step gives more."""
        for rows in groups:
            for index, number in enumerate(rows.numbers):
                self._extend(self._sequences[number], rows.tokens(index))
        sequences = [self._sequences[number] for rows in groups for number in rows.numbers]
        if not self._plan(sequences, len(groups))[0]:
            return None
        self._forget_pass()
        if not all(self._rollback.can_take_back(rows.cache) for rows in groups):
            return None
        began_s = self._ended_at_s or time.perf_counter()
        for rows in groups:
            for index, (number, token) in enumerate(zip(rows.numbers, rows.pending(), strict=True)):
                self._extend(self._sequences[number], rows.tokens(index), token)
        width, planned = self._plan(sequences, len(groups))
        if not width:
            return None
        drafting_s = time.perf_counter()
        left = iter(planned)
        sources = [list(islice(left, len(rows))) for rows in groups]
        drafts = [
            self._propose(rows, own, width - 1) for rows, own in zip(groups, sources, strict=True)
        ]
        longest = max(map(len, chain(*drafts)))
        if not longest:
            return None
        drafting_s = time.perf_counter() - drafting_s
        if any(source is not None and source.is_computed for source in planned):
            self._costs.record(len(sequences), 0, drafting_s / longest, len(groups))
        width = next(width for width in WIDTHS if width > longest)
        step: Step = defaultdict(RowStep)
        compared_s = 0.0
        self._is_decode_due = False
        for rows, own, drafted in zip(groups, sources, drafts, strict=True):
            compared_s += self._verify(rows, own, drafted, step)
        self._ended_at_s = time.perf_counter()
        took_s = self._ended_at_s - began_s - drafting_s - compared_s
        self._costs.record(len(sequences), width, took_s, len(groups))
        if not step:
            self._verified = {}
            return None
        return step

    def _verify(
        self,
        rows: DecodingRows,
        sources: abc.Sequence[DraftSource | None],
        drafts: abc.Sequence[abc.Sequence[int]],
        step: Step,
    ) -> float:
        """Add the accepted drafts of one group to a step; return the time of a comparison."""
        self._set_deltas(rows.numbers)
        width = max(map(len, drafts)) + 1
        compared_s, single = 0.0, None
        if self._rounding.is_comparison_due(width):
            compared_s = time.perf_counter()
            single = self._single_logprobs(rows, rows.pending())
            compared_s = time.perf_counter() - compared_s
        # Padding has to be taken back as well where a state takes tokens in.
        verified = verify(rows, self._rollback, drafts, width, self._rounding, single)
        for index, (number, each, drafted, source) in enumerate(
            zip(rows.numbers, verified, drafts, sources, strict=True)
        ):
            self._verified[number] = self._rollback.last, index, len(each.tokens)
            # A row that got no token needs a pass over one token.
            self._is_decode_due = self._is_decode_due or not each.tokens
            if each.tokens:
                step[number] = _row_step(each, drafted, source)
        return compared_s

    def shorten(self, number: int, cache: abc.Sequence[Any], unused: int) -> bool:
        """Remove the last tokens of a pass from the cache of a removed sequence, if possible."""
        done, index, tokens = self._verified.get(number, (None, 0, 0))
        return self._rollback.shorten(cache, done, index, unused, tokens - unused)

    def _forget_pass(self) -> None:
        self._verified = {}
        self._rollback.last = None

    def _extend(self, sequence: Sequence, tokens: list[int], pending: int | None = None) -> None:
        known = self._known.get(sequence.number, 0)
        new = tokens[len(sequence) + known :]
        if pending is not None and len(sequence) + known <= len(tokens):
            new.append(pending)
        if new:
            for source in sequence.sources:
                source.extend(new)
            self._known[sequence.number] = known + len(new)

    def _plan(
        self, sequences: abc.Sequence[Sequence], groups: int
    ) -> tuple[int, list[DraftSource | None]]:
        """Return the width of the next pass, 0 for a decode step, and the source for each row."""
        best = [_best(sequence.sources) for sequence in sequences]
        width, gain = self._choose(best, groups)
        if any(source is not None and source.is_computed for source in best):
            free = [
                _best([source for source in sequence.sources if not source.is_computed])
                for sequence in sequences
            ]
            free_width, free_gain = self._choose(free, groups)
            if free_gain > gain:
                return free_width, free
        return width, best

    def _choose(self, sources: abc.Sequence[DraftSource | None], groups: int) -> tuple[int, float]:
        drafted = [source for source in sources if source is not None]
        return self._costs.choose(len(sources), drafted, groups)

    def _propose(
        self, rows: DecodingRows, sources: abc.Sequence[DraftSource | None], max_drafts: int
    ) -> list[abc.Sequence[int]]:
        """Return the drafts of each row: ids of the model only.

        A draft model may produce more ids than the vocabulary that both models share. MLX does not
        check bounds: with such an id it would read, and with penalties write, foreign memory.
        """
        self._set_deltas(rows.numbers)
        heads = [source for source in sources if isinstance(source, HeadDrafts)]
        if heads:
            chains = heads[0].head.propose(rows.cache, rows.pending(), min(max_drafts, MAX_CHAIN))
            for source, chain in zip(sources, chains, strict=True):
                if isinstance(source, HeadDrafts):
                    source.offer(chain)
        size = int(rows.pending_logprobs(0).shape[-1])
        proposed = [
            () if source is None else source.propose(min(max_drafts, source.max_drafts))
            for source in sources
        ]
        return [_within(drafts, size) for drafts in proposed]

    def _single_logprobs(self, rows: DecodingRows, pending: abc.Sequence[int]) -> mx.array:
        """Return the log-probabilities after the pending tokens; the rows are as before."""
        logits = self._rollback.read(mx.array([[token] for token in pending]), rows.cache)
        logprobs = first_logprobs(logits)
        mx.eval(logprobs)
        self._rollback.take_back(rows.cache, [1] * len(pending))
        return logprobs


def _row_step(
    verified: VerifiedSequence, drafted: abc.Sequence[int], source: DraftSource | None
) -> RowStep:
    step = RowStep(list(zip(verified.tokens, verified.logprobs, strict=True)))
    if source is None or not drafted:
        return step
    accepted = len(verified.tokens) - 1
    right: list[TokenOrigin] = [source.origin] * accepted
    for index, is_forced in enumerate(verified.forced):
        if is_forced:
            right[index] = TokenOrigin.FORCED
    wrong = 0 if verified.is_cut else len(drafted) - accepted
    step.drafts = VerifiedDrafts((*right, *[source.origin] * wrong), (TokenOrigin.SAMPLED, *right))
    return step


def _best(sources: abc.Sequence[DraftSource]) -> DraftSource | None:
    """Return the source of which the most drafts are expected to be accepted; None for none."""
    # Drafts that are less likely right are ignored.
    likely = [source for source in sources if source.likelihood() >= 0.4]
    return max(likely, key=lambda source: source.expected_hits(WIDTHS[-1]), default=None)


def _within(drafts: abc.Sequence[int], size: int) -> abc.Sequence[int]:
    """Return drafts up to the first id outside the model's vocabulary."""
    if not drafts or (max(drafts) < size and min(drafts) >= 0):
        return drafts
    return drafts[: next(n for n, token in enumerate(drafts) if not 0 <= token < size)]

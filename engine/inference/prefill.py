"""The prefill budget: how much of which waiting prompts each step of a batch reads.

Running streams keep about two thirds of the pace that they have, drafts included, while prompts are
read: one step reads only for a short time, and then the batch only decodes until the streams have
caught up. Short prompts come first, long ones at least every fourth time. All times are measured by
the batch: nothing here knows a clock or a model.
"""

from collections import abc
from typing import NamedTuple

from engine.inference.sequence import LANE_TOKENS, LANES, Sequence, fitting
from engine.inference.speculation.cost import PrefillRates

# How long one step may read while answers are being decoded. On a busy machine it takes up to three
# times as long, and no stream should pause for a tenth of a second. Longer steps read no faster.
_BESIDE_S = 0.02
# A step that decodes and reads should take no longer than ``_GAP_S``, for the same reason. It may
# always read for ``_MIN_BESIDE_S``.
_GAP_S = 0.04
_MIN_BESIDE_S = 0.015
# Where decoding alone takes longer than this, that limit cannot be kept.
_LONG_S = 0.07
# How long one step may read while nothing is decoded: a cancel or the next short prompt waits that
# long.
_ALONE_S = 0.2
# How many tokens are read before anything was measured, where nothing is decoded.
_FIRST_TOKENS = 64
# Streams are to keep this share of their pace. It leaves a reserve above the half that is promised.
_KEPT_PACE = 0.75
# A step that only decodes gives waiting prompts credit for at least this share of its time, however
# slow decoding has become: the prompts must be read in the end, too.
_MIN_CREDIT = 0.15
# The weight of the newest decoding step in the average. It is smaller while prompts are read, and
# smallest right after reading, when decoding is slower than it would be alone.
_NEWEST = 0.2
_NEWEST_BESIDE = 0.05
_NEWEST_AFTER_READING = 0.005

READ_TOGETHER = 4
"""How many prompts that arrive together are read at a time: the first readers see a word sooner."""
# Sequences that begin to answer also decode their first token in that step. Beside running answers,
# as many may begin as can decode in this time.
_BEGINNING_S = 0.02
# How often a lane with prompts may be passed over in a row.
_MAX_PASSED = 3

# A batch is dense: a prompt that has been read is copied into it, and every running answer waits
# for that. A reader does not notice a gap of this length.
_COPYING_S = 0.05
# Seconds per copied token before anything was measured: those of a small model on a CPU. Copying
# into memory that the system has just provided is four times slower than into memory that was used
# before, and this may happen again whenever more tokens join at once than ever before.
_FIRST_COPY_S = 8e-6
# The weight of the newest copy, if at least ``_TELLING_TOKENS`` were copied; fewer count less. The
# time of fewer than ``_MIN_TELLING`` is that of other work in the step.
_QUICKER, _SLOWER = 0.25, 0.75
_TELLING_TOKENS = 2_000
_MIN_TELLING = 256
# A copy counts as at most this many times slower than expected: something else may have delayed it.
_MAX_SLOWER = 4


class Prefill(NamedTuple):
    """What one step reads: up to ``chunk`` tokens of each of the first prompts of a lane."""

    chunk: int = 0
    lane: int = 0
    together: int = 0
    prompts: int = 0
    depth: int = 0


NO_PREFILL = Prefill()
"""A step that only decodes."""


class PrefillBudget:
    """Plans the reading of one batch, step by step.

    Args:
        max_chunk: The most tokens of a prompt that one step reads.
        max_sequences: The most sequences that decode.
        reading: The sequences whose prompts are being read, or wait for that.

    Attributes:
        decode_s: How long a step takes that decodes one token of each sequence.
    """

    def __init__(
        self,
        max_chunk: int,
        max_sequences: int = 1 << 30,
        reading: abc.Sequence[Sequence] = (),
    ) -> None:
        self.decode_s = 0.0
        self._max_chunk = max_chunk
        self._max_sequences = max_sequences
        self._reading = reading
        self._rates = PrefillRates()
        # The same as ``decode_s`` for all steps that read nothing, drafts included, and the tokens
        # that such a step gives each sequence: together they are the pace that streams have.
        self._step_s = self._step_tokens = 0.0
        self._decoding = 0
        # How far the streams are behind their pace, in seconds.
        self._debt_s = 0.0
        self._has_just_read = False
        # How often each lane was passed over since its last turn.
        self._passed = [0] * LANES
        # Seconds per copied token, and the most tokens that were copied at once.
        self._copy_s = _FIRST_COPY_S
        self._max_copied = 0

    # -- the plan of a step ----------------------------------------------------------------

    def plan(self, decoding: int) -> Prefill:
        """Return what the next step reads; at least one prompt must be waiting."""
        waiting = [0] * LANES
        for sequence in self._reading:
            waiting[sequence.lane or 0] += 1
        lane = self._due(waiting)
        sequences = [sequence for sequence in self._reading if sequence.lane == lane]
        together = self._together(sequences, decoding)
        prompts = min(together, waiting[lane])
        first = sorted(sequences, key=lambda sequence: sequence.number)[:prompts]
        depth = max((sequence.read for sequence in first), default=0)
        chunk = self.chunk(decoding, prompts, lane, depth)
        if chunk:
            chunk = fitting(
                chunk, [(sequence.scorer, sequence.read) for sequence in sequences], together
            )
            self._had_turn(lane, waiting)
        return Prefill(chunk, lane, together, prompts, depth)

    def chunk(self, decoding: int, reading: int, lane: int = 0, depth: int = 0) -> int:
        """Return how many tokens of each prompt the next step reads; 0 for decoding alone."""
        share_s = self.free_s(decoding)
        if not share_s:
            return 0
        rate = self._rates.expected(lane, depth)
        min_tokens = self._rates.least(lane, depth)
        if rate is None:
            fits = float(min_tokens if decoding else _FIRST_TOKENS)
        else:
            fits = rate * share_s / max(1, reading)
        # Many prompts together read at least as many tokens in one step as a few.
        min_tokens = min_tokens * READ_TOGETHER // max(READ_TOGETHER, reading)
        return min(self._max_chunk, max(1, min_tokens, int(fits)))

    def free_s(self, decoding: int) -> float:
        """Return how long the next step may read; 0 while the streams are behind their pace."""
        if not decoding:
            self._debt_s = 0.0
        return 0.0 if self._debt_s > 0 else self._share_s(decoding)

    def copied_together(self, longest: int) -> int:
        """Return how many prompts may join the running sequences in one step, at least one."""
        tokens = _COPYING_S / self._copy_s
        if tokens > self._max_copied:
            rest_s = _COPYING_S - self._copy_s * self._max_copied
            tokens = self._max_copied + rest_s / max(_FIRST_COPY_S, self._copy_s)
        return max(1, int(tokens / longest))

    def _share_s(self, decoding: int) -> float:
        if not decoding:
            # Where one token takes longer, many of them hardly take longer than one.
            return max(_ALONE_S, 2 * self.decode_s)
        share_s = max(_BESIDE_S, self.decode_s)
        if self.decode_s < _LONG_S:
            share_s = min(share_s, max(_MIN_BESIDE_S, _GAP_S - self.decode_s))
        return share_s

    def _together(self, sequences: abc.Sequence[Sequence], decoding: int) -> int:
        """Return how many prompts of a lane are read together: more, where each is short.

        Prompts that shared a beginning then begin to answer at the same time.
        """
        left = max((sequence.unread for sequence in sequences), default=1)
        together = max(READ_TOGETHER, LANE_TOKENS[0] // left)
        if decoding:
            longest = max(map(len, sequences), default=1)
            begin = READ_TOGETHER
            if self.decode_s:
                begin = max(READ_TOGETHER, int(_BEGINNING_S * decoding / self.decode_s))
            together = min(together, self.copied_together(longest), begin)
        return min(self._max_sequences, together)

    def _due(self, waiting: abc.Sequence[int]) -> int:
        """Return the lane whose turn it is; the first where nothing waits."""
        busy = [lane for lane in range(LANES) if waiting[lane]]
        late = [lane for lane in busy if self._passed[lane] >= _MAX_PASSED]
        if late:
            return max(late, key=lambda lane: self._passed[lane])
        return busy[0] if busy else 0

    def _had_turn(self, taken: int, waiting: abc.Sequence[int]) -> None:
        for lane in range(LANES):
            is_passed = waiting[lane] > 0 and lane != taken
            self._passed[lane] = self._passed[lane] + 1 if is_passed else 0

    # -- what steps have taken -------------------------------------------------------------

    def decoded(
        self, took_s: float, decoding: int = 1, *, tokens: float = 1, is_beside: bool = False
    ) -> None:
        """Note a step that only decoded."""
        behind_s = took_s - tokens * self._token_s / _KEPT_PACE
        self._debt_s = max(0.0, self._debt_s + min(behind_s, -_MIN_CREDIT * took_s))
        if not is_beside or decoding != self._decoding:
            newest = _NEWEST
        else:
            newest = _NEWEST_AFTER_READING if self._has_just_read else _NEWEST_BESIDE
        self._has_just_read = False
        self._decoding = decoding
        self._step_s = _averaged(self._step_s, took_s, newest)
        self._step_tokens = _averaged(self._step_tokens, tokens, newest)
        if tokens == 1:
            self.decode_s = _averaged(self.decode_s, took_s, newest)

    def read(
        self,
        took_s: float,
        tokens: int,
        *,
        is_whole: bool,
        decoding: int,
        reading: int = 1,
        lane: int = 0,
        depth: int = 0,
    ) -> None:
        """Note a step that read."""
        reading_s = max(took_s - self.decode_s, took_s / 10) if decoding else took_s
        if tokens and reading_s > 0:
            self._rates.note(
                lane,
                depth,
                tokens=tokens,
                prompts=max(1, reading),
                took_s=reading_s,
                share_s=self._share_s(decoding),
                is_whole=is_whole,
            )
        if decoding:
            self._debt_s = max(0.0, took_s - self._token_s / _KEPT_PACE)
            self._has_just_read = True

    def waited(self, took_s: float, decoding: int) -> None:
        """Note that the streams waited for something else that a prompt needs."""
        if decoding:
            self._debt_s += took_s

    def joined(self, tokens: int, took_s: float) -> None:
        """Note a step in which prompts of so many tokens joined the sequences that decode."""
        if tokens < _MIN_TELLING:
            return
        copy_s = min(max(0.0, took_s - self.decode_s) / tokens, _MAX_SLOWER * self._copy_s)
        weight = _SLOWER if copy_s > self._copy_s else _QUICKER
        weight *= min(1.0, tokens / _TELLING_TOKENS)
        self._copy_s += (copy_s - self._copy_s) * weight
        self._max_copied = max(self._max_copied, tokens)

    @property
    def _token_s(self) -> float:
        """How long the streams take for a token each; 0 before anything was measured."""
        return self._step_s / self._step_tokens if self._step_tokens else 0.0


def _averaged(known: float, new: float, newest: float) -> float:
    """Return an average with a new value in it; that value alone where nothing is known."""
    return known + (new - known) * newest if known else new

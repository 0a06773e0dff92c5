"""Plans what the next step of a batch reads: which prompts, how many together, how much of each.

Combines the limits that come from the measured pace of reading, the turns of the lanes, the time of
copying, and the prompts that are scored. Knows no model; belongs to the thread of the batch.
"""

from typing import NamedTuple

from engine.inference.backend import BatchLimits
from engine.inference.batching.copying_pace import CopyingPace
from engine.inference.batching.joining import Joining
from engine.inference.batching.pacing import ReadingPace
from engine.inference.batching.reading_turns import LANES, ReadingTurns
from engine.inference.batching.scoring import ScoredRows

# Prompts that arrive together are read a few at a time, so that the first readers see their first
# word sooner.
READ_TOGETHER = 4
# Rows that begin to answer also decode their first token in that step. Beside running answers, as
# many may begin as can decode in this time.
_BEGINNING_S = 0.03
# Prompts with few tokens left are read together, up to this many tokens in all: prompts that shared
# a beginning then begin to answer at the same time.
_FEW_TOKENS = 512


class Reading(NamedTuple):
    """What one step reads."""

    chunk: int = 0
    lane: int = 0
    together: int = 0
    prompts: int = 0
    depth: int = 0


NO_READING = Reading()
"""A step that only decodes."""


class ReadingPlan:
    """Plans the reading of one batch, step by step."""

    def __init__(
        self, limits: BatchLimits, lane_of: dict[int, int], joining: Joining, scored: ScoredRows
    ) -> None:
        self.pace = ReadingPace(limits.prefill_chunk)
        self._copying = CopyingPace()
        self._turns = ReadingTurns()
        self._rows = limits.rows
        self._lane_of = lane_of
        self._joining = joining
        self._scored = scored

    def next(self, decoding: int) -> Reading:
        """Return what the next step reads; at least one prompt must be waiting."""
        waiting = self._waiting()
        lane = self._turns.due(waiting)
        together = self._together(lane, decoding)
        prompts = min(together, waiting[lane])
        depth = self._depth(lane, prompts)
        chunk = self.pace.chunk(decoding, prompts, lane, depth)
        if chunk and self._scored:
            depths = {row: self._joining.depth_of(row) for row in self._rows_in(lane)}
            chunk = self._scored.chunk(chunk, depths, together)
        if chunk:
            self._turns.note(lane, waiting)
        return Reading(chunk, lane, together, prompts, depth)

    def read(self, reading: Reading, took_s: float, tokens: int, decoding: int) -> None:
        """Note a step that read."""
        self.pace.read(
            took_s,
            tokens,
            is_whole=tokens >= reading.chunk,
            decoding=decoding,
            reading=reading.prompts,
            lane=reading.lane,
            depth=reading.depth,
        )

    def joined(self, tokens: int, took_s: float) -> None:
        """Note a step in which prompts joined the rows that decode."""
        self._copying.joined(tokens, took_s - self.pace.decode_s)

    def _together(self, lane: int, decoding: int) -> int:
        """Return how many prompts of a lane are read together: more, where each is short."""
        rows = self._rows_in(lane)
        left = max(map(self._joining.unread_by, rows), default=1)
        together = max(READ_TOGETHER, _FEW_TOKENS // left)
        if decoding:
            longest = max(map(self._joining.length_of, rows), default=1)
            together = min(together, self._copying.together(longest), self._beginning(decoding))
        return min(self._rows, together)

    def _beginning(self, decoding: int) -> int:
        """Return how many rows may begin to answer in one step beside ``decoding`` running ones."""
        if not self.pace.decode_s:
            return READ_TOGETHER
        return max(READ_TOGETHER, int(_BEGINNING_S * decoding / self.pace.decode_s))

    def _depth(self, lane: int, prompts: int) -> int:
        """Return how many tokens have been read of the longest prompt that a lane reads now."""
        rows = sorted(self._rows_in(lane))[:prompts]
        return max(map(self._joining.depth_of, rows), default=0)

    def _rows_in(self, lane: int) -> list[int]:
        return [row for row, other in self._lane_of.items() if other == lane]

    def _waiting(self) -> list[int]:
        """Return how many prompts of each lane are being read, or wait for that."""
        waiting = [0] * LANES
        for lane in self._lane_of.values():
            waiting[lane] += 1
        return waiting

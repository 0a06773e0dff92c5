"""The mlx-lm generators of one batch: they read prompts of different lengths and decode together.

Knows the number and the lane of each row, but nothing of guesses or kept caches. Belongs to the
thread of the batch.
"""

import contextlib
import weakref
from collections.abc import Iterable
from typing import Any

import mlx.core as mx
from mlx_lm.generate import BatchGenerator
from mlx_lm.utils import maybe_set_recommended_wired_limit

from engine.inference.backend import BatchLimits
from engine.inference.batching.reading_plan import READ_TOGETHER
from engine.inference.batching.reading_turns import LANES
from engine.inference.batching.scoring import ScoredRows, ScoringPrompts
from engine.inference.batching.unmasked import unmask
from engine.inference.mlx_lm_internals import (
    DecodingRows,
    decode_together,
    read_as,
    set_reading,
    straighten_windows,
)

# The generators of all models in memory. They share one limit of wired memory: macOS may page out
# weights beyond it, which makes them slow.
_open: "weakref.WeakSet[Generators]" = weakref.WeakSet()


class Generators:
    """One generator for each lane; all of them decode in the batch of the first."""

    def __init__(
        self, model: Any, limits: BatchLimits, scored: ScoredRows, *, is_cut_anywhere: bool
    ) -> None:
        self.model = model
        self._chunk = limits.prefill_chunk
        self._rows = limits.rows
        self._scored = scored
        self._is_cut_anywhere = is_cut_anywhere
        self.lane_of: dict[int, int] = {}
        self.lanes = self._made()
        _open.add(self)

    def _made(self) -> list[Any]:
        lanes = [
            BatchGenerator(
                self.model,
                completion_batch_size=self._rows,
                prefill_batch_size=min(READ_TOGETHER, self._rows),
                prefill_step_size=self._chunk,
            )
            for _ in range(LANES)
        ]
        decode_together(lanes)
        for lane in lanes:
            read_as(lane, ScoringPrompts, scored=self._scored)
        return lanes

    def stream(self) -> Any:
        """Return a context in which MLX works on the batch's stream."""
        return mx.stream(self.lanes[0].stream)

    def next(self, chunk: int, lane: int, together: int) -> tuple[list[Any], list[Any]]:
        """Decode, and read prompts if ``chunk`` is not 0.

        The result depends on the arguments and the rows only, never on the clock.
        """
        batch = self.lanes[lane if chunk else 0]
        # mlx-lm reads nothing for a batch that is full: a limit of 0 rows turns reading off.
        set_reading(batch, chunk, self._rows if chunk else 0, together)
        read, sampled = batch.next()
        if read:
            unmask(DecodingRows(batch).cache)
            if not self._is_cut_anywhere:
                with self.stream():
                    straighten_windows(batch)
        if self.lane_of:
            for part in sampled:
                self.lane_of.pop(part.uid, None)
        return read, sampled

    def take_out(self, rows: Iterable[int]) -> dict[int, tuple[list[Any], list[int]]]:
        """Take rows out, lane by lane; return the cache and the tokens of each."""
        leaving: dict[int, list[int]] = {}
        for row in rows:
            leaving.setdefault(self.lane_of.pop(row, 0), []).append(row)
        found: dict[int, tuple[list[Any], list[int]]] = {}
        for lane, gone in leaving.items():
            batch = self.lanes[lane]
            with mx.stream(batch.stream):
                found |= batch.remove(gone, return_prompt_caches=True)
        return found

    def renew(self) -> None:
        """Drop all rows, after a step that failed."""
        self._close_lanes()
        self.lane_of.clear()
        self.lanes[:] = self._made()

    def close(self) -> None:
        """Free the rows and the model."""
        self._close_lanes()
        _open.discard(self)
        if _open:
            # Closing restored the limit that this one had found, perhaps from before the others
            # opened.
            maybe_set_recommended_wired_limit()
        self.lanes.clear()
        del self.model

    def _close_lanes(self) -> None:
        # The last one first: each restores the memory limit that it found.
        for batch in reversed(self.lanes):
            with contextlib.suppress(Exception):  # after a step that failed
                batch.close()

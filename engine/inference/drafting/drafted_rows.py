"""A draft model's guesses for the rows of a batch, which follow how far the model itself has read.

Belongs to the thread of the batch.
"""

from collections.abc import Iterable, Sequence

from engine.inference.backend import Joined, Step
from engine.inference.batching.mlx_batch import RunningBatch
from engine.inference.drafting.draft_model import DraftGuesses


class DraftedRows:
    """The guesses of a draft model for the rows of one batch."""

    def __init__(self, batch: RunningBatch) -> None:
        self._batch = batch
        # By row: its guesses, and how many tokens of its prompt were cached.
        self._rows: dict[int, tuple[DraftGuesses, int]] = {}

    def join(self, joined: Joined, draft: DraftGuesses) -> None:
        """Note the guesses for a row that has just joined."""
        self._rows[joined.row] = draft, joined.cached

    def follow(self, step: Step) -> None:
        """Note how far prompts have been read, and let the draft model read on."""
        rows = self._rows
        if not rows:
            return
        for row, cached in step.shared:
            if row in rows:
                rows[row] = rows[row][0], cached
        for row, tokens in step.read:
            if row in rows:
                draft, cached = rows[row]
                draft.follow(cached + tokens)
        # It reads the prompt in which it is furthest behind.
        behind = max((draft for draft, _ in rows.values()), key=lambda one: one.unread)
        if behind.unread:
            self._batch.read_beside(behind.read_on)

    def leave(self, rows: Iterable[int]) -> None:
        """Give back the caches of rows that were taken out."""
        for row in rows:
            if row in self._rows:
                self._rows.pop(row)[0].leave()

    def keep_only(self, rows: Sequence[int]) -> None:
        """Drop all rows but these, after a step that failed."""
        for row in self._rows.keys() - set(rows):
            self._rows.pop(row)[0].forget()

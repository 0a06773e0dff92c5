"""The two sides of a batch that several processes decode: rank 0 decides, the others repeat.

Every process applies the same operations to its rows and its prompt cache, in the same order.
A batch belongs to the thread that runs its process's model.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from engine.distributed.followers import Followers
from engine.distributed.messages import Close, Insert, Leave, StepBatch
from engine.errors import EngineError, InvalidRequest
from engine.inference.backend import BatchLimits, Joined, Step
from engine.inference.batch import RunningBatch
from engine.inference.embedding import TextReader
from engine.inference.scoring import PromptScorer
from engine.values.request import PERSON, CacheOwner
from engine.values.tokens import PromptScoring

# Rank 0 limits the prompt cache, and tells the others how many entries to keep.
_NO_LIMIT = 1 << 62


class OutOfStep(EngineError):
    """A follower's batch or cache differs from what rank 0 expects."""


class LeadingBatch(RunningBatch):
    """Rank 0's batch: it announces each operation to the others."""

    def __init__(self, model: Any, limits: BatchLimits, followers: Followers) -> None:
        # Guesses would have to be sent to the others before each pass, so there are none.
        super().__init__(model, replace(limits, guesses=False))
        self._followers = followers
        self._prompt_lengths: dict[int, int] = {}

    def insert(
        self,
        tokens: list[int],
        *,
        turn_end: int = 0,
        owner: CacheOwner = PERSON,
        scorer: PromptScorer | None = None,
        **drawing: Any,
    ) -> Joined:
        """Add a row everywhere."""
        self._followers.check()
        kept = self.cache_use.entries
        joined = super().insert(tokens, turn_end=turn_end, owner=owner, scorer=scorer, **drawing)
        self._prompt_lengths[joined.row] = len(tokens)
        scored_from = None if scorer is None else scorer.begins + 1
        self._followers.announce(
            Insert(tokens, joined.row, joined.cached, kept, turn_end, scored_from, owner.name)
        )
        return joined

    def _step(self, chunk: int, lane: int, together: int) -> Step:
        """Step everywhere, with the amount of reading that rank 0 chose."""
        self._followers.announce(StepBatch(chunk, lane, together))
        try:
            return super()._step(chunk, lane, together)
        except Exception as error:
            raise self._followers.blame(error) from error

    def text_reader(self, texts: Sequence[Sequence[int]], **wanted: Any) -> TextReader:
        """Refuse: the others are told of rows alone."""
        raise InvalidRequest("model", "a model that several processes share makes no vectors")

    def leave(self, rows: Mapping[int, int]) -> None:
        """Take rows out everywhere; caches are kept under the tokens that rank 0 sampled."""
        gone = self._taken_out(rows)
        written = [(one.tokens or [])[self._prompt_lengths.pop(one.row) :] for one in gone]
        self._followers.announce(Leave([one.row for one in gone], written))
        self._let_go(gone)

    def reset(self) -> Sequence[int]:
        """Drop all rows of this process; the other processes are lost already."""
        self._prompt_lengths.clear()
        self._joining.clear()
        return super().reset()

    def close(self) -> None:
        """Free the model everywhere."""
        if not self._followers.is_over:
            self._followers.announce(Close())
        super().close()


class FollowingBatch(RunningBatch):
    """Another process's batch: it repeats what rank 0's batch did."""

    def __init__(self, model: Any, *, prefill_chunk: int, rows: int) -> None:
        super().__init__(model, BatchLimits(prefill_chunk, _NO_LIMIT, rows))

    def follow_insert(self, order: Insert) -> None:
        """Add the row that rank 0 has added; raises ``OutOfStep`` if it differs here."""
        self._kept.memory.shrink_to(order.kept)
        scorer = None
        if order.scored_from is not None:
            # Rank 0 chooses how much is read in a step, so the vocabulary does not matter here.
            scorer = PromptScorer(order.tokens, PromptScoring(order.scored_from), 1)
        row, cached, *_ = self.insert(
            order.tokens, turn_end=order.turn_end, owner=CacheOwner(order.owner), scorer=scorer
        )
        if (row, cached) != (order.row, order.cached):
            raise OutOfStep(
                f"row {row} with {cached} cached tokens, where rank 0 has row {order.row} "
                f"with {order.cached}"
            )

    def follow_step(self, order: StepBatch) -> None:
        """Decode and read as much as rank 0 did."""
        self._step(order.chunk, order.lane, order.together)

    def follow_leave(self, order: Leave) -> None:
        """Take out the rows that rank 0 has taken out."""
        gone = self._taken_out(order.rows)
        for one, written in zip(gone, order.written, strict=True):
            if one.tokens and written:
                one.tokens = [*one.tokens[: -len(written)], *written]
        self._let_go(gone)

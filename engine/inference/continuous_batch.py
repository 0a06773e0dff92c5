"""Continuous batching with mlx-lm's prompt and generation batches. Engine thread.

Short prompts that wait together are read in one group, long ones alone, so that no prompt is
padded to the length of a much longer one. Shorter groups overtake longer ones. What decodes is in
groups of like length, too.
"""

import contextlib
import logging
from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import mlx.core as mx
from mlx_lm.generate import PromptProcessingBatch, generation_stream
from mlx_lm.models.cache import make_prompt_cache
from mlx_lm.utils import maybe_set_recommended_wired_limit

from engine.inference.decoding_groups import DecodingGroups
from engine.inference.mlx_lm_internals import straighten
from engine.inference.running_cache import batched, parts_of
from engine.inference.sampling import GREEDY
from engine.inference.sequence import Sequence
from engine.inference.speculation.head_drafts import with_head
from engine.library.length_groups import StepReads
from engine.values.tokens import PromptScores

if TYPE_CHECKING:
    from engine.inference.vision.vision import Vision

_log = logging.getLogger(__name__)

# The limits of a group: rows, and tokens with padding.
_GROUP_ROWS = 8
_GROUP_TOKENS = 512
# So large that mlx-lm never ends a sequence by itself.
_NO_LIMIT = 1 << 40


class ContinuousBatch:
    """The prompts that one model reads, and the rows that it decodes."""

    def __init__(
        self,
        model: Any,
        max_rows: int,
        *,
        pads_prompts: bool,
        sequences: Mapping[int, Sequence],
        vision: "Vision | None" = None,
        reads: StepReads | None = None,
    ) -> None:
        self.model = model
        self.decoding = DecodingGroups(reads)
        self.waiting: list[Sequence] = []
        self.groups: list[Any] = []
        self.stream = generation_stream
        self.vision = vision
        self._max_rows = max_rows
        self._pads_prompts = pads_prompts
        self._sequences = sequences
        self._passes = 0
        maybe_set_recommended_wired_limit()

    def wait(self, sequence: Sequence) -> None:
        """Read a sequence's prompt as soon as a row is free."""
        self.waiting.append(sequence)

    def clear(self) -> None:
        self.decoding.clear()
        self.waiting, self.groups = [], []

    def close(self) -> None:
        self.clear()
        del self.model, self.decoding

    @property
    def free_rows(self) -> int:
        return self._max_rows - len(self.decoding) - sum(map(len, self.groups))

    @property
    def is_reading(self) -> bool:
        """Whether any prompt is not read yet."""
        return bool(self.groups or self.waiting)

    @property
    def can_read(self) -> bool:
        return bool(self.groups or (self.waiting and self.free_rows > 0))

    def decode(self) -> list[Any]:
        """Decode a token of each row; return mlx-lm's responses."""
        responses: list[Any] = []
        with mx.stream(self.stream):
            self.decoding.regroup_if_due()
            for group in self.decoding.groups:
                self.set_deltas(group.uids)
                responses += group.next()
        return responses

    def set_deltas(self, numbers: Iterable[int]) -> None:
        """Let the next pass count positions as the pictures of its rows need it."""
        if self.vision is not None:
            self.vision.set_deltas([self._sequences[one].position_delta for one in numbers])

    def read(
        self, max_tokens: int, max_s: float
    ) -> tuple[Any, dict[Sequence, int], dict[int, PromptScores]]:
        """Read up to ``max_tokens`` tokens of one group; return it, the tokens read, and scores.

        A picture's tower runs instead for about ``max_s``.
        """
        with mx.stream(self.stream):
            group = self._next_group()
            rows = self._rows_of(group)
            counts = _counts(rows, max(1, max_tokens // len(rows)))
            self._keep_whole(rows[0], counts)
            if self._run_tower(rows[0], counts[rows[0]], max_s):
                return group, dict.fromkeys(rows, 0), {}
            scores: dict[int, PromptScores] = {}
            if any(counts.values()):
                tokens = [self._next_ids(row, count) for row, count in counts.items()]
                group.model = self._scoring(counts, scores)
                try:
                    with self._shown(rows[0], counts[rows[0]]):
                        group.prompt(tokens)
                finally:
                    group.model = self.model
                for part in parts_of(group.prompt_cache):
                    straighten(part)
            return group, counts, scores

    def begin_decoding(self, group: Any) -> None:
        """Let those of a group decode whose prompts are read but for the last token."""
        rows = self._rows_of(group)
        ready = [index for index, row in enumerate(rows) if row.read == len(row) - 1]
        if not ready:
            return
        with mx.stream(self.stream):
            part = group
            if len(ready) == len(rows):
                self.groups.remove(group)
            else:
                part = group.split(ready)
            self.set_deltas(part.uids)
            self.decoding.add(part.generate([[rows[index].tokens[-1]] for index in ready]))
        for index in ready:
            if (pictures := rows[index].pictures) is not None:
                pictures.features.clear()

    def cache_of(self, sequence: Sequence) -> tuple[list[Any], int | None, list[int]]:
        """Return the cache of a sequence, its row (None for its own cache), and its keys."""
        for batch in (*self.groups, *self.decoding.groups):
            if sequence.number in batch.uids:
                row = batch.uids.index(sequence.number)
                return batch.prompt_cache, row, sequence.keys_of(list(batch.tokens[row]))
        cache = sequence.cache or make_prompt_cache(self.model)
        return cache, None, sequence.keys[: sequence.cached]

    def remove(self, sequences: Iterable[Sequence]) -> dict[Sequence, tuple[list[Any], list[int]]]:
        with mx.stream(self.stream):
            removed: dict[Sequence, tuple[list[Any], list[int]]] = {}
            for sequence in sequences:
                cache, row, tokens = self.cache_of(sequence)
                if row is not None and tokens:
                    cache = [part.extract(row) for part in cache]
                elif row is not None:  # mlx-lm's caches cannot be split before their first token
                    cache = make_prompt_cache(self.model)
                removed[sequence] = cache, tokens
            numbers = {sequence.number for sequence in removed}
            self.waiting = [one for one in self.waiting if one not in removed]
            for group in self.groups:
                kept = [row for row, number in enumerate(group.uids) if number not in numbers]
                if len(kept) < len(group):
                    group.filter(kept)
            self.groups = [group for group in self.groups if len(group)]
            self.decoding.remove(numbers)
        return removed

    def _next_group(self) -> Any:
        self._passes += 1
        can_join = self.free_rows > 0
        candidates: list[tuple[Sequence, Any]] = [
            (min(self._rows_of(group), key=attrgetter("number")), group) for group in self.groups
        ]
        if can_join:
            candidates += [(sequence, None) for sequence in self.waiting]
        # Every fourth pass reads the oldest prompt, so that short ones cannot starve it.
        is_oldest_due = self._passes % 4 == 0
        sequence, group = min(
            candidates,
            key=lambda each: (0 if is_oldest_due else each[0].unread, each[0].number),
        )
        return self._new_group(sequence) if group is None else group

    def _new_group(self, first: Sequence) -> Any:
        """Begin to read a waiting prompt, and others with it as far as the limits allow."""
        members = [first]
        is_alone = first.pictures is not None or not self._pads_prompts
        max_rows = 1 if is_alone else min(_GROUP_ROWS, self.free_rows)
        for sequence in sorted(self.waiting, key=lambda each: (each.unread, each.number)):
            longest = max(first.unread, sequence.unread)
            if len(members) == max_rows or longest * (len(members) + 1) > _GROUP_TOKENS:
                break
            if sequence is not first and sequence.pictures is None:
                members.append(sequence)
        # Their cached beginnings are padded, too.
        own, *others = self.decoding.split([len(sequence) for sequence in members])
        alike = zip(members[1:], others, strict=True)
        members = [first, *(sequence for sequence, group in alike if group == own)]
        members.sort(key=attrgetter("number"))
        self.waiting = [sequence for sequence in self.waiting if sequence not in members]
        caches = [
            with_head(batched(sequence.cache, self.model), self.model) for sequence in members
        ]
        group = PromptProcessingBatch(
            self.model,
            [sequence.number for sequence in members],
            caches,
            [sequence.tokens[: sequence.cached] for sequence in members],
            prefill_step_size=_NO_LIMIT,
            samplers=[sequence.sampler for sequence in members],
            fallback_sampler=GREEDY,
            logits_processors=[sequence.processors for sequence in members],
            max_tokens=[_NO_LIMIT] * len(members),
        )
        for sequence in members:
            sequence.cache = None
        self.groups.append(group)
        return group

    def _keep_whole(self, sequence: Sequence, counts: dict[Sequence, int]) -> None:
        """Let a pass cut no picture that has to be read as a whole."""
        if self.vision is not None and sequence.pictures is not None:
            end = sequence.read + counts[sequence]
            counts[sequence] = (
                self.vision.whole_end(sequence.pictures, sequence.read, end) - sequence.read
            )

    def _next_ids(self, sequence: Sequence, count: int) -> list[int]:
        ids = sequence.tokens[sequence.read : sequence.read + count]
        if self.vision is None or sequence.pictures is None:
            return ids
        return self.vision.readable(ids)

    def _run_tower(self, sequence: Sequence, count: int, max_s: float) -> bool:
        """Run the tower for a picture among the next tokens; return whether it had to."""
        if self.vision is None or sequence.pictures is None:
            return False
        try:
            end = sequence.read + count
            return self.vision.run_tower(sequence.pictures, sequence.read, end, max_s)
        except Exception as error:  # a tower that fails must not end other answers
            _log.exception("a tower failed")
            sequence.failure = f"the model cannot read the picture: {error}; leave it out"
            return True

    def _shown(self, sequence: Sequence, count: int) -> Any:
        """Let a pass over the next tokens of a prompt read its pictures."""
        if self.vision is None:
            return contextlib.nullcontext()
        self.vision.set_deltas([sequence.position_delta])
        return self.vision.shown(sequence.pictures, sequence.read, sequence.read + count)

    def _scoring(
        self, counts: Mapping[Sequence, int], scores: dict[int, PromptScores]
    ) -> Callable[..., Any]:
        scored = [
            (index, row, row.scorer, count)
            for index, (row, count) in enumerate(counts.items())
            if row.scorer is not None and row.read + count > row.scorer.begins
        ]
        if not scored:
            return self.model  # type: ignore[no-any-return]

        def read(inputs: mx.array, cache: Any = None) -> Any:
            logits = self.model(inputs, cache=cache)
            for index, row, scorer, count in scored:
                found = scorer.score(logits[index, :count], row.read)
                if found is not None:
                    scores[row.number] = found
            return logits

        return read

    def _rows_of(self, group: Any) -> list[Sequence]:
        return [self._sequences[number] for number in group.uids]


def _counts(rows: list[Sequence], max_tokens: int) -> dict[Sequence, int]:
    """Return how many tokens of each prompt the next pass reads, up to the next snapshot."""
    for row in rows:
        if row.scorer is not None and row.read + max_tokens > row.scorer.begins:
            max_tokens = min(max_tokens, row.scorer.max_tokens(len(rows)))
    counts = {}
    for row in rows:
        ends = [at for at in (*row.snapshots_at, len(row) - 1) if at > row.read]
        counts[row] = min(max_tokens, min(ends, default=row.read) - row.read)
    # A row without tokens to read would be all padding; it decodes first.
    return counts if all(counts.values()) else dict.fromkeys(rows, 0)

"""Prompts of one batch that share their beginnings.

A prompt that shares a long beginning with a sequence of its owner takes it from that sequence: at
once, or as soon as the sequence has read it. Only sequences of one owner share: no number and no
time reveals another's prompt. Nothing here knows a clock, so that several processes
that decode together come to the same result. Belongs to the thread of the batch.
"""

from collections import abc
from collections.abc import Iterable
from operator import attrgetter
from typing import Any

import mlx.core as mx

from engine.inference.cache.disk import TOKEN_BYTES
from engine.inference.cache.index import common_tokens, key_of
from engine.inference.cache.segments import cache_prefix
from engine.inference.continuous_batch import ContinuousBatch
from engine.inference.running_cache import extracted
from engine.inference.sequence import Sequence
from engine.inference.speculation.head_drafts import without_head

# A beginning is shared where that saves reading at least this many tokens. Reading fewer takes
# about as long as copying them.
WORTH_TOKENS = 256
# Answers to one prompt with several seeds read it once, unless it is as short as this: on models
# that people run, reading even these tokens takes longer than copying them.
_WORTH_SAME = 16


class PrefixSharing:
    """The sequences of one batch: those with a ``prefix_donor`` wait for its reading.

    All others have joined the batch, and are in ``reading`` until they decode.
    """

    def __init__(
        self, by_number: "dict[int, Sequence]", batch: ContinuousBatch, *, is_cut_anywhere: bool
    ) -> None:
        self.by_number = by_number
        self.reading: list[Sequence] = []
        self._batch = batch
        self._is_cut_anywhere = is_cut_anywhere
        self._next_number = 0
        # The sequences that stopped waiting in this step, by their numbers.
        self._stopped_waiting: list[int] = []

    def add(self, sequence: Sequence) -> None:
        """Let a sequence join the batch, or wait for another that is read."""
        sequence.number = self._next_number
        sequence.key = key_of(sequence.keys)
        self._next_number += 1
        self._wait_or_join(sequence)
        self.by_number[sequence.number] = sequence

    def record_read(self, sequence: Sequence, tokens: int) -> list[tuple[int, int]]:
        """Note how many tokens a sequence has read since it joined; let those join that waited.

        Returns the progress of sequences that still wait.
        """
        sequence.read = sequence.cached + tokens
        due = [
            other for other, shared in sequence.prefix_dependents.items() if shared <= sequence.read
        ]
        if due:
            cache, held = self.copy_of(sequence)
            for other in sorted(due, key=attrgetter("number")):
                self._take_beginning(other, cache, held)
                self._stop_waiting(other)
                self._join(other)
                self._stopped_waiting.append(other.number)
        return [
            (other.number, min(shared, sequence.read) - other.cached)
            for other, shared in sequence.prefix_dependents.items()
        ]

    def stop_reading(self, sequence: Sequence) -> None:
        """Note that a sequence decodes from now on, or leaves while its prompt is read."""
        self.reading.remove(sequence)

    def take_stopped_waiting(self) -> list[int]:
        """Return the numbers of the sequences that stopped waiting since the last call."""
        stopped, self._stopped_waiting = self._stopped_waiting, []
        return [number for number in stopped if number in self.by_number]

    def remove(self, numbers: Iterable[int]) -> list[Sequence]:
        """Remove sequences; return them in order, with their caches."""
        removed = [self.by_number[number] for number in numbers if number in self.by_number]
        joined = []
        for sequence in removed:
            if (donor := sequence.prefix_donor) is not None:
                sequence.cache = None
                del donor.prefix_dependents[sequence]
            else:
                joined.append(sequence)
        caches = self._batch.remove(joined) if joined else {}
        for sequence, (cache, held) in caches.items():
            if sequence in self.reading:
                self.stop_reading(sequence)
            sequence.cache, sequence.held = extracted(without_head(cache)), held
        for sequence in removed:
            del self.by_number[sequence.number]
        return removed

    def release_dependents(self, removed: abc.Sequence[Sequence]) -> None:
        """Let sequences that waited for removed ones continue from their caches."""
        dependents: list[Sequence] = []
        for sequence in removed:
            waited = sorted(sequence.prefix_dependents, key=attrgetter("number"))
            dependents += waited
            if waited and sequence.cache and sequence.held:
                self._evaluate(sequence.cache)
                for dependent in waited:
                    self._take_beginning(dependent, sequence.cache, sequence.held)
        # Only now, so that none takes a beginning from a removed sequence.
        for dependent in dependents:
            self._go_on(dependent)

    def reset(self) -> list[Sequence]:
        """Let waiting sequences join the emptied batch; return the others, dropped."""
        sequences = list(self.by_number.values())
        waiting = [sequence for sequence in sequences if sequence.prefix_donor is not None]
        dropped = [sequence for sequence in sequences if sequence.prefix_donor is None]
        for sequence in dropped:
            del self.by_number[sequence.number]
        self.reading.clear()
        for sequence in waiting:
            self._go_on(sequence)
        return dropped

    def clear(self) -> None:
        self.by_number.clear()
        self.reading.clear()
        self._stopped_waiting.clear()

    def copy_of(self, sequence: Sequence) -> tuple[list[Any], list[int]]:
        """Return a copy of the cache of a sequence in the batch, and the tokens in it."""
        with self._stream():
            cache, tokens = self._batch.extract(sequence)
        cache = without_head(cache)
        self._evaluate(cache)
        return cache, tokens

    def _wait_or_join(self, sequence: Sequence) -> None:
        """Let a sequence wait for another with the same beginning, or join at once."""
        best = self._best(sequence) if sequence.scorer is None else None
        if best is not None:
            other, shared = best
            if other.read < shared:
                sequence.prefix_donor = other
                other.prefix_dependents[sequence] = shared
                if not self._is_cut_anywhere:
                    other.snapshots_at.add(shared)
                return
            cache, held = self.copy_of(other)
            # Tokens beyond the prompt may still change.
            self._take_beginning(sequence, cache, held, shared)
        self._join(sequence)

    def _best(self, sequence: Sequence) -> tuple[Sequence, int] | None:
        """Return of which sequence a prompt should take how many tokens; None for none.

        It waits for one only if that has read at least as much as the prompt's own cache holds,
        and is not much longer, because shorter prompts are read first. Of several, the one is
        chosen that saves the most tokens, both in waiting and in reading.
        """
        length, cached = len(sequence), sequence.cached
        if length - cached <= _WORTH_SAME:
            return None
        best: tuple[Sequence, int] | None = None
        max_spared = -1
        for other in self.by_number.values():
            is_waiting = other is sequence or other.prefix_donor is not None
            if is_waiting or other.owner.name != sequence.owner.name:
                continue
            # Each reads at least its last token itself.
            shared = min(common_tokens(sequence.key, other.key), length - 1, len(other) - 1)
            is_same = len(other) == length == shared + 1
            if shared - cached < (_WORTH_SAME if is_same else WORTH_TOKENS):
                continue
            if other.read >= shared:
                if not self._is_cut_anywhere:
                    continue
            # A prompt waits for another with at most this multiple of its remaining tokens.
            elif other.read < cached or other.unread > 4 * (length - cached):
                continue
            spared = min(shared, other.read) + shared
            if spared > max_spared:
                best, max_spared = (other, shared), spared
        return best

    def _join(self, sequence: Sequence) -> None:
        sequence.read = sequence.cached
        self.reading.append(sequence)
        self._batch.wait(sequence)

    def _stop_waiting(self, sequence: Sequence) -> None:
        if sequence.prefix_donor is not None:
            sequence.prefix_donor.prefix_dependents.pop(sequence, None)
            sequence.prefix_donor = None

    def _go_on(self, sequence: Sequence) -> None:
        """Let a sequence that waited take more from another, wait for that, or join."""
        self._stop_waiting(sequence)
        self._wait_or_join(sequence)
        self._stopped_waiting.append(sequence.number)

    def _take_beginning(
        self, sequence: Sequence, cache: list[Any], tokens: list[int], max_tokens: int | None = None
    ) -> None:
        """Give a prompt the shared beginning of another's cache, if that is longer than its own."""
        usable = len(sequence) - 1 if max_tokens is None else min(len(sequence) - 1, max_tokens)
        common = common_tokens(key_of(tokens), sequence.key[: usable * TOKEN_BYTES])
        if common > sequence.cached:
            with self._stream():
                beginning = cache_prefix(cache, len(tokens), common)
            if beginning is not None:
                sequence.cache, sequence.cached = beginning, common
                sequence.cache_miss = None

    def _evaluate(self, cache: list[Any]) -> None:
        # Lazy slices would keep the arrays of the whole batch alive.
        with self._stream():
            mx.eval([part.state for part in cache])

    def _stream(self) -> Any:
        return mx.stream(self._batch.stream)

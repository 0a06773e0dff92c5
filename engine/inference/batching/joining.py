"""Puts prompts into the lanes of a batch, each with the longest cached beginning.

A prompt that shares a long beginning with a row of its owner takes it from that row: at once, or as
soon as the row has read it. A cache that cannot be cut anywhere is kept at the end of a turn and
where prompts diverged, so that later prompts can continue from there. Belongs to the thread of the
batch.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx

from engine.inference.batching.reading_turns import lane_of
from engine.inference.batching.shared_reading import SharedReading
from engine.inference.caching.stretches import beginning_of
from engine.inference.caching.token_keys import common_tokens, key_of
from engine.inference.mlx_lm_internals import insert_row, stop_reading_at

# So large that the batch never ends a row by itself.
_NO_LIMIT = 1 << 40


@dataclass(slots=True)
class Arrival:
    """A prompt that is not in a lane yet."""

    owner: str
    tokens: list[int]
    drawing: dict[str, Any]
    cache: list[Any] | None = None
    cached: int = 0
    snapshots_at: Sequence[int] = ()
    row: int = -1
    reads_alone: bool = False


@dataclass(slots=True)
class Departure:
    """A row that was taken out of the batch."""

    row: int
    cache: list[Any] | None = None
    tokens: list[int] | None = None


class Joining:
    """The prompts on their way into a batch."""

    def __init__(
        self,
        lanes: Sequence[Any],
        lane_of: dict[int, int],
        *,
        is_cut_anywhere: bool,
    ) -> None:
        self.hits = self.hit_tokens = 0
        self._lanes = lanes
        self._lane_of = lane_of
        self._is_cut_anywhere = is_cut_anywhere
        self._sharing = SharedReading(is_cut_anywhere=is_cut_anywhere)
        self._next_row = 0
        # Rows that wait until another row has read what they share with it.
        self._waiting: dict[int, Arrival] = {}
        self._stopped_waiting: list[tuple[int, int]] = []
        # After how many tokens the cache of a row is to be kept, where that cannot be cut.
        self._snapshots_at: dict[int, set[int]] = {}

    def add(self, arrival: Arrival) -> int:
        """Let a prompt join the batch, or wait for another that is read; return its row's number.

        Its ``cached`` has grown where it took a beginning from a row at once.
        """
        arrival.row = self._next_row
        self._next_row += 1
        self._place(arrival)
        return arrival.row

    def has_read(self, row: int, tokens: int) -> tuple[list[tuple[int, int]], bool]:
        """Note how many tokens a row has read since it joined; let those join that waited
        for it.
        """
        tokens += self._sharing.begun_at(row)
        due = self._sharing.has_read(row, tokens)
        if due:
            cache, held = self.copy_of(row)
            for other in due:
                self._take_beginning(self._waiting[other], cache, held)
                self._stop_waiting(other, self._join)
        waiting = ((self._waiting[other], most) for other, most in self._sharing.waiting(row))
        progress = [(one.row, min(most, tokens) - one.cached) for one, most in waiting]
        return progress, tokens in self._snapshots_at.get(row, ())

    def unread_by(self, row: int) -> int:
        """Return how many tokens of its prompt a row in the batch has not read yet; at least 1."""
        return self._sharing.unread_by(row)

    def depth_of(self, row: int) -> int:
        """Return how many tokens of its prompt a row in the batch has."""
        return self._sharing.read_by(row)

    def length_of(self, row: int) -> int:
        """Return how many tokens the prompt of a row in the batch has."""
        return self._sharing.length_of(row)

    def take_shared(self) -> list[tuple[int, int]]:
        """Return the rows that stopped waiting, each with how many tokens it need not read."""
        found, self._stopped_waiting = self._stopped_waiting, []
        return found

    def stop(self, row: int) -> bool:
        """Drop a row that waits; return whether there is such a row."""
        return self._waiting.pop(row, None) is not None

    def forget(self, gone: Sequence[Departure]) -> None:
        """Forget rows that were taken out; those that waited for them read on from there."""
        rows = {one.row for one in gone}
        if self._stopped_waiting:
            self._stopped_waiting = [one for one in self._stopped_waiting if one[0] not in rows]
        heirs: list[int] = []
        for one in gone:
            self._snapshots_at.pop(one.row, None)
            waited = [row for row in self._sharing.forget(one.row) if row not in rows]
            heirs += waited
            if waited and one.cache and one.tokens:
                self._evaluate(one.cache)
                for row in waited:
                    self._take_beginning(self._waiting[row], one.cache, one.tokens)
        # Only now, so that none finds a beginning in a row that has left.
        for row in heirs:
            self._stop_waiting(row, self._place)

    def begin_anew(self) -> Sequence[int]:
        """Let the rows that waited join a batch that is empty again; return their numbers."""
        self._snapshots_at.clear()
        self._sharing.clear()
        rows = sorted(self._waiting)
        for row in rows:
            self._stop_waiting(row, self._place)
        return rows

    def clear(self) -> None:
        """Forget all rows."""
        self._waiting.clear()
        self.begin_anew()

    def copy_of(self, row: int) -> tuple[list[Any], list[int]]:
        """Return a copy of the cache of a row in the batch, and the tokens in it."""
        with self._stream():
            cache, tokens = self._lanes[self._lane_of.get(row, 0)].extract_cache([row])[row]
        self._evaluate(cache)
        return cache, tokens

    def _place(self, arrival: Arrival) -> None:
        """Let a prompt wait for a row that shares its beginning, or join at once."""
        shared = None
        if not arrival.reads_alone:
            shared = self._sharing.best(arrival.owner, arrival.tokens, arrival.cached)
        if shared is not None and not shared.is_read:
            self._waiting[arrival.row] = arrival
            self._sharing.wait(arrival.row, shared)
            if not self._is_cut_anywhere:
                self._snapshot(shared.row, shared.tokens)
            return
        if shared is not None:
            cache, held = self.copy_of(shared.row)
            # What is beyond the prompt may still change.
            self._take_beginning(arrival, cache, held, shared.tokens)
        self._join(arrival)

    def _join(self, arrival: Arrival) -> None:
        """Put a prompt into the lane of those with as much to read, in the order of arrival."""
        row, tokens, cached = arrival.row, arrival.tokens, arrival.cached
        lane = lane_of(len(tokens) - cached)
        insert_row(
            self._lanes[lane],
            row,
            [tokens[cached:]],
            max_tokens=[_NO_LIMIT],
            caches=None if arrival.cache is None else [arrival.cache],
            all_tokens=[tokens[:cached]],
            **arrival.drawing,
        )
        self._lane_of[row] = lane
        self._sharing.joined(row, arrival.owner, tokens, cached)
        for at in arrival.snapshots_at:
            self._snapshot(row, at)
        self.hits += bool(cached)
        self.hit_tokens += cached

    def _snapshot(self, row: int, at: int) -> None:
        """Keep the cache of a row once the row has read ``at`` tokens of its prompt."""
        if at > self._sharing.read_by(row):
            self._snapshots_at.setdefault(row, set()).add(at)
            begun = self._sharing.begun_at(row)
            stop_reading_at(self._lanes[self._lane_of[row]], row, at - begun)

    def _stop_waiting(self, row: int, go_on: Callable[[Arrival], None]) -> None:
        arrival = self._waiting.pop(row)
        go_on(arrival)
        # It may have taken more from another row, or wait for that now.
        self._stopped_waiting.append((row, arrival.cached))

    def _take_beginning(
        self, arrival: Arrival, cache: list[Any], tokens: list[int], most: int | None = None
    ) -> None:
        """Give a prompt what it shares with the cache of a row, if that is more than it has."""
        common = common_tokens(key_of(tokens), key_of(arrival.tokens[:-1][:most]))
        if common > arrival.cached:
            with self._stream():
                found = beginning_of(cache, len(tokens), common)
            if found is not None:
                arrival.cache, arrival.cached = found, common

    def _evaluate(self, cache: list[Any]) -> None:
        # Lazy slices would keep the arrays of the whole batch alive.
        with self._stream():
            mx.eval([part.state for part in cache])

    def _stream(self) -> Any:
        return mx.stream(self._lanes[0].stream)

"""Keeps the caches of a batch's rows: in memory for all rows, on disk where their owner wants it.

Belongs to the thread of its batch.
"""

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import mlx.core as mx

from engine.inference.caching.disk.chains import LoadedBeginning
from engine.inference.caching.disk.cutting import tail, view_of
from engine.inference.caching.disk.disk_cache import Ticket
from engine.inference.caching.disk.model_disk_cache import ModelDiskCache
from engine.inference.caching.prompt_cache import PromptCache
from engine.inference.caching.stretches import taken_apart
from engine.values.request import CacheOwner

_CACHED_PROMPTS = 64


class PromptKeeper:
    """The caches of earlier prompts."""

    def __init__(self, most_bytes: int, stream: Callable[[], AbstractContextManager[Any]]) -> None:
        self.memory = PromptCache(_CACHED_PROMPTS, most_bytes)
        self.disk: ModelDiskCache | None = None
        self._stream = stream
        # The owner of each row, and the right to keep its cache on disk.
        self._owners: dict[int, tuple[CacheOwner, Ticket | None]] = {}

    def fetch(
        self, owner: CacheOwner, tokens: list[int], loaded: LoadedBeginning | None
    ) -> tuple[list[Any] | None, int, int]:
        """Return the cache of a prompt's first tokens, their number, and how many are from disk."""
        cache, cached = self.memory.fetch(owner.name, tokens)
        if loaded is None or loaded.tokens <= cached:
            return cache, cached, 0
        # Kept in memory as well, because other choices of the request have the same prompt.
        with self._stream():
            self.memory.keep(owner.name, tokens[: loaded.tokens], view_of(loaded.cache))
        cache, cached = self.memory.fetch(owner.name, tokens)
        if cached < loaded.tokens:  # memory has no room for it
            cache, cached = view_of(loaded.cache), loaded.tokens
        return cache, cached, cached

    def own(self, row: int, owner: CacheOwner) -> None:
        """Note the owner of the cache that a row leaves."""
        is_on_disk = owner.kept_with is not None and self.disk is not None
        self._owners[row] = owner, self.disk.ticket(owner) if is_on_disk and self.disk else None

    def keep_only(self, rows: Collection[int]) -> None:
        """Forget the owners of all rows but these."""
        self._owners = {row: self._owners[row] for row in rows if row in self._owners}

    def keep(
        self,
        cache: Any,
        tokens: list[int] | None,
        row: int,
        *,
        has_left: bool = False,
    ) -> None:
        """Keep a cache in memory, and on disk where the owner of its row wants it."""
        owned = self._owners.pop(row, None) if has_left else self._owners.get(row)
        if owned is None or not cache or not tokens:
            return
        owner, ticket = owned
        with self._stream():
            self.memory.keep(owner.name, tokens, cache)
            if ticket is not None and self.disk is not None:
                self._keep_on_disk(self.disk, ticket, cache, tokens)

    def _keep_on_disk(
        self, disk: ModelDiskCache, ticket: Ticket, cache: Sequence[Any], tokens: list[int]
    ) -> None:
        parts = self.memory.parts_of(ticket.owner.name, tokens)
        if parts is None:  # memory has no room for it
            view = view_of(cache)
            stretch, snapshot = taken_apart(view, len(tokens))
            parts = [stretch], snapshot
            # Another thread can read arrays, but it cannot finish this thread's computations.
            mx.eval(stretch.layers, [part.state for part in view])
        stretches, snapshot = parts
        size = sum(one.size_bytes for one in stretches) + snapshot.size_bytes
        # Joined on the thread that writes: no token waits for that.
        disk.keep(ticket, tokens, partial(tail, stretches, snapshot, len(tokens)), size)

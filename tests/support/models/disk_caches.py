"""A folder of caches as one process uses it; the keys and values show their tokens."""

from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx_lm.models.cache import KVCache

from engine.inference.cache.disk import DiskCache, stamps_of
from engine.inference.cache.prompt_cache import PromptCache
from engine.inference.cache.segments import evaluate
from engine.values.request import CacheOwner

ME = CacheOwner("me", "a conversation")
PATIENCE_S = 60
BLOCK = 16
"""The tokens of a block, few."""


def kv_cache(ids: list[int], layers: int = 2) -> list[Any]:
    """Return a cache whose keys and values depend only on its tokens, as with a model."""
    parts = []
    for layer in range(layers):
        keys = mx.stack([mx.array(ids, mx.float32) + layer, mx.array(ids, mx.float32) * 2])
        keys = mx.broadcast_to(keys[None, :, :, None], (1, 2, len(ids), 4))
        part = KVCache()
        part.update_and_fetch(keys, -keys)
        parts.append(part)
    evaluate(parts)
    return parts


class Room:
    """One process's view of a folder, with a model loaded that has no memory for its caches."""

    def __init__(self, folder: Path, model: Path, max_bytes: int = 1 << 30) -> None:
        self.disk = DiskCache(folder, max_bytes)
        self.load(model)

    def load(self, model: Path, fresh: list[Any] | None = None) -> None:
        self.model = PromptCache(fresh or [KVCache(), KVCache()], 0)
        self.model.attach(self.disk, model, stamps_of(model))

    def keep(self, ids: list[int], owner: CacheOwner = ME, cache: list[Any] | None = None) -> None:
        """Store a cache and wait until that is done."""
        made = kv_cache(ids) if cache is None else cache
        self.model.keep(owner, self.model.disk_epoch(owner), made, ids)
        self.wait()

    def wait(self) -> None:
        self.disk.run_on_reader(lambda: None).result(PATIENCE_S)
        self.disk.measured().result(PATIENCE_S)

    def fetched(self, ids: list[int], owner: CacheOwner = ME) -> tuple[list[Any], int]:
        """Return the cache of a prompt's first tokens as read from disk, and their number."""
        self.wait()
        if not self.model.is_on_disk(owner, ids):
            return [], 0
        self.model.read([(owner, ids)]).result(PATIENCE_S)
        cache, cached, from_disk = self.model.fetch(owner.name, ids)
        self.model.shrink_to()
        assert cached == from_disk
        return cache or [], cached

    def tokens(self, ids: list[int], owner: CacheOwner = ME) -> int:
        """Return for how many tokens there is a cache, and check that it is the right one."""
        cache, tokens = self.fetched(ids, owner)
        for part, right in zip(cache, kv_cache(ids[:tokens]) if tokens else [], strict=True):
            for value, other in zip(part.keys_and_values(), right.keys_and_values(), strict=True):
                assert mx.array_equal(value, other).item()
        return tokens

    @property
    def paths(self) -> list[Path]:
        """The files, those of the first tokens first: they were used last."""
        return [self.disk.folder.path / name for name in reversed(self.disk.folder.files())]

    def close(self) -> None:
        self.disk.close()

"""A folder of kept caches as one process uses it; the keys and values show their tokens."""

from functools import partial
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx_lm.models.cache import KVCache

from engine.inference.cache.disk import ModelDiskCache
from engine.inference.cache.folder import DiskCache, stamps_of
from engine.inference.cache.index import LoadedBeginning
from engine.inference.cache.segments import bytes_of, evaluate, tail, taken_apart
from engine.values.request import CacheOwner

ME = CacheOwner("me", "a conversation")
PATIENCE_S = 60


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
    """One process's view of a folder, with a model loaded."""

    def __init__(self, folder: Path, model: Path, most_bytes: int = 1 << 30) -> None:
        self.disk = DiskCache(folder, most_bytes)
        self.load(model)

    def load(self, model: Path, cache: list[Any] | None = None) -> None:
        self.model = ModelDiskCache(
            self.disk, model, stamps_of(model), cache or [KVCache(), KVCache()]
        )

    def keep(self, ids: list[int], owner: CacheOwner = ME, cache: list[Any] | None = None) -> None:
        """Keep a cache and wait until that is done."""
        made = kv_cache(ids) if cache is None else cache
        segment, snapshot = taken_apart(made, made[0].offset)
        mx.eval(segment.layers)
        make = partial(tail, [segment], snapshot, len(ids))
        self.model.keep(self.model.ticket(owner), ids, make, bytes_of(made))
        self.wait()

    def wait(self) -> None:
        for thread in (self.disk.reader, self.disk.writer):
            thread.do(lambda: None).result(PATIENCE_S)

    def loaded(self, ids: list[int], owner: CacheOwner = ME) -> LoadedBeginning | None:
        """Return the cache of a prompt's beginning."""
        self.wait()
        found = self.model.find(owner, ids)
        return (
            None
            if found is None
            else self.disk.reader.do(lambda: self.model._read(found)).result(PATIENCE_S)
        )

    def tokens(self, ids: list[int], owner: CacheOwner = ME) -> int:
        """Return for how many tokens there is a cache, and check that it is the right one."""
        loaded = self.loaded(ids, owner)
        if loaded is None:
            return 0
        wanted = kv_cache(ids[: loaded.tokens])
        for part, right in zip(loaded.cache, wanted, strict=True):
            for value, other in zip(part.keys_and_values(), right.keys_and_values(), strict=True):
                assert mx.array_equal(value, other).item()
        return loaded.tokens

    @property
    def names(self) -> list[str]:
        return [one.name for one in self.disk.folder.files()]

    def close(self) -> None:
        self.disk.close()

"""Cuts the cache of an answer into stretches of tokens, and joins stretches again.

mlx-lm's caches (``mlx_lm/models/cache.py``) are of two kinds:

- ``KVCache`` has keys and values of every token, each at its place. Any stretch of them can be cut
  out, kept once for all prompts that share it, and joined with others.
- All other kinds are kept whole, as a snapshot at one token: ``RotatingKVCache`` and
  ``ChunkedKVCache`` forget what is outside their window, ``ArraysCache`` has a state and no
  tokens, ``QuantizedKVCache`` and ``ConcatenateKVCache`` cannot be in a batch. A rotating cache
  whose window is not full yet can still be trimmed.

A ``CacheList`` has parts of either kind. A model with layers of both kinds has stretches and
snapshots: its prompts share the stretches, and can continue only where there is a snapshot. Engine
thread, and the disk's threads on arrays that are evaluated.
"""

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
from mlx_lm.models.cache import ArraysCache, CacheList, KVCache, RotatingKVCache

_Arrays = tuple[mx.array, mx.array]


@dataclass(frozen=True, slots=True)
class Stretch:
    """Keys and values of consecutive tokens, in all layers that have them for every token."""

    layers: Sequence[_Arrays]

    @property
    def size_bytes(self) -> int:
        """The memory that it takes once it is ``compact``."""
        return sum(keys.nbytes + values.nbytes for keys, values in self.layers)

    def part(self, begin: int, end: int) -> "Stretch":
        """Return a part of it, which still uses the whole's memory."""
        return Stretch(
            [(keys[..., begin:end, :], values[..., begin:end, :]) for keys, values in self.layers]
        )

    def compact(self) -> "Stretch":
        """Return a copy with memory of its own, as much as it needs.

        MLX does not copy where the memory is larger by less than 16 KB.
        """
        found = Stretch(
            [(mx.contiguous(keys), mx.contiguous(values)) for keys, values in self.layers]
        )
        mx.eval(found.layers)
        return found


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The layers that are kept whole, as they are after some tokens."""

    tokens: int
    layers: Sequence[Any]

    @property
    def is_empty(self) -> bool:
        """Whether no layer is kept whole."""
        return not any(True for _ in _whole_parts(self.layers))

    @property
    def can_be_trimmed(self) -> bool:
        """Whether it can be cut back to fewer tokens."""
        return all(_can_be_trimmed(part) for part in _whole_parts(self.layers))

    @property
    def size_bytes(self) -> int:
        """The memory that it takes once it is ``compact``."""
        return sum(int(part.nbytes) for part in _whole_parts(self.layers))

    def compact(self) -> "Snapshot":
        """Give the layers memory of their own, as much as they need; returns this snapshot."""
        for part in _whole_parts(self.layers):
            _compact(part)
        mx.eval([part.state for part in _whole_parts(self.layers)])
        return self


def is_cut_anywhere(cache: Sequence[Any]) -> bool:
    """Whether every layer of a model's fresh cache will have stretches."""
    return all(
        is_cut_anywhere(part.caches) if isinstance(part, CacheList) else type(part) is KVCache
        for part in cache
    )


def taken_apart(cache: Sequence[Any], tokens: int) -> tuple[Stretch, Snapshot]:
    """Return the stretch and the snapshot that make up a cache, without copying anything."""
    layers: list[_Arrays] = []
    return (
        Stretch(layers),
        Snapshot(tokens, [_whole(part, tokens, layers) for part in cache]),
    )


def joined(stretches: Sequence[Stretch], snapshot: Snapshot, tokens: int) -> list[Any]:
    """Return a fresh cache of ``tokens`` tokens, which shares nothing that mlx-lm changes.

    MLX copies the stretches when the cache is first used: until then it takes no memory.
    """
    count = len(stretches[0].layers) if stretches else 0
    layers = (_filled([one.layers[layer] for one in stretches], tokens) for layer in range(count))
    surplus = snapshot.tokens - tokens
    return [_part_of(whole, layers, surplus) for whole in snapshot.layers]


def beginning_of(cache: Sequence[Any], tokens: int, count: int) -> list[Any] | None:
    """Return a fresh cache of the first tokens of one; None where its kind cannot be cut there."""
    stretch, snapshot = taken_apart(cache, tokens)
    if count < tokens and not snapshot.can_be_trimmed:
        return None
    return joined([stretch], snapshot, count)


def _whole(part: Any, tokens: int, layers: list[_Arrays]) -> Any:
    """Return the item of ``Snapshot.layers`` for a part; append the part's arrays to ``layers``."""
    if isinstance(part, CacheList):
        return tuple(_whole(one, tokens, layers) for one in part.caches)
    if type(part) is not KVCache or part.keys is None or part.offset != tokens:
        return part
    layers.append((part.keys[..., :tokens, :], part.values[..., :tokens, :]))
    return None


def _whole_parts(layers: Sequence[Any]) -> Iterator[Any]:
    for layer in layers:
        if isinstance(layer, tuple):
            yield from _whole_parts(layer)
        elif layer is not None:
            yield layer


def _filled(arrays: Sequence[_Arrays], tokens: int) -> KVCache:
    part = KVCache()
    # The slices are needed even where they cut nothing off: they are new arrays, and mlx-lm writes
    # into them.
    part.keys = mx.concatenate([keys for keys, _ in arrays], axis=-2)[..., :tokens, :]
    part.values = mx.concatenate([values for _, values in arrays], axis=-2)[..., :tokens, :]
    part.offset = tokens
    return part


def _part_of(whole: Any, layers: Iterator[KVCache], surplus: int) -> Any:
    """Return a part of a joined cache."""
    if whole is None:
        return next(layers)
    if isinstance(whole, tuple):
        return CacheList(*(_part_of(one, layers, surplus) for one in whole))
    part = copy.deepcopy(whole)
    if surplus and not part.empty():
        part.trim(surplus)
    return part


def _can_be_trimmed(part: Any) -> bool:
    # A layer that uses another's keys is never written to. Not every kind that mlx-lm calls
    # trimmable really is: ``ConcatenateKVCache`` and ``ChunkedKVCache`` lose or keep too much.
    return bool(part.empty() or (isinstance(part, RotatingKVCache) and part.is_trimmable()))


def _compact(part: Any) -> None:
    if isinstance(part, ArraysCache):
        part.cache = [None if one is None else mx.contiguous(one) for one in part.cache]
    elif isinstance(part, RotatingKVCache) and part.keys is not None:
        keys, values, offset, keep, window, index = part.state
        # After a prompt it holds tokens before its window, which nothing reads any more.
        surplus = keys.shape[-2] - window
        if surplus > 0 and keep == 0 and index == keys.shape[-2]:
            keys, values, index = keys[..., surplus:, :], values[..., surplus:, :], window
        part.state = (mx.contiguous(keys), mx.contiguous(values), offset, keep, window, index)

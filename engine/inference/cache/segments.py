"""Cuts the cache of an answer into segments of tokens, joins them, writes and reads them.

mlx-lm's caches (``mlx_lm/models/cache.py``) are of two kinds. ``KVCache`` has keys and values of
every token, each at its position: any segment can be cut out, held once for all prompts that share
it, and joined with others. All other kinds are kept whole, as a snapshot at one token:
``RotatingKVCache`` and ``ChunkedKVCache`` drop tokens outside their window, ``ArraysCache`` has a
state and no tokens, and so may kinds that a model has of its own.

A ``CacheList`` has parts of either kind. A model with layers of both kinds has segments and
snapshots: its prompts share the segments, and continue only where there is a snapshot. Engine
thread, and the disk's threads on arrays that are evaluated.
"""

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx.utils import tree_flatten
from mlx_lm.models.cache import (
    ArraysCache,
    BatchKVCache,
    CacheList,
    ChunkedKVCache,
    KVCache,
    RotatingKVCache,
    load_prompt_cache,
)

from engine.inference.running_cache import parts_of

_Arrays = tuple[mx.array, mx.array]


@dataclass(frozen=True, slots=True)
class Segment:
    """Keys and values of consecutive tokens, in all layers that have them for every token."""

    layers: Sequence[_Arrays]

    @property
    def arrays(self) -> list[mx.array]:
        """All arrays that it holds."""
        return [array for layer in self.layers for array in layer]

    @property
    def size_bytes(self) -> int:
        return sum(array.nbytes for array in self.arrays)

    def part(self, begin: int, end: int) -> "Segment":
        return Segment(
            [(keys[..., begin:end, :], values[..., begin:end, :]) for keys, values in self.layers]
        )

    def copied(self) -> "Segment":
        """Return a lazy copy; MLX does not copy where the memory is larger by less than 16 KB."""
        return Segment(
            [(mx.contiguous(keys), mx.contiguous(values)) for keys, values in self.layers]
        )


class QuantizedSegment(Segment):
    """A segment whose keys and values are held in 8 bits, as in mlx-lm's ``QuantizedKVCache``.

    Its ``layers`` are close to those it was made of, and computed when they are used.
    """

    __slots__ = ("_packed",)
    _packed: list[tuple[mx.array, ...]]

    def __init__(self, exact: Segment) -> None:
        object.__setattr__(self, "_packed", [_packed(array) for array in exact.arrays])

    @property
    def arrays(self) -> list[mx.array]:
        return [array for packed in self._packed for array in packed]

    @property
    def layers(self) -> Sequence[_Arrays]:
        arrays = iter([_unpacked(packed) for packed in self._packed])
        return list(zip(arrays, arrays, strict=True))


def _packed(array: mx.array) -> tuple[mx.array, ...]:
    """Return an array in 8 bits with a scale and a bias for 64 or 32 numbers; others as it is."""
    size = next((size for size in (64, 32) if array.shape[-1] % size == 0), 0)
    return tuple(mx.quantize(array, group_size=size, bits=8)) if size else (mx.contiguous(array),)


def _unpacked(packed: tuple[mx.array, ...]) -> mx.array:
    if len(packed) == 1:
        return packed[0]
    values, scales, biases = packed
    size = values.shape[-1] * 4 // scales.shape[-1]
    return mx.dequantize(values, scales, biases, group_size=size, bits=8)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The layers that are kept whole, as they are after some tokens.

    ``layers`` has for each part of the cache: None where it has segments, a tuple for the parts of
    a ``CacheList``, and else the part itself.
    """

    layers: Sequence[Any]

    @property
    def parts(self) -> list[Any]:
        return list(_whole_parts(self.layers))

    @property
    def size_bytes(self) -> int:
        """The memory of its arrays, once it is ``compact``."""
        return sum(int(part.nbytes) for part in _whole_parts(self.layers))

    def compact(self) -> None:
        """Give the layers memory of their own, evaluated."""
        for part in self.parts:
            _compact(part)
        evaluate(self.parts)


def can_cut_anywhere(cache: Sequence[Any]) -> bool:
    """Whether every layer of a model's fresh cache will have segments."""
    return all(type(part) is KVCache for part in parts_of(cache))


def count_segments(cache: Sequence[Any]) -> int:
    """Return how many parts of a model's fresh cache will have segments."""
    return sum(type(part) is KVCache for part in parts_of(cache))


def segments_only(cache: Sequence[Any]) -> list[Any]:
    """Return the layers of ``Snapshot`` for a cache that can be cut anywhere."""
    return [
        tuple(segments_only(part.caches)) if isinstance(part, CacheList) else None for part in cache
    ]


def split_cache(cache: Sequence[Any], tokens: int) -> tuple[Segment, Snapshot]:
    """Return the segment and the snapshot that make up a cache, without copying anything."""
    layers: list[_Arrays] = []
    whole = [_whole(part, tokens, layers) for part in cache]
    return Segment(layers), Snapshot(whole)


def join_cache(segments: Sequence[Segment], snapshot: Snapshot, tokens: int) -> list[Any]:
    """Return a fresh cache of ``tokens`` tokens; MLX copies the segments when it is first used."""
    layers = iter(join_layers(segments, tokens))
    return [_part_of(whole, layers, copy.deepcopy) for whole in snapshot.layers]


def saved_cache(segment: Segment, snapshot: Snapshot, tokens: int) -> list[Any]:
    """Return the cache of a snapshot for a file, with the keys of its last ``tokens`` tokens."""
    layers = iter(join_layers([segment], tokens))
    return [_part_of(whole, layers, lambda part: part) for whole in snapshot.layers]


def sequence_view(cache: Sequence[Any], index: int) -> list[Any]:
    """Return the cache of one sequence of a batch's cache, which shares the batch's memory."""
    return [_view_of_sequence(part, index) for part in cache]


def _view_of_sequence(part: Any, index: int) -> Any:
    if isinstance(part, CacheList):
        return CacheList(*(_view_of_sequence(inner, index) for inner in part.caches))
    if not isinstance(part, BatchKVCache) or part.empty():
        return part.extract(index)
    view, padding = KVCache(), max(0, int(part.left_padding[index].item()))
    keys, values = part.keys_and_values()
    view.keys, view.values = (array[index : index + 1, :, padding:] for array in (keys, values))
    view.offset = view.keys.shape[-2]
    return view


def _whole(part: Any, tokens: int, layers: list[_Arrays]) -> Any:
    """Return the item of ``Snapshot.layers`` for a part; append the part's arrays to ``layers``."""
    if isinstance(part, CacheList):
        return tuple(_whole(inner, tokens, layers) for inner in part.caches)
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


def join_layers(segments: Sequence[Segment], tokens: int) -> list[KVCache]:
    """Return the layers that have segments, with the first ``tokens`` tokens of all segments."""
    count = len(segments[0].layers) if segments else 0
    return [
        _filled([segment.layers[layer] for segment in segments], tokens) for layer in range(count)
    ]


def _filled(arrays: Sequence[_Arrays], tokens: int) -> KVCache:
    part = KVCache()
    # The slices are needed even where they cut nothing off: they are new arrays, and mlx-lm writes
    # into them.
    part.keys = mx.concatenate([keys for keys, _ in arrays], axis=-2)[..., :tokens, :]
    part.values = mx.concatenate([values for _, values in arrays], axis=-2)[..., :tokens, :]
    part.offset = tokens
    return part


def _part_of(whole: Any, layers: Iterator[KVCache], part_of: Callable[[Any], Any]) -> Any:
    if whole is None:
        return next(layers)
    if isinstance(whole, tuple):
        return CacheList(*(_part_of(inner, layers, part_of) for inner in whole))
    return part_of(whole)


def _compact(part: Any) -> None:
    if is_models_own(part):
        for name, value in vars(part).items():
            if isinstance(value, mx.array):
                setattr(part, name, mx.contiguous(value))
    elif isinstance(part, ChunkedKVCache) and part.keys is not None:
        # Its memory is for more tokens, and its beginning is for the tokens of the last pass.
        part.maybe_trim_front()
        part.keys, part.values = map(mx.contiguous, part.keys_and_values())
    elif isinstance(part, ArraysCache):
        part.cache = [None if array is None else mx.contiguous(array) for array in part.cache]
    elif isinstance(part, RotatingKVCache) and part.keys is not None:
        keys, values, offset, keep, window, index = part.state
        # After a prompt it holds tokens before its window, which nothing reads any more.
        surplus = keys.shape[-2] - window
        if surplus > 0 and keep == 0 and index == keys.shape[-2]:
            keys, values, index = keys[..., surplus:, :], values[..., surplus:, :], window
        part.state = (mx.contiguous(keys), mx.contiguous(values), offset, keep, window, index)


def kinds_of(cache: Sequence[Any]) -> tuple[str, ...]:
    """Return the names of the classes of a cache's parts."""
    return tuple(
        f"CacheList({', '.join(kinds_of(part.caches))})"
        if isinstance(part, CacheList)
        else type(part).__name__
        for part in cache
    )


def evaluate(cache: Sequence[Any]) -> None:
    """Evaluate all arrays of a cache, so that every thread can read it."""
    leaves = tree_flatten([part.state for part in cache])
    mx.eval([value for _, value in leaves if isinstance(value, mx.array)])


def load(path: Path) -> list[Any]:
    """Return a saved cache, evaluated."""
    cache: list[Any] = load_prompt_cache(str(path))
    evaluate(cache)
    return cache


def is_models_own(part: Any) -> bool:
    """Whether a part is of a kind that a model has of its own, which mlx-lm's files do not know."""
    return bool(type(part).__module__ != KVCache.__module__)

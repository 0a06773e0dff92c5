"""Cuts the caches of prompts into segments for files, and joins them again. Uses MLX.

Any thread: arrays that are evaluated may be read by every thread; computations here run on the
calling thread's own stream. ``engine.inference.caching.stretches`` knows the kinds of caches.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx.utils import tree_flatten, tree_map
from mlx_lm.models.cache import CacheList, load_prompt_cache, save_prompt_cache

from engine.inference.caching.stretches import (
    Snapshot,
    Stretch,
    beginning_of,
    joined,
    taken_apart,
)


class NotCut(Exception):
    """A cache does not have the expected kind or length."""


def kinds_of(cache: Sequence[Any]) -> tuple[str, ...]:
    """Return the kinds of a cache's parts, in words."""
    return tuple(
        f"CacheList({', '.join(kinds_of(part.caches))})"
        if isinstance(part, CacheList)
        else type(part).__name__
        for part in cache
    )


def size_of(cache: Sequence[Any]) -> int:
    """Return the bytes of a cache."""
    return sum(int(part.nbytes) for part in cache)


def view_of(cache: Sequence[Any]) -> list[Any]:
    """Return the same cache in objects of its own, which share its memory.

    Changes to the other cache do not change this one: MLX copies shared memory before it writes.
    """
    return [type(part).from_state(tree_map(_alias, part.state)) for part in cache]


def _alias(value: Any) -> Any:
    return value[...] if isinstance(value, mx.array) else value


def tail(stretches: Sequence[Stretch], snapshot: Snapshot, tokens: int, start: int) -> list[Any]:
    """Return the last tokens of a cache as a cache of their own, evaluated."""
    has_all = sum(map(_length, stretches)) >= tokens if snapshot.is_empty else not start
    if not has_all:
        raise NotCut("a cache has other tokens than it should have")
    count = tokens - start
    with mx.stream(mx.cpu):
        if start:
            stretches = _without_first(stretches, start)
            snapshot = replace(snapshot, tokens=count)
        found = joined(stretches, snapshot, count)
        evaluate(found)
    return found


def _length(stretch: Stretch) -> int:
    return int(stretch.layers[0][0].shape[-2])


def _without_first(stretches: Sequence[Stretch], start: int) -> list[Stretch]:
    """Return stretches without their first tokens."""
    left = []
    begin = 0
    for one in stretches:
        end = begin + _length(one)
        if end > start:
            left.append(one.part(max(0, start - begin), end - begin))
        begin = end
    return left


def join(segments: Sequence[tuple[list[Any], int, int]]) -> list[Any]:
    """Return one cache made of consecutive segments, evaluated."""
    stretches = []
    total = 0
    for cache, held, taken in segments:
        stretch, snapshot = taken_apart(cache, held)
        if not snapshot.is_empty:
            raise NotCut("a cache has other tokens than it should have")
        stretches.append(stretch.part(0, taken))
        total += taken
    found = joined(stretches, replace(snapshot, tokens=total), total)
    evaluate(found)
    return found


def can_be_trimmed(cache: Sequence[Any], tokens: int) -> bool:
    """Whether a cache of this many tokens can be cut back to fewer."""
    return taken_apart(cache, tokens)[1].can_be_trimmed


def trimmed(cache: Sequence[Any], tokens: int, count: int) -> list[Any]:
    """Return the first tokens of a cache that is kept whole, evaluated."""
    found = beginning_of(cache, tokens, count)
    if found is None:
        raise NotCut("a cache cannot be trimmed")
    evaluate(found)
    return found


def evaluate(cache: Sequence[Any]) -> None:
    """Evaluate all arrays of a cache, so that every thread can read it."""
    leaves = tree_flatten([part.state for part in cache])
    mx.eval([value for _, value in leaves if isinstance(value, mx.array)])


def save(file: Any, cache: list[Any], metadata: dict[str, str]) -> None:
    """Write a cache as mlx-lm writes it."""
    save_prompt_cache(file, cache, metadata)


def load(path: Path) -> tuple[list[Any], dict[str, str]]:
    """Return a cache that mlx-lm wrote, evaluated, and its metadata."""
    cache, metadata = load_prompt_cache(str(path), return_metadata=True)
    evaluate(cache)
    return list(cache), dict(metadata)

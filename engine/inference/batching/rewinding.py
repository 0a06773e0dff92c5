"""Removes the newest tokens of each row from a running batch's cache. Engine thread.

mlx-lm's rows are right-aligned in one block. Tokens that all rows lose are cut off. Where one row
loses more than another, its keys and values are moved to the right, which copies the block.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import mlx.core as mx
from mlx_lm.models.cache import BatchKVCache, BatchRotatingKVCache, CacheList

# If every row has this many empty places on its left, copying the block to remove them pays.
_LEAST_EMPTY = 64


def can_rewind(cache: Sequence[Any], rows: int, tokens: int) -> bool:
    """Return whether a batch's cache could later drop any of its next ``tokens`` tokens.

    Sliding windows can for a single row until they are full; states of recurrent models cannot.
    """
    for part in _parts(cache):
        if isinstance(part, BatchKVCache):
            continue
        # In a full window, new tokens have replaced older ones, which are lost.
        is_window = isinstance(part, BatchRotatingKVCache)
        if not is_window or rows != 1 or part.size() + tokens >= part.max_size:
            return False
    return True


def rewind(cache: Sequence[Any], surplus: Sequence[int]) -> None:
    """Remove ``surplus[row]`` tokens from the end of each row; ``can_rewind`` has returned True."""
    least = min(surplus)
    more = [one - least for one in surplus]
    is_ragged = any(more)
    for part in _parts(cache):
        if least:
            part.trim(least)
        if is_ragged:
            part.prepare(right_padding=more)
            part.finalize()
    if is_ragged:
        mx.eval([part.state for part in cache])
        _close_gap(cache, len(surplus))


def _close_gap(cache: Sequence[Any], rows: int) -> None:
    """Remove places that are empty in all rows; moving rows to the right makes more of them."""
    first = next(_parts(cache))
    if min(first.left_padding.tolist()) < _LEAST_EMPTY:
        return
    for part in _parts(cache):
        part.filter(list(range(rows)))


def _parts(cache: Sequence[Any]) -> Iterator[Any]:
    for part in cache:
        if isinstance(part, CacheList):
            yield from _parts(part.caches)
        else:
            yield part

"""Measures how much memory the cache of a loaded model takes. Engine thread.

The model reads one token, but MLX computes nothing until a value is needed: the shapes of the cache
are known without any computation.
"""

import logging
from collections.abc import Iterator, Mapping
from typing import Any

import mlx.core as mx
from mlx_lm.models.cache import CacheList, ChunkedKVCache, RotatingKVCache, make_prompt_cache

from engine.library.cache_size import CacheSize, Window, estimated

_log = logging.getLogger(__name__)


def measured(model: Any, config: Mapping[str, Any]) -> CacheSize:
    """Return what one answer's cache takes."""
    try:
        cache = make_prompt_cache(model)
        model(mx.array([[0]]), cache=cache)
        return size_of(cache)
    except Exception as error:  # the models of mlx-lm are many
        _log.warning("the model's cache could not be measured: %s", error)
        return estimated(config)


def size_of(cache: list[Any]) -> CacheSize:
    """Return how a cache grows, from one that holds at least one token."""
    token_bytes = fixed_bytes = 0
    windows: dict[int, int] = {}
    for part in _parts(cache):
        tokens = _allocated_tokens(part)
        if tokens == 0:
            fixed_bytes += part.nbytes
            continue
        share = part.nbytes // tokens
        window = _window_tokens(part)
        if window is None:
            token_bytes += share
        else:
            windows[window] = windows.get(window, 0) + share
    kept = tuple(Window(tokens, share) for tokens, share in sorted(windows.items()))
    return CacheSize(token_bytes, fixed_bytes, kept)


def _parts(cache: list[Any]) -> Iterator[Any]:
    for part in cache:
        if isinstance(part, CacheList):
            yield from _parts(list(part.caches))
        else:
            yield part


def _allocated_tokens(part: Any) -> int:
    """Return for how many tokens a part has memory; 0 for one that does not grow."""
    keys = getattr(part, "keys", None)
    if isinstance(keys, tuple):  # quantized: values, scales and biases
        keys = keys[0]
    return 0 if keys is None else int(keys.shape[-2])


def _window_tokens(part: Any) -> int | None:
    if isinstance(part, RotatingKVCache):
        return int(part.max_size)
    if isinstance(part, ChunkedKVCache):
        return int(part.chunk_size)
    return None

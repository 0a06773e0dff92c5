"""The memory that the cache of a loaded model takes. Engine thread.

The model reads one token, but MLX computes nothing until a value is needed: the shapes of the
cache are known without any computation.
"""

import logging
from collections.abc import Mapping
from typing import Any

import mlx.core as mx
from mlx_lm.models.cache import ChunkedKVCache, RotatingKVCache, make_prompt_cache

from engine.inference.cache.segments import is_models_own
from engine.inference.running_cache import parts_of
from engine.library.memory_need import STEP_TOKENS, CacheSize, estimated

_log = logging.getLogger(__name__)


def measure_cache(model: Any, config: Mapping[str, Any]) -> CacheSize:
    """Return the size of one answer's cache."""
    try:
        cache = make_prompt_cache(model)
        model(mx.array([[0]]), cache=cache)
        own = any(is_models_own(part) for part in parts_of(cache))
        return cache_size(cache) + (_size_of_own(model) if own else CacheSize())
    except Exception as error:  # the models of mlx-lm are many
        _log.warning("the model's cache could not be measured: %s", error)
        return estimated(config)


def cache_size(cache: list[Any]) -> CacheSize:
    """Return the growth of a cache that holds at least one token."""
    token_bytes = fixed_bytes = 0
    windows: dict[int, int] = {}
    for part in parts_of(cache):
        if is_models_own(part):
            continue
        keys = getattr(part, "keys", None)
        if keys is None:  # it does not grow
            fixed_bytes += part.nbytes
            continue
        share = part.nbytes // int(keys.shape[-2])
        window = _window_tokens(part)
        if window is None:
            token_bytes += share
        else:
            windows[window] = windows.get(window, 0) + share
    return CacheSize(token_bytes, fixed_bytes, tuple(sorted(windows.items())))


def _size_of_own(model: Any) -> CacheSize:
    """Return how the parts grow that are of kinds of the model's own; a window counts as full."""
    cache = make_prompt_cache(model)
    sizes = []
    for _ in range(2):
        model(mx.zeros((1, STEP_TOKENS), mx.int32), cache=cache)
        sizes.append(sum(int(part.nbytes) for part in parts_of(cache) if is_models_own(part)))
    grown = sizes[1] - sizes[0]
    return CacheSize(-(-grown // STEP_TOKENS), max(0, sizes[0] - grown))


def _window_tokens(part: Any) -> int | None:
    if isinstance(part, RotatingKVCache):
        return int(part.max_size)
    if isinstance(part, ChunkedKVCache):
        return int(part.chunk_size)
    return None

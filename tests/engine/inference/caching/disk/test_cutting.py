"""Caches survive files and cutting bit by bit, whatever their kind."""

from typing import Any

import mlx.core as mx
import pytest
from mlx.utils import tree_flatten
from mlx_lm.models import deepseek_v41
from mlx_lm.models.cache import (
    ArraysCache,
    CacheList,
    ChunkedKVCache,
    KVCache,
    QuantizedKVCache,
    RotatingKVCache,
    save_prompt_cache,
)

from engine.inference.cache.segments import (
    evaluate,
    join_cache,
    load,
    saved_cache,
    split_cache,
)


def random(tokens: int, dtype: Any = mx.float32) -> mx.array:
    return mx.random.normal((1, 2, tokens, 64)).astype(dtype)


def filled(cache: Any, tokens: int = 300, dtype: Any = mx.float32) -> Any:
    cache.update_and_fetch(random(tokens, dtype), random(tokens, dtype))
    return cache


def recurrent() -> ArraysCache:
    cache = ArraysCache(2)
    cache[0], cache[1] = mx.random.normal((1, 3, 8)), mx.random.normal((1, 2, 4, 4))
    return cache


def grouped(tokens: int = 300) -> deepseek_v41.LayerCache:
    """Return a cache of a kind that mlx-lm's files do not know."""
    cache = deepseek_v41.LayerCache(128)
    if tokens:
        cache.update_window(mx.random.normal((1, tokens, 8)))
        cache.compress_kv = mx.random.normal((1, tokens // 4, 8))
        cache.pending_kv = mx.zeros((1, 0, 8))
    return cache


def values_of(cache: list[Any]) -> list[Any]:
    found = []
    for path, value in tree_flatten([part.state for part in cache]):
        is_array = isinstance(value, mx.array)
        found.append((path, str(value.dtype), value.astype(mx.float32).tolist()) if is_array
                     else (path, value))  # fmt: skip
    return found


KINDS = {
    "plain": lambda: [filled(KVCache()), filled(KVCache())],
    "half": lambda: [filled(KVCache(), dtype=mx.bfloat16)],
    "quantized": lambda: [filled(QuantizedKVCache(64, 4))],
    "rotating": lambda: [filled(RotatingKVCache(128, keep=4)), filled(KVCache())],
    "short rotating": lambda: [filled(RotatingKVCache(1024), 20)],
    "chunked": lambda: [filled(ChunkedKVCache(128))],
    "short chunked": lambda: [filled(ChunkedKVCache(512))],
    "of a model": lambda: [grouped(), grouped(0)],
    "recurrent": lambda: [recurrent(), filled(KVCache())],
    "plain list": lambda: [CacheList(filled(KVCache()), filled(KVCache()))],
    "list": lambda: [CacheList(filled(KVCache()), recurrent())],
}


@pytest.mark.parametrize("kind", KINDS.keys() - {"of a model", "quantized"})
def test_snapshot_comes_back_from_a_file_with_the_keys_of_its_last_tokens(
    kind: str, tmp_path: Any
) -> None:
    segment, snapshot = split_cache(KINDS[kind](), 300)
    parts = saved_cache(segment.part(250, 300), snapshot, 50)
    evaluate(parts)
    save_prompt_cache(str(tmp_path / "one.safetensors"), parts)
    found, layers = split_cache(load(tmp_path / "one.safetensors"), 50)
    again = join_cache([segment.part(0, 250), found], layers, 300)
    assert values_of(again) == values_of(join_cache([segment], snapshot, 300))

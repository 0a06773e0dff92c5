"""Caches survive files and cutting bit by bit, whatever their kind."""

from typing import Any

import mlx.core as mx
import pytest
from mlx.utils import tree_flatten
from mlx_lm.models.cache import (
    ArraysCache,
    CacheList,
    ChunkedKVCache,
    KVCache,
    QuantizedKVCache,
    RotatingKVCache,
)

from engine.inference.cache.segments import (
    NotCut,
    evaluate,
    join,
    kinds_of,
    load,
    save,
    tail,
    taken_apart,
    trimmed,
    view_of,
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
    "recurrent": lambda: [recurrent(), filled(KVCache())],
    "plain list": lambda: [CacheList(filled(KVCache()), filled(KVCache()))],
    "list": lambda: [CacheList(filled(KVCache()), recurrent())],
}


def cut(cache: list[Any], tokens: int, start: int) -> list[Any]:
    segment, snapshot = taken_apart(cache, tokens)
    middle = tokens // 3
    halves = [segment.part(0, middle), segment.part(middle, tokens)]
    return tail(halves, snapshot, tokens, start)


@pytest.mark.parametrize("kind", KINDS)
def test_a_cache_comes_back_from_a_file_as_it_was(kind: str, tmp_path: Any) -> None:
    cache = KINDS[kind]()
    evaluate(cache)
    path = tmp_path / "one.safetensors"
    save(str(path), view_of(cache), {"fullstop": "here"})
    found, metadata = load(path)
    assert values_of(found) == values_of(cache)
    assert kinds_of(found) == kinds_of(cache)
    assert metadata == {"fullstop": "here"}


@pytest.mark.parametrize("kind", ["plain", "half", "plain list"])
def test_a_cache_that_is_cut_and_joined_again_is_the_same(kind: str) -> None:
    cache = KINDS[kind]()
    evaluate(cache)
    whole = cut(cache, 300, 0)
    first = cut(trimmed(cache, 300, 100), 100, 0)
    second = cut(trimmed(cache, 300, 250), 250, 90)
    last = cut(cache, 300, 250)
    joined = join([(first, 100, 90), (second, 160, 160), (last, 50, 50)])
    assert values_of(joined) == values_of(whole)


def test_a_cache_of_other_tokens_than_it_should_have_is_refused() -> None:
    cache = KINDS["plain"]()
    evaluate(cache)
    segment, snapshot = taken_apart(cache, 300)
    with pytest.raises(NotCut):
        tail([segment], snapshot, 301, 0)
    with pytest.raises(NotCut):
        cut(cache, 299, 10)
    with pytest.raises(NotCut):
        join([(cache, 301, 300)])


def test_a_cache_that_forgets_its_first_tokens_is_not_trimmed() -> None:
    cache = KINDS["rotating"]()
    evaluate(cache)
    with pytest.raises(NotCut):
        trimmed(cache, 300, 250)


def test_a_view_does_not_change_with_the_cache_that_it_was_taken_of() -> None:
    cache = [filled(KVCache(), 10)]
    evaluate(cache)
    view = view_of(cache)
    before = values_of(cut(view, 10, 0))
    cache[0].trim(5)
    filled(cache[0], 5)
    evaluate(cache)
    assert values_of(cut(view, 10, 0)) == before

"""Earlier prompts in 8 bits: less memory, keys and values that are close, and own files."""

from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest
from mlx_lm.models.cache import KVCache

from engine.inference.cache.disk import stamps_of
from engine.inference.cache.index import (
    BLOCK_TOKENS,
    FilePart,
    PrefixIndex,
    key_of,
    root_hash,
)
from engine.inference.cache.prompt_cache import PromptCache
from engine.inference.cache.segments import split_cache
from tests.engine.inference.batching.stepped import SYSTEM, Stepped
from tests.support.models.tiny_models import KINDS


def cache_of(tokens: int, size: int, dtype: mx.Dtype = mx.float16) -> list[KVCache]:
    mx.random.seed(tokens)
    part = KVCache()
    shape = (1, 2, tokens, size)
    part.update_and_fetch(
        mx.random.normal(shape).astype(dtype), mx.random.normal(shape).astype(dtype)
    )
    return [part]


def fetched(index: PrefixIndex, tokens: int) -> tuple[mx.array, mx.array]:
    cache, count, _ = index.fetch("me", [*range(1, tokens + 1), 0])
    assert cache is not None
    assert count == tokens
    keys, values = cache[0].keys_and_values()
    return keys, values


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16, mx.float32])
@pytest.mark.parametrize("size", [32, 64, 96, 128])
def test_quantized_blocks_take_less_memory_and_are_close(size: int, dtype: mx.Dtype) -> None:
    tokens = 600
    exact = PrefixIndex([KVCache()], 1 << 40)
    quantized = PrefixIndex([KVCache()], 1 << 40, is_quantized=True)
    for index in (exact, quantized):
        index.store("me", range(1, tokens + 1), cache_of(tokens, size, dtype))
    assert quantized.size_bytes < exact.size_bytes * (0.33 if dtype == mx.float32 else 0.57)
    for found, expected in zip(fetched(quantized, tokens), fetched(exact, tokens), strict=True):
        assert found.dtype == expected.dtype
        # Half a step of 255 between the least and the greatest of a group, and the rounding of 16.
        assert mx.abs(found - expected).max().item() < 0.06
    # A longer prompt adds its own blocks; those held are not quantised again.
    before = fetched(quantized, 512)
    longer = cache_of(tokens, size, dtype)
    longer[0].keys, longer[0].values = fetched(quantized, tokens)
    quantized.store("me", [*range(1, tokens), 9], longer)
    assert all(map(mx.array_equal, fetched(quantized, 512), before))


def test_size_that_cannot_be_quantized_is_held_exactly() -> None:
    quantized = PrefixIndex([KVCache()], 1 << 40, is_quantized=True)
    cache = cache_of(300, 80)
    expected = cache[0].keys_and_values()
    quantized.store("me", range(1, 301), cache)
    assert all(map(mx.array_equal, fetched(quantized, 300), expected))


def test_blocks_read_from_files_are_quantized() -> None:
    cache = cache_of(BLOCK_TOKENS, 64)
    quantized = PrefixIndex([KVCache()], 1 << 40, is_quantized=True)
    segment, snapshot = split_cache(cache, BLOCK_TOKENS)
    key = key_of(range(1, BLOCK_TOKENS + 1))
    part = FilePart("file", root_hash("me"), 0, key, is_snapshot=False)
    quantized.hold_read("me", [(part, segment, snapshot)], BLOCK_TOKENS)
    assert quantized.size_bytes < 0.57 * segment.size_bytes
    keys, _ = fetched(quantized, BLOCK_TOKENS)
    assert mx.abs(keys - cache[0].keys_and_values()[0]).max().item() < 0.06


@pytest.mark.parametrize("kind", [*sorted(KINDS), "demo"])
def test_next_turn_continues_from_quantized_prompt(kind: str) -> None:
    held: list[int] = []
    for bits in (None, 8):
        stepped = Stepped(kind, cache_bits=bits)
        first = stepped.insert([*SYSTEM, 20])
        stepped.answer(first, tokens=8)
        stepped.leave(first)
        held.append(stepped.batch.cached_bytes)
        turn = [*SYSTEM, 20, *stepped.answers[first], 9]
        again = stepped.insert(turn)
        assert stepped.sequences[again].cached == len(turn) - 1
        stepped.answer(again, tokens=4)
        stepped.batch.close()
    assert held[1] < held[0] if kind == "demo" else held[1] <= held[0]


def test_files_of_quantized_blocks_are_none_for_exact_ones(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    disk: Any = object()
    prints = set()
    for is_quantized in (False, True):
        cache = PromptCache([KVCache()], 1 << 30, is_quantized=is_quantized)
        cache.attach(disk, tmp_path, stamps_of(tmp_path))
        prints.add(cache._fingerprint)
    assert len(prints) == 2

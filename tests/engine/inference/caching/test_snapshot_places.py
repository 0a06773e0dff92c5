"""Where snapshots are taken while a prompt is read."""

import itertools

from hypothesis import given
from hypothesis import strategies as st
from mlx_lm.models.cache import ArraysCache, KVCache

from engine.inference.cache.prompt_cache import STRIDE, PromptCache

HYBRID = [ArraysCache(2), KVCache()]
MEMORY = 1 << 30


@given(st.integers(1, 20_000), st.integers(0, 20_000), st.sets(st.integers(1, 20_000)))
def test_no_part_of_a_prompt_is_longer_than_the_stride(
    tokens: int, cached: int, ends: set[int]
) -> None:
    cached = min(cached, tokens - 1)
    places = PromptCache(HYBRID, MEMORY).snapshot_places(tokens, cached, sorted(ends))
    every = [cached, *sorted(places), tokens]
    parts = [end - begin for begin, end in itertools.pairwise(every)]
    assert max(parts) <= STRIDE
    assert all(part >= STRIDE // 4 for part in parts[:-1])


def test_it_ends_with_a_message_where_one_ends_near() -> None:
    places = PromptCache(HYBRID, MEMORY).snapshot_places(3 * STRIDE, 0, [STRIDE - 7, STRIDE + 1])
    assert min(places) == STRIDE - 7


def test_there_are_no_more_than_memory_has_room_for() -> None:
    cache = PromptCache(HYBRID, 64 << 10)
    cache._snapshot_bytes = 8 << 10
    assert 3 <= len(cache.snapshot_places(100 * STRIDE, 0, ())) <= 4


def test_a_model_that_goes_on_from_any_token_needs_none() -> None:
    assert PromptCache([KVCache()], MEMORY).snapshot_places(100 * STRIDE, 0, ()) == set()


def test_several_processes_that_decode_together_take_none() -> None:
    cache = PromptCache(HYBRID, MEMORY, is_alone=False)
    assert cache.snapshot_places(100 * STRIDE, 0, ()) == set()

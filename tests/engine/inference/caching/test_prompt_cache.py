"""The prompt cache holds shared beginnings once, finds the longest one, and keeps to its limits.

The caches are mlx-lm's own. Their keys are the token ids, so that it shows which tokens one holds.
"""

import itertools
from typing import Any

import mlx.core as mx
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from mlx_lm.models.cache import ArraysCache, CacheList, KVCache, RotatingKVCache

from engine.inference.cache.folder import StoredFile
from engine.inference.cache.index import DiskRead, LoadedPrefix, PrefixIndex, key_of
from engine.inference.cache.prompt_cache import STRIDE, PromptCache
from engine.inference.cache.segments import taken_apart
from engine.values.events import CacheMiss

# Keys and values of one layer: a number of 4 bytes each, for each token.
TOKEN_BYTES = 8
STATE_BYTES = 4

ME, ANOTHER = "me", "another"


def written(part: Any, tokens: list[int]) -> Any:
    ids = mx.array(tokens, mx.float32).reshape(1, 1, -1, 1)
    part.update_and_fetch(ids, -ids)
    return part


def full(tokens: list[int]) -> list[Any]:
    return [written(KVCache(), tokens)]


def state(tokens: list[int]) -> ArraysCache:
    """Return a state that only its tokens, all of them in order, lead to."""
    part = ArraysCache(2)
    value = 0.0
    for token in tokens:
        value = value * 5 % 1009 + token + 1
    part[0] = mx.array([[value]])
    return part


def recurrent(tokens: list[int]) -> list[Any]:
    return [state(tokens)]


def mixed(tokens: list[int]) -> list[Any]:
    return [written(KVCache(), tokens), state(tokens), CacheList(state(tokens), *full(tokens))]


def windowed(tokens: list[int]) -> list[Any]:
    """Return a cache with a window of four tokens, read in two portions."""
    part = RotatingKVCache(max_size=4)
    half = len(tokens) // 2
    for portion in (tokens[:half], tokens[half:]):
        if portion:
            written(part, portion)
    return [written(KVCache(), tokens), part]


KINDS = {"full": full, "recurrent": recurrent, "mixed": mixed, "windowed": windowed}


def ids_of(part: Any) -> list[int]:
    keys, values = part.keys_and_values()
    found = keys.reshape(-1).astype(mx.int32).tolist()
    assert values.reshape(-1).astype(mx.int32).tolist() == [-one for one in found]
    return [int(one) for one in found]


def check(cache: list[Any], tokens: list[int]) -> None:
    """Fail unless a cache is what reading just these tokens leaves."""
    for part in cache:
        if isinstance(part, CacheList):
            check(list(part.caches), tokens)
        elif isinstance(part, ArraysCache):
            expected = state(tokens)[0]
            assert part[0].item() == expected.item()
        elif isinstance(part, RotatingKVCache):
            assert part.offset == len(tokens)
            kept = part._temporal_order(part.keys)[..., -part.size() :, :]
            assert kept.reshape(-1).tolist() == tokens[-4:]
        else:
            assert part.offset == len(tokens)
            assert ids_of(part) == tokens


def cache_of(entries: int = 8, size: int = 10**9) -> PrefixIndex:
    return PrefixIndex(entries, size)


def kept(cache: PrefixIndex, *sequences: list[int], make: Any = full) -> PrefixIndex:
    for tokens in sequences:
        cache.store(ME, tokens, make(tokens))
    return cache


def common(one: list[int], other: list[int]) -> int:
    count = 0
    while count < min(len(one), len(other)) and one[count] == other[count]:
        count += 1
    return count


TOKENS = st.lists(st.integers(0, 2), min_size=1, max_size=12)


@settings(deadline=None)
@example([[1, 0], [1, 1, 0, 0]], [1, 1, 0], "windowed")
@given(st.lists(TOKENS, max_size=6), TOKENS, st.sampled_from(sorted(KINDS)))
def test_the_longest_useful_beginning_is_found_and_contains_nothing_else(
    sequences: list[list[int]], prompt: list[int], kind: str
) -> None:
    cache = kept(cache_of(), *sequences, make=KINDS[kind])
    found, count = cache.fetch(ME, prompt)

    def usable(held: list[int]) -> int:
        shared = min(common(held, prompt), len(prompt) - 1)
        is_cut = kind == "full" or (kind == "windowed" and len(held) < 4)
        return shared if is_cut or shared == len(held) else 0

    assert count == max((usable(held) for held in sequences), default=0)
    if found is None:
        assert count == 0
    else:
        check(found, prompt[:count])
        assert cache.common(ME, prompt) >= count


@settings(deadline=None)
@given(
    st.lists(st.tuples(TOKENS, st.booleans()), max_size=25),
    st.sampled_from(sorted(KINDS)),
    st.integers(1, 4),
    st.integers(0, 40 * TOKEN_BYTES),
)
def test_whatever_is_kept_and_dropped_the_found_caches_are_right_and_the_limits_hold(
    steps: list[tuple[list[int], bool]], kind: str, entries: int, size: int
) -> None:
    cache = cache_of(entries, size)
    for tokens, is_kept in steps:
        if is_kept:
            cache.store(ME, tokens, KINDS[kind](tokens))
        else:
            found, count = cache.fetch(ME, tokens)
            if found is not None:
                check(found, tokens[:count])
                # Writing into a cache that was fetched changes nothing that is kept.
                for part in found:
                    if isinstance(part, KVCache):
                        written(part, [9])
        assert len(cache) <= entries
        assert cache.size_bytes <= size
    cache.shrink_to(0)
    assert (len(cache), cache.size_bytes) == (0, 0)


def test_a_fetched_cache_is_a_copy() -> None:
    cache = kept(cache_of(), [1, 2, 3])
    first, _ = cache.fetch(ME, [1, 2, 3, 4])
    assert first is not None
    mx.eval(first[0].keys)
    first[0].keys[...] = 9
    again, _ = cache.fetch(ME, [1, 2, 3, 4])
    assert again is not None
    check(again, [1, 2, 3])


def test_a_shared_beginning_is_held_once() -> None:
    system = list(range(1000))
    cache = kept(cache_of(), *([*system, 2000 + n, 7] for n in range(8)))
    assert len(cache) == 8
    assert cache.size_bytes == (1000 + 8 * 2) * TOKEN_BYTES
    found, count = cache.fetch(ME, [*system, 2003, 7, 8])
    assert found is not None
    assert count == 1002
    check(found, [*system, 2003, 7])


def test_models_with_states_hold_the_keys_of_a_shared_beginning_once() -> None:
    system = list(range(1000))
    cache = kept(cache_of(), *([*system, 2000 + n, 7] for n in range(8)), make=mixed)
    # Two layers with keys, two with a state for each conversation.
    assert cache.size_bytes == 2 * (1000 + 8 * 2) * TOKEN_BYTES + 8 * 2 * STATE_BYTES


def test_an_edit_in_the_middle_reuses_what_is_before_it() -> None:
    cache = kept(cache_of(), [1, 2, 3, 4, 5, 6], [1, 2, 3, 9, 9])
    found, count = cache.fetch(ME, [1, 2, 3, 4, 8, 6])
    assert found is not None
    assert count == 4
    check(found, [1, 2, 3, 4])
    # The first branch continues as before.
    assert cache.fetch(ME, [1, 2, 3, 4, 5, 6, 7])[1] == 6


def test_a_cache_that_a_longer_one_contains_is_not_kept_twice() -> None:
    cache = kept(cache_of(), [1], [1, 2], [1, 2, 3], [1, 2, 3], [1, 2])
    assert (len(cache), cache.size_bytes) == (1, 3 * TOKEN_BYTES)
    # A state says nothing of fewer tokens.
    assert len(kept(cache_of(), [1], [1, 2], make=recurrent)) == 2


def test_tokens_that_are_kept_already_are_not_computed_again() -> None:
    cache, tokens = cache_of(size=1 << 30), list(range(100_000))
    kept(cache, tokens)
    lazy = KVCache()
    lazy.update_and_fetch(*(mx.exp(mx.ones((1, 1, len(tokens), 1))) for _ in range(2)))
    mx.reset_peak_memory()
    before = mx.get_active_memory()
    cache.store(ME, tokens, [lazy])
    assert mx.get_peak_memory() - before < 100_000
    assert len(cache) == 1


def test_the_least_recently_used_cache_is_dropped_first() -> None:
    cache = kept(cache_of(entries=2), [1, 1], [2, 2])
    cache.fetch(ME, [1, 1, 5])
    kept(cache, [3, 3])
    assert cache.fetch(ME, [1, 1, 5])[1] == 2
    assert cache.fetch(ME, [2, 2, 5])[1] == 0


def test_a_shared_beginning_stays_as_long_as_one_conversation_with_it() -> None:
    cache = kept(cache_of(entries=2), [1, 2, 3, 4], [1, 2, 5, 6], [8, 8])
    assert cache.size_bytes == 6 * TOKEN_BYTES
    assert cache.fetch(ME, [1, 2, 3, 4, 7])[1] == 2
    kept(cache, [9, 9], [7, 7])
    assert cache.fetch(ME, [1, 2, 3, 4, 7])[1] == 0
    assert cache.size_bytes == 4 * TOKEN_BYTES


def test_the_limit_of_bytes_is_kept() -> None:
    cache = kept(cache_of(size=5 * TOKEN_BYTES), [1, 1], [2, 2], [3, 3])
    assert (len(cache), cache.size_bytes) == (2, 4 * TOKEN_BYTES)
    kept(cache, [4] * 9)
    assert (len(cache), cache.size_bytes) == (0, 0)


def test_replacing_and_clearing_count_right() -> None:
    cache = kept(cache_of(), [1, 2], [1, 2], [5])
    assert cache.size_bytes == 3 * TOKEN_BYTES
    cache.clear()
    assert (len(cache), cache.size_bytes) == (0, 0)


def test_a_window_is_kept_without_the_tokens_that_have_left_it() -> None:
    cache = kept(cache_of(), list(range(40)), make=windowed)
    # The second portion of the prompt leaves the rotating cache with 4 - 1 + 20 tokens.
    assert cache.size_bytes == (40 + 4) * TOKEN_BYTES
    found, count = cache.fetch(ME, list(range(41)))
    assert found is not None
    assert count == 40
    check(found, list(range(40)))


def test_a_cache_of_other_layers_than_the_ones_kept_is_not_kept() -> None:
    cache = kept(cache_of(), [1, 2, 3])
    cache.store(ME, [1, 2, 4], [*full([1, 2, 4]), *full([1, 2, 4])])
    assert cache.fetch(ME, [1, 2, 4, 5])[1] == 2


@pytest.mark.parametrize("heads", [1, 4])
def test_the_bytes_reported_are_the_bytes_held(heads: int) -> None:
    def cache_with(tokens: list[int]) -> list[Any]:
        part = KVCache()
        keys = mx.zeros((1, heads, len(tokens), 128))
        part.update_and_fetch(keys, keys)
        mx.eval(part.state)
        return [part]

    before = mx.get_active_memory()
    cache = cache_of(entries=40, size=1 << 40)
    system = list(range(2000))
    for number in range(6):
        cache.store(ME, [*system, 3000 + number, *range(500)], cache_with([0] * 2501))
    mx.synchronize()

    def check_bytes(arrays: int) -> None:
        held = mx.get_active_memory() - before
        # MLX does not copy arrays whose memory is up to 16 KB too large.
        assert abs(held - cache.size_bytes) <= arrays * (16 << 10), (held, cache.size_bytes)

    assert cache.size_bytes == 2 * heads * 128 * 4 * (2000 + 6 * 501)
    check_bytes(2 * 7)
    cache.shrink_to(1)
    assert cache.size_bytes == 2 * heads * 128 * 4 * 2501
    check_bytes(2 * 2)
    cache.clear()
    check_bytes(0)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_what_one_owner_keeps_is_neither_found_nor_measured_by_another(kind: str) -> None:
    cache, tokens = cache_of(), [1, 2, 3, 4, 5, 6]
    cache.store(ME, tokens, KINDS[kind](tokens))
    mine = cache.shares[ME]

    assert cache.fetch(ANOTHER, [*tokens, 7]) == (None, 0)
    assert (cache.usable(ANOTHER, [*tokens, 7]), cache.common(ANOTHER, [*tokens, 7])) == (0, 0)
    cache.store(ANOTHER, tokens, KINDS[kind](tokens))
    assert cache.shares == {ME: mine, ANOTHER: mine}
    assert cache.size_bytes == 2 * mine[1]
    cache.clear(ANOTHER)
    assert cache.shares == {ME: mine}
    assert cache.fetch(ME, [*tokens, 7])[1] == len(tokens)


# -- snapshots -----------------------------------------------------------------------------


def conversation(*ends: int) -> PrefixIndex:
    """Return a cache with a snapshot of one conversation at each of these places."""
    cache = PrefixIndex(8, 10**9, 4 * STATE_BYTES, is_cut_anywhere=False, has_segments=False)
    return kept(cache, *(list(range(end)) for end in ends), make=recurrent)


def test_of_too_many_snapshots_the_last_two_stay_and_some_all_along_the_conversation() -> None:
    cache = conversation(100, 110, 200, 300, 310, 320)
    assert cache.shares[ME] == (4, 4 * STATE_BYTES, 4 * STATE_BYTES)
    found = [cache.fetch(ME, [*range(end), 999])[1] for end in (105, 150, 250, 305, 315, 325)]
    assert found == [100, 100, 200, 200, 310, 320]


def test_snapshots_of_another_branch_do_not_count_for_the_limit_of_one() -> None:
    cache = conversation(100, 200)
    branch = list(range(1000, 1200))
    kept(cache, branch[:100], branch, [*branch, 7], make=recurrent)
    assert len(cache) == 5


def test_the_reason_for_reading_a_prompt_again_is_told() -> None:
    cache = conversation(100)
    assert cache.why_missing(ANOTHER, [1] * 50, 0) is CacheMiss.NOTHING_STORED
    assert cache.why_missing(ME, [7] * 50, 0) is CacheMiss.OTHER_BEGINNING
    assert cache.why_missing(ME, [*range(90), 7], 0) is CacheMiss.NO_SNAPSHOT
    assert cache.why_missing(ME, [*range(100), 7], 100) is None
    kept(cache, list(range(500, 600)), make=recurrent)
    cache.fetch(ME, [*range(500, 600), 7])
    cache.shrink_to(1)
    assert cache.why_missing(ME, [*range(100), 7], 0) is CacheMiss.EVICTED
    assert cache.why_missing(ANOTHER, [*range(100), 7], 0) is CacheMiss.NOTHING_STORED
    cache.clear(ME)
    assert cache.why_missing(ME, [*range(100), 7], 0) is CacheMiss.NOTHING_STORED


def test_what_is_on_disk_alone_is_told_where_it_was_not_read() -> None:
    cache = cache_of()
    cache.add_file(ME, key_of(range(100)), StoredFile("file", "a conversation", 0, 100))
    assert cache.why_missing(ME, [*range(100), 7], 0) is CacheMiss.ON_DISK
    assert cache.why_missing(ME, [*range(100), 7], 100) is None


def test_memory_and_disk_together_give_a_prefix() -> None:
    cache = kept(cache_of(), list(range(60)))
    cache.add_file(ME, key_of(range(100)), StoredFile("file", "a conversation", 0, 100))
    needed = cache.needed_from_disk(ME, [*range(100), 7])
    assert needed is not None
    # Only what memory lacks is read.
    assert [(file.name, begin, end) for file, begin, end in needed.files] == [("file", 60, 100)]
    segment, snapshot = taken_apart(full(list(range(100))), 100)
    read = segment.part(60, 100).compact()
    cache.install(LoadedPrefix(needed, ((read, 60, 100),), snapshot))
    found, count = cache.fetch(ME, [*range(100), 7])
    assert found is not None
    assert count == 100
    check(found, list(range(100)))
    assert cache.size_bytes == 100 * TOKEN_BYTES


def test_what_was_read_from_disk_is_not_used_without_what_memory_held_before_it() -> None:
    cache = kept(cache_of(), list(range(60)))
    segment, snapshot = taken_apart(full(list(range(100))), 100)
    read = segment.part(60, 100).compact()
    cache.clear()
    needed = DiskRead(ME, key_of(range(100)))
    cache.install(LoadedPrefix(needed, ((read, 60, 100),), snapshot))
    assert cache.fetch(ME, [*range(100), 7]) == (None, 0)
    assert cache.size_bytes == 0


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

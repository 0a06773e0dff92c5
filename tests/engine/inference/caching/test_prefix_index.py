"""The prefix index holds shared blocks once, finds the longest prefix, and keeps to its limits.

The caches are mlx-lm's own. Their keys are the token ids, so that they show their tokens.
"""

from collections.abc import Iterator
from typing import Any

import mlx.core as mx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mlx_lm.models.cache import ArraysCache, CacheList, KVCache, RotatingKVCache

from engine.inference.cache import index as index_module
from engine.inference.cache.index import PrefixIndex, block_hash, file_key, key_of, root_hash
from engine.inference.cache.prompt_cache import STRIDE, PromptCache
from engine.inference.cache.segments import split_cache
from engine.values.events import CacheMiss
from engine.values.request import CacheOwner

# Keys and values of one layer: a number of 4 bytes each, for each token.
TOKEN_BYTES = 8
STATE_BYTES = 4

ME, ANOTHER = "me", "another"


def append(part: Any, tokens: list[int]) -> Any:
    ids = mx.array(tokens, mx.float32).reshape(1, 1, -1, 1)
    part.update_and_fetch(ids, -ids)
    return part


def full(tokens: list[int]) -> list[Any]:
    return [append(KVCache(), tokens)]


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
    return [append(KVCache(), tokens), state(tokens), CacheList(state(tokens), *full(tokens))]


def windowed(tokens: list[int]) -> list[Any]:
    """Return a cache with a window of four tokens, read in two portions."""
    part = RotatingKVCache(max_size=4)
    half = len(tokens) // 2
    for portion in (tokens[:half], tokens[half:]):
        if portion:
            append(part, portion)
    return [append(KVCache(), tokens), part]


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


TOKENS = st.lists(st.integers(0, 2), min_size=1, max_size=12)
BLOCK = 4


@pytest.fixture(autouse=True, scope="module")
def short_blocks() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(index_module, "BLOCK_TOKENS", BLOCK)
        yield


def index_of(kind: str = "full", size: int = 10**9) -> PrefixIndex:
    return PrefixIndex(KINDS[kind]([0]), size)


def stored(index: PrefixIndex, *sequences: list[int], kind: str = "full") -> PrefixIndex:
    for tokens in sequences:
        index.store(ME, tokens, KINDS[kind](tokens))
    return index


def common(one: list[int], other: list[int]) -> int:
    count = 0
    while count < min(len(one), len(other)) and one[count] == other[count]:
        count += 1
    return count


def block_bytes(*sequences: list[int]) -> int:
    """Return the bytes of the blocks of some prompts of one layer, each block once."""
    starts = {
        tuple(tokens[: min(end, len(tokens))])
        for tokens in sequences
        for end in range(BLOCK, len(tokens) + BLOCK, BLOCK)
    }
    return sum(((len(start) - 1) % BLOCK + 1) * TOKEN_BYTES for start in starts)


@settings(deadline=None)
@given(st.lists(TOKENS, max_size=6), TOKENS, st.sampled_from(sorted(KINDS)))
def test_fetch_returns_the_longest_usable_prefix_and_nothing_else(
    sequences: list[list[int]], prompt: list[int], kind: str
) -> None:
    index = stored(index_of(kind), *sequences, kind=kind)
    found, count, _ = index.fetch(ME, prompt)

    def usable(held: list[int]) -> int:
        shared = min(common(held, prompt), len(prompt) - 1)
        return shared if kind == "full" or shared == len(held) else 0

    assert count == max((usable(held) for held in sequences), default=0)
    if found is None:
        assert count == 0
    else:
        check(found, prompt[:count])
        assert index.count_common(ME, prompt) >= count


@settings(deadline=None)
@given(
    st.lists(st.tuples(TOKENS, st.booleans()), max_size=25),
    st.sampled_from(sorted(KINDS)),
    st.integers(0, 40 * TOKEN_BYTES),
)
def test_eviction_keeps_the_limit_and_fetched_caches_stay_right(
    steps: list[tuple[list[int], bool]], kind: str, size: int
) -> None:
    index = index_of(kind, size)
    for tokens, is_stored in steps:
        if is_stored:
            index.store(ME, tokens, KINDS[kind](tokens))
            index.shrink_to()
        else:
            found, count, _ = index.fetch(ME, tokens)
            if found is not None:
                check(found, tokens[:count])
                # Writing into a cache that was fetched changes nothing that is stored.
                for part in found:
                    if isinstance(part, KVCache):
                        append(part, [9])
        assert index.size_bytes <= size
    index.shrink_to(0)
    assert (len(index), index.size_bytes, index.usage) == (0, 0, {})
    assert index.count_common(ME, [0, 1, 2]) == 0


def test_the_prompt_used_last_is_evicted_last_with_all_its_blocks() -> None:
    used, unused = list(range(3 * BLOCK)), list(range(100, 100 + 3 * BLOCK))
    index = stored(index_of(), used, unused)
    assert index.fetch(ME, [*used, 7])[1] == len(used)
    index.shrink_to(size_bytes=block_bytes(used))
    assert index.fetch(ME, [*used, 7])[1] == len(used)
    assert index.fetch(ME, [*unused, 7])[1] == 0


@pytest.mark.parametrize("kind", ["full", "mixed"])
def test_shared_blocks_are_held_once(kind: str) -> None:
    system = list(range(1000))
    prompts = [[*system, 2000 + n, 7] for n in range(8)]
    index = stored(index_of(kind), *prompts, kind=kind)
    layers, snapshots = (1, 0) if kind == "full" else (2, 8 * 2 * STATE_BYTES)
    assert index.size_bytes == layers * block_bytes(*prompts) + snapshots
    found, count, _ = index.fetch(ME, [*prompts[3], 8])
    assert found is not None
    assert count == 1002
    check(found, prompts[3])


def test_a_window_is_held_without_the_tokens_that_have_left_it() -> None:
    tokens = list(range(40))
    index = stored(index_of("windowed"), tokens, kind="windowed")
    # The second portion of the prompt leaves the rotating cache with 4 - 1 + 20 tokens.
    assert index.size_bytes == (40 + 4) * TOKEN_BYTES
    found, count, _ = index.fetch(ME, [*tokens, 7])
    assert found is not None
    assert count == 40
    check(found, tokens)


def test_reported_bytes_are_the_bytes_held() -> None:
    heads = 4

    def cache_with(count: int) -> list[Any]:
        part = KVCache()
        keys = mx.zeros((1, heads, count, 128))
        part.update_and_fetch(keys, keys)
        mx.eval(part.state)
        return [part]

    before = mx.get_active_memory()
    index = PrefixIndex([KVCache()], 1 << 40)
    system = list(range(2048))
    for number in range(6):
        index.store(ME, [*system, 3000 + number, *range(511)], cache_with(2560))
    mx.synchronize()

    def check_bytes(arrays: int) -> None:
        held = mx.get_active_memory() - before
        # MLX does not copy arrays whose memory is up to 16 KB too large.
        assert abs(held - index.size_bytes) <= arrays * (16 << 10), (held, index.size_bytes)

    assert index.size_bytes == 2 * heads * 128 * 4 * (2048 + 6 * 512)
    check_bytes(2 * 20)
    index.clear()
    check_bytes(0)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_prompts_of_one_owner_are_neither_found_nor_counted_for_another(kind: str) -> None:
    index, tokens = index_of(kind), [1, 2, 3, 4, 5, 6]
    index.store(ME, tokens, KINDS[kind](tokens))
    mine = index.usage[ME]

    assert index.fetch(ANOTHER, [*tokens, 7]) == (None, 0, 0)
    assert index.count_common(ANOTHER, [*tokens, 7]) == 0
    index.store(ANOTHER, tokens, KINDS[kind](tokens))
    assert index.usage == {ME: mine, ANOTHER: mine}
    assert index.size_bytes == 2 * mine.size_bytes
    index.clear(ANOTHER)
    assert index.usage == {ME: mine}
    assert index.fetch(ME, [*tokens, 7])[1] == len(tokens)


# -- snapshots -----------------------------------------------------------------------------


def test_cache_miss_names_its_reason() -> None:
    index = stored(index_of("recurrent"), list(range(100)), kind="recurrent")
    assert index.why_missing(ANOTHER, [1] * 50, 0) is CacheMiss.NOTHING_STORED
    assert index.why_missing(ME, [7] * 50, 0) is CacheMiss.OTHER_BEGINNING
    assert index.why_missing(ME, [*range(90), 7], 0) is CacheMiss.NO_SNAPSHOT
    assert index.why_missing(ME, [*range(100), 7], 100) is None
    stored(index, list(range(500, 600)), kind="recurrent")
    index.shrink_to(1)
    assert index.why_missing(ME, [*range(100), 7], 0) is CacheMiss.EVICTED
    assert index.why_missing(ANOTHER, [*range(100), 7], 0) is CacheMiss.NOTHING_STORED
    index.clear(ME)
    assert index.why_missing(ME, [*range(100), 7], 0) is CacheMiss.NOTHING_STORED


def test_files_add_to_memory_what_it_lacks() -> None:
    index, tokens = stored(index_of(), list(range(8))), list(range(40))
    files, own = {}, root_hash(ME)
    for begin in range(0, 40, BLOCK):
        own = block_hash(own, key_of(tokens[begin : begin + BLOCK]))
        files[file_key(own)] = f"{begin}"
    parts, added = index.find_files(ME, [*tokens, 7], files)
    assert [part.name for part in parts] == [str(begin) for begin in range(8, 40, BLOCK)]
    assert added == 32
    read = [
        (part, *split_cache(full(tokens[part.start : part.start + BLOCK]), BLOCK)) for part in parts
    ]
    index.hold_read(ME, read, added)
    found, count, from_disk = index.fetch(ME, [*tokens, 7])
    assert found is not None
    assert (count, from_disk) == (40, 32)
    check(found, tokens)
    assert index.size_bytes == 40 * TOKEN_BYTES
    assert index.fetch(ME, [*tokens, 7])[1:] == (40, 0)


@pytest.mark.parametrize("kind", ["mixed", "windowed"])
def test_long_prompt_keeps_a_beginning_that_can_be_continued(kind: str) -> None:
    tokens, fits = list(range(80)), 12 * BLOCK
    index = index_of(kind, stored(index_of(kind), tokens[:fits], kind=kind).size_bytes)
    for end in range(2 * BLOCK, len(tokens), 2 * BLOCK):
        stored(index, tokens[:end], kind=kind).shrink_to()
    found, count, _ = index.fetch(ME, tokens)
    assert found is not None
    assert count >= fits - 2 * BLOCK
    check(found, tokens[:count])


@pytest.mark.parametrize("kind", ["mixed", "windowed"])
def test_newest_snapshot_outlives_earlier_ones_while_its_blocks_fit(kind: str) -> None:
    tokens = list(range(10 * BLOCK))
    index = index_of(kind, stored(index_of(kind), tokens, kind=kind).size_bytes)
    for end in range(2 * BLOCK, len(tokens) + 1, 2 * BLOCK):
        stored(index, tokens[:end], kind=kind).shrink_to()
    assert index.fetch(ME, [*tokens, 7])[1] == len(tokens)


def test_snapshots_are_taken_less_often_where_memory_is_small() -> None:
    fresh = [ArraysCache(2), KVCache()]
    cache = PromptCache(fresh, 1 << 30)
    assert [*cache.snapshot_positions(2000, 100)] == [100 + STRIDE * n for n in (1, 2, 3)]
    small = PromptCache(fresh, 8 * STATE_BYTES)
    tokens = [1, 2, 3]
    small.keep(CacheOwner(ME), None, [state(tokens), *full(tokens)], tokens)
    assert [*small.snapshot_positions(8000, 0)] == [2000, 4000, 6000]

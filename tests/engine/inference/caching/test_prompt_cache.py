"""The prompt cache finds the longest common beginning and keeps to its limits."""

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.inference.caching.prompt_cache import PromptCache


class Part:
    """A cache that holds tokens, as a model's does."""

    def __init__(self, tokens: list[int], *, can_trim: bool = True) -> None:
        self.tokens = list(tokens)
        self.can_trim = can_trim

    @property
    def nbytes(self) -> int:
        return 10 * len(self.tokens)


def can_trim(cache: list[Any]) -> bool:
    return all(part.can_trim for part in cache)


def trim(cache: list[Any], count: int) -> None:
    for part in cache:
        del part.tokens[len(part.tokens) - count :]


def cache_of(entries: int = 8, size: int = 10**9) -> PromptCache:
    return PromptCache(entries, size, can_trim, trim)


def kept(cache: PromptCache, *sequences: list[int], is_trimmable: bool = True) -> PromptCache:
    for tokens in sequences:
        cache.keep(tokens, [Part(tokens, can_trim=is_trimmable)])
    return cache


TOKENS = st.lists(st.integers(0, 2), max_size=12)


@settings(deadline=None)
@given(st.lists(TOKENS.filter(bool), max_size=6), TOKENS.filter(bool), st.booleans())
def test_the_most_that_helps_is_found_and_holds_just_the_beginning(
    sequences: list[list[int]], prompt: list[int], is_trimmable: bool
) -> None:
    cache = kept(cache_of(), *sequences, is_trimmable=is_trimmable)
    found, count = cache.fetch(prompt)

    def usable(held: list[int]) -> int:
        common = 0
        while common < min(len(held), len(prompt) - 1) and held[common] == prompt[common]:
            common += 1
        return common if is_trimmable or common == len(held) else 0

    assert count == max((usable(held) for held in sequences), default=0)
    if found is None:
        assert count == 0
    else:
        assert [part.tokens for part in found] == [prompt[:count]]


def test_what_is_fetched_is_a_copy() -> None:
    cache = kept(cache_of(), [1, 2, 3])
    first, _ = cache.fetch([1, 2, 3, 4])
    assert first is not None
    first[0].tokens.append(9)
    again, _ = cache.fetch([1, 2, 3, 4])
    assert again is not None
    assert again[0].tokens == [1, 2, 3]


def test_what_a_longer_one_holds_as_well_is_not_kept_twice() -> None:
    assert len(kept(cache_of(), [1], [1, 2], [1, 2, 3], [1, 2, 3])) == 1
    # One that cannot be cut back does not stand in for a shorter one.
    assert len(kept(cache_of(), [1], [1, 2], is_trimmable=False)) == 2


def test_the_one_that_was_used_longest_ago_goes_first() -> None:
    cache = kept(cache_of(entries=2), [1, 1], [2, 2])
    cache.fetch([1, 1, 5])
    kept(cache, [3, 3])
    assert cache.fetch([1, 1, 5])[1] == 2
    assert cache.fetch([2, 2, 5])[1] == 0


def test_no_more_bytes_are_kept_than_may_be() -> None:
    cache = kept(cache_of(size=50), [1, 1], [2, 2], [3, 3])
    assert (len(cache), cache.size_bytes) == (2, 40)
    kept(cache, [4] * 9)
    assert (len(cache), cache.size_bytes) == (0, 0)


def test_replacing_and_clearing_count_right() -> None:
    cache = kept(cache_of(), [1, 2], [1, 2], [5])
    assert cache.size_bytes == 30
    cache.clear()
    assert (len(cache), cache.size_bytes) == (0, 0)


def test_a_few_tokens_are_no_reason_to_copy_a_long_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    cache = kept(cache_of(), [7] * 5 + list(range(100_000)))
    monkeypatch.setattr(copy, "deepcopy", lambda _: pytest.fail("copied"))
    assert cache.fetch([7] * 5 + [1, 2, 3]) == (None, 0)

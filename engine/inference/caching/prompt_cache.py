"""Keeps the model's caches of earlier turns, so that the next turn reads only what is new.

Knows nothing of what is inside a cache; the backend trims it. Finding the best entry takes one
comparison for each entry, however long it is. Engine thread.
"""

import copy
from array import array
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

_BYTES = array("I").itemsize
# Copying a long cache for a few tokens takes longer than reading the tokens.
_WORTH_TOKENS = 64
_WORTH_SHARE = 64


@dataclass(frozen=True, slots=True)
class _Entry:
    cache: list[Any]
    size_bytes: int


class PromptCache:
    """Caches by their tokens; the least recently used goes first.

    Args:
        most_entries: Most caches that are kept.
        most_bytes: Most bytes of all together.
        can_trim: Says whether a cache can be trimmed to fewer tokens.
        trim: Removes a number of tokens from a cache's end, in place.
    """

    def __init__(
        self,
        most_entries: int,
        most_bytes: int,
        can_trim: Callable[[list[Any]], bool],
        trim: Callable[[list[Any], int], object],
    ) -> None:
        self._most_entries = most_entries
        self._most_bytes = most_bytes
        self._can_trim = can_trim
        self._trim = trim
        self._kept: OrderedDict[bytes, _Entry] = OrderedDict()
        self.size_bytes = 0

    def __len__(self) -> int:
        """Return the number of entries."""
        return len(self._kept)

    def fetch(self, tokens: Sequence[int]) -> tuple[list[Any] | None, int]:
        """Return a copy of the cache with the longest common beginning, and its number of tokens.

        At least one token of the prompt is left to be read, as mlx-lm requires.
        """
        wanted = _key(tokens)
        best, most = None, 0
        for key, entry in self._kept.items():
            common = min(_common(key, wanted), len(tokens) - 1)
            held = len(key) // _BYTES
            if common <= most or not _is_worth_it(common, held):
                continue
            if common == held or self._can_trim(entry.cache):
                best, most = key, common
        if best is None:
            return None, 0
        self._kept.move_to_end(best)
        found = copy.deepcopy(self._kept[best].cache)
        if surplus := len(best) // _BYTES - most:
            self._trim(found, surplus)
        return found, most

    def keep(self, tokens: Sequence[int], cache: list[Any]) -> None:
        """Keep a cache; drop those that it replaces, and the oldest until the rest fits."""
        key = _key(tokens)
        self._drop(key)
        if self._can_trim(cache):
            for other in [one for one in self._kept if key.startswith(one)]:
                self._drop(other)
        entry = _Entry(cache, sum(part.nbytes for part in cache))
        self._kept[key] = entry
        self.size_bytes += entry.size_bytes
        while len(self._kept) > self._most_entries or self.size_bytes > self._most_bytes:
            self._drop(next(iter(self._kept)))

    def shrink_to(self, entries: int) -> None:
        """Keep only so many entries, the most recently used ones."""
        while len(self._kept) > entries:
            self._drop(next(iter(self._kept)))

    def clear(self) -> None:
        """Keep nothing."""
        self._kept.clear()
        self.size_bytes = 0

    def _drop(self, key: bytes) -> None:
        entry = self._kept.pop(key, None)
        if entry is not None:
            self.size_bytes -= entry.size_bytes


def _key(tokens: Sequence[int]) -> bytes:
    return array("I", tokens).tobytes()


def _is_worth_it(common: int, held: int) -> bool:
    return common > 0 and (common >= _WORTH_TOKENS or common * _WORTH_SHARE >= held)


def _common(one: bytes, other: bytes) -> int:
    """Return how many tokens two sequences begin with together."""
    low, high = 0, min(len(one), len(other)) // _BYTES
    # Comparing bytes is fast, so that a binary search beats a loop by far.
    while low < high:
        middle = (low + high + 1) // 2
        part = slice(low * _BYTES, middle * _BYTES)
        if one[part] == other[part]:
            low = middle
        else:
            high = middle - 1
    return low

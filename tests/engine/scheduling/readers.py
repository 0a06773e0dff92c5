"""Readers of answers that note when they are woken, by a made-up clock."""

import asyncio
import itertools
from typing import Any


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now

    perf_counter = monotonic


class Reader:
    """A generation that notes when it was woken, after its beginning; it reads at once."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock) -> None:
        self.loop = loop
        self._clock = clock
        self._is_woken = False
        self.woken_at = [clock.now]

    def push(self, events: Any) -> bool:
        is_first, self._is_woken = not self._is_woken, True
        return is_first

    def wake(self) -> None:
        self._is_woken = False
        self.woken_at.append(self._clock.now)

    @property
    def woken(self) -> int:
        return len(self.woken_at) - 1

    @property
    def longest_s(self) -> float:
        times = [*self.woken_at, self._clock.now]
        return max(after - before for before, after in itertools.pairwise(times))

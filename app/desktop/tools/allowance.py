"""Limits how much a tool server may send: an initial amount, then an amount per second. Pure."""

import time
from collections.abc import Callable


class Flooding(Exception):
    """A server sends too much; the message says what, as the end of a sentence."""


class Allowance:
    """A budget that refills with time, up to a maximum."""

    def __init__(
        self,
        at_once: int,
        per_s: int,
        words: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._most = self._left = float(at_once)
        self._per_s = per_s
        self._words = words
        self._clock = clock
        self._seen_s = clock()

    def take(self, amount: int) -> None:
        """Count what arrived; raise ``Flooding`` if it is too much."""
        now_s = self._clock()
        self._left = min(self._most, self._left + (now_s - self._seen_s) * self._per_s)
        self._seen_s = now_s
        self._left -= amount
        if self._left < 0:
            raise Flooding(self._words)

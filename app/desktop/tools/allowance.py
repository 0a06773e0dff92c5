"""How much a tool server may send: so much at once, and then so much a second. Pure."""

import time
from collections.abc import Callable


class Flooding(Exception):
    """A server sends more than any server needs to; the message says what, as a sentence's end."""


class Allowance:
    """Refills with time, up to what may come at once.

    Args:
        at_once: What may come at once.
        per_s: What may come each second after that.
        words: What is said of a server that sends more, as the end of a sentence.
        clock: Returns the time in seconds.
    """

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
        """Note what came; raises ``Flooding`` where it is too much."""
        now_s = self._clock()
        self._left = min(self._most, self._left + (now_s - self._seen_s) * self._per_s)
        self._seen_s = now_s
        self._left -= amount
        if self._left < 0:
            raise Flooding(self._words)

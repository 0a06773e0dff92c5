"""Gives turns on the engine thread to several models: each gets the same share of time.

Pure; knows no model.
"""

from collections.abc import Sequence
from typing import Generic, TypeVar

T = TypeVar("T")


class Turns(Generic[T]):
    """Gives turns by the time that each has used, not by the number of turns.

    A model whose steps take ten times as long gets a tenth of the steps, so a small model stays
    fast beside a large one. A model that was idle gets no extra time for that.
    """

    def __init__(self) -> None:
        self._spent_s: dict[T, float] = {}
        self._busy: Sequence[T] = ()
        self._clock_s = 0.0

    def next(self, busy: Sequence[T]) -> T:
        """Return whose turn it is, among those that have something to do; at least one."""
        for one in busy:
            if one not in self._busy:
                self._spent_s[one] = max(self._spent_s.get(one, 0.0), self._clock_s)
        self._busy = busy
        chosen = min(busy, key=self._spent_s.__getitem__)
        self._clock_s = self._spent_s[chosen]
        return chosen

    def took(self, one: T, duration_s: float) -> None:
        """Note how long a turn took."""
        self._spent_s[one] += duration_s

    def rest(self) -> None:
        """Note that nobody has anything to do."""
        self._busy = ()

    def forget(self, one: T) -> None:
        """Forget one that will not come back."""
        self._spent_s.pop(one, None)
        self._busy = [other for other in self._busy if other != one]

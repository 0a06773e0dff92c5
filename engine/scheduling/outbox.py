"""Wakes the readers of answers in batches. Engine thread only.

A wake-up costs both threads some tens of microseconds and the interpreter's lock, so there are at
most fifty a second. The first and the last event of an answer do not wait.
"""

import asyncio
import time
from collections.abc import Iterable

from engine.generation import Generation
from engine.values.events import Event, Finished

WAKE_UP_INTERVAL_S = 0.02


class Outbox:
    """Collects the readers to be woken and wakes them together."""

    def __init__(self) -> None:
        self.is_urgent = False
        self.running: set[Generation] = set()
        self._due: dict[asyncio.AbstractEventLoop, list[Generation]] = {}
        self._delivered_at = 0.0
        self._unreachable: list[Generation] = []

    def put(
        self, generation: Generation, events: Iterable[Event], *, is_urgent: bool = False
    ) -> None:
        """Push events to a reader; the next delivery wakes it, without delay if it is urgent."""
        if generation.push(events):
            self._due.setdefault(generation.loop, []).append(generation)
        # A reader that was woken and has not read yet needs no other wake-up.
        self.is_urgent = self.is_urgent or (is_urgent and bool(self._due))

    def finish(self, generation: Generation, events: Iterable[Event], end: Finished) -> None:
        self.running.discard(generation)
        self.put(generation, [*events, end], is_urgent=True)

    def deliver(self, *, is_forced: bool = False) -> None:
        """Wake the readers, unless the last wake-up was a moment ago and nothing is urgent."""
        if not self._due:
            return
        now_s = time.monotonic()
        is_due = now_s - self._delivered_at >= WAKE_UP_INTERVAL_S
        if not (is_forced or self.is_urgent or is_due):
            return
        self._delivered_at = now_s
        self.is_urgent = False
        due, self._due = self._due, {}
        for loop, generations in due.items():
            try:
                loop.call_soon_threadsafe(_wake, generations)
            except RuntimeError:  # the loop is closed
                self._unreachable.extend(generations)

    def take_unreachable(self) -> list[Generation]:
        """Return the answers whose readers' loops were found closed."""
        unreachable, self._unreachable = self._unreachable, []
        return unreachable


def _wake(generations: list[Generation]) -> None:
    for generation in generations:
        generation.wake()

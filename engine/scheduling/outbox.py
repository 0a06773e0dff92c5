"""Wakes the readers of answers in batches. Engine thread only."""

import asyncio
from collections.abc import Iterable

from engine.generation import Generation
from engine.values.events import Event, Finished


class Outbox:
    """Collects the readers to be woken and wakes them together.

    Each wake-up costs both threads some tens of microseconds and the interpreter's lock, so the
    events of a step wait with their sequences until ``is_urgent``, or until the next interval.
    """

    def __init__(self) -> None:
        self.running: set[Generation] = set()
        self.is_urgent = False
        # A reader that was woken and has not read yet needs no other wake-up.
        self._due: dict[asyncio.AbstractEventLoop, list[Generation]] = {}

    def put(
        self, generation: Generation, events: Iterable[Event], *, is_urgent: bool = False
    ) -> None:
        """Give a reader events; urgent ones take the waiting events of all others with them."""
        self.is_urgent |= is_urgent
        if generation.push(events):
            self._due.setdefault(generation.loop, []).append(generation)

    def finish(self, generation: Generation, events: Iterable[Event], end: Finished) -> None:
        self.running.discard(generation)
        self.put(generation, [*events, end], is_urgent=True)

    def deliver(self) -> None:
        due, self._due = self._due, {}
        self.is_urgent = False
        for loop, generations in due.items():
            try:
                loop.call_soon_threadsafe(_wake, generations)
            except RuntimeError:  # the loop is closed
                for generation in generations:
                    generation.cancel()


def _wake(generations: list[Generation]) -> None:
    for generation in generations:
        generation.wake()

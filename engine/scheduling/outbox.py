"""Wakes the readers of answers in batches. Engine thread only."""

import asyncio
from collections.abc import Iterable

from engine.generation import Generation
from engine.values.events import Event, Finished


class Outbox:
    """Collects the readers to be woken and wakes them together."""

    def __init__(self) -> None:
        self.running: set[Generation] = set()
        # A reader that was woken and has not read yet needs no other wake-up.
        self.due: dict[asyncio.AbstractEventLoop, list[Generation]] = {}

    def put(self, generation: Generation, events: Iterable[Event]) -> None:
        if generation.push(events):
            self.due.setdefault(generation.loop, []).append(generation)

    def finish(self, generation: Generation, events: Iterable[Event], end: Finished) -> None:
        self.running.discard(generation)
        self.put(generation, [*events, end])

    def deliver(self) -> None:
        due, self.due = self.due, {}
        for loop, generations in due.items():
            try:
                loop.call_soon_threadsafe(_wake, generations)
            except RuntimeError:  # the loop is closed
                for generation in generations:
                    generation.cancel()


def _wake(generations: list[Generation]) -> None:
    for generation in generations:
        generation.wake()

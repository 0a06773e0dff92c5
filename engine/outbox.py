"""Carries events from the engine thread to the readers' loops, one wake-up a loop a step."""

import asyncio
from collections.abc import Iterable

from engine.events import Event
from engine.generation import Generation


class Outbox:
    """Collects the readers to be woken and wakes them together. Engine thread only."""

    def __init__(self) -> None:
        self._due: dict[asyncio.AbstractEventLoop, list[Generation]] = {}

    def put(self, generation: Generation, events: Iterable[Event]) -> None:
        """Hand events to a reader, to be woken at the next flush."""
        if generation.push(events):
            self._due.setdefault(generation.loop, []).append(generation)

    def flush(self) -> list[Generation]:
        """Wake the readers; return those whose loop is closed, who will never read again."""
        if not self._due:
            return []
        due, self._due = self._due, {}
        gone: list[Generation] = []
        for loop, generations in due.items():
            try:
                loop.call_soon_threadsafe(_wake, generations)
            except RuntimeError:
                gone.extend(generations)
        return gone


def _wake(generations: list[Generation]) -> None:
    for generation in generations:
        generation.wake()


def settle(generation: Generation, refusal: Exception | None) -> None:
    """Report acceptance or refusal of a request to its reader."""
    try:
        generation.loop.call_soon_threadsafe(generation.settle, refusal)
    except RuntimeError:
        # Nobody is left to read; the first flush will notice and cancel.
        return

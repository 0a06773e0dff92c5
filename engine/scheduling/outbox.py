"""What goes back to readers: their events, bundled, and failures in words."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Iterable
from pathlib import Path

from engine.errors import EngineError
from engine.files.causes import without_folders
from engine.scheduling.generation import Generation
from engine.values.events import Event

# Exceptions that ask the thread to end are raised again; a panic of a native library ends only
# the requests that caused it.

_log = logging.getLogger(__name__)
# These ask the thread to end. Other exceptions that are not an ``Exception`` are native panics.
_ENDINGS = (SystemExit, KeyboardInterrupt, GeneratorExit)


def raise_endings(error: BaseException) -> None:
    """Raise an exception again if it asks the thread to end."""
    if isinstance(error, _ENDINGS):
        raise error


def refusal(error: BaseException) -> EngineError:
    """Return the error to raise for the caller of a request that failed.

    Raises exceptions again that ask the thread to end; a panic of a native library is not one.
    """
    raise_endings(error)
    if isinstance(error, EngineError):
        return error
    _log.exception("a request could not be prepared", exc_info=error)
    return EngineError(f"the request could not be prepared: {cause_of(error)}")


def log_failure(what: str, error: BaseException) -> None:
    """Write a failure into the log."""
    cause = None if isinstance(error, EngineError) else error
    _log.error("%s: %s", what, error, exc_info=cause)


def cause_of(error: BaseException, *folders: Path) -> str:
    """Return an exception as text that begins with its type and names no folder of this
    computer.
    """
    said = without_folders(str(error), *folders)
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


# A wake-up costs both threads some tens of microseconds and the interpreter's lock. A small model
# decodes faster than a person reads, so wake-ups are at least 15 milliseconds apart, and more
# with many readers, because each reader adds to the cost. The first and the last event of an
# answer do not wait. Each batch gathers the text of its answers at that pace by a clock of its
# own: what other readers are told in between does not set it back.

_MIN_S, _MAX_S, _READER_S = 0.015, 0.03, 0.002


def wake_up_distance_s(readers: int) -> float:
    """Return how many seconds the wake-ups of this many readers are apart."""
    return min(_MAX_S, max(_MIN_S, readers * _READER_S))


class Outbox:
    """Collects the readers to be woken and wakes them together. Engine thread only."""

    def __init__(self) -> None:
        self.is_urgent = False
        self._due: dict[asyncio.AbstractEventLoop, list[Generation]] = {}
        self._flushed_at = 0.0
        self._gone: list[Generation] = []

    def put(
        self, generation: Generation, events: Iterable[Event], *, is_urgent: bool = False
    ) -> None:
        """Push events to a reader; the next flush wakes it, without delay if it is urgent."""
        if generation.push(events):
            self._due.setdefault(generation.loop, []).append(generation)
        # A reader that was woken and has not read yet needs no other wake-up.
        self.is_urgent = self.is_urgent or (is_urgent and bool(self._due))

    def deliver(self, *, is_forced: bool = False) -> None:
        """Wake the readers, unless the last wake-up was a moment ago and nothing is urgent."""
        if not self._due:
            return
        now_s = time.monotonic()
        if not (is_forced or self.is_urgent):
            readers = sum(map(len, self._due.values()))
            if now_s - self._flushed_at < wake_up_distance_s(readers):
                return
        self._flushed_at = now_s
        self.is_urgent = False
        due, self._due = self._due, {}
        for loop, generations in due.items():
            try:
                loop.call_soon_threadsafe(_wake, generations)
            except RuntimeError:
                self._gone.extend(generations)

    def flush(self, *, is_forced: bool = False) -> list[Generation]:
        """Deliver what is due."""
        self.deliver(is_forced=is_forced)
        gone, self._gone = self._gone, []
        return gone


def _wake(generations: list[Generation]) -> None:
    for generation in generations:
        generation.wake()


def settle(generations: Iterable[Generation], refusal: Exception | None) -> None:
    """Report acceptance or refusal of a request to the readers of its choices."""
    for generation in generations:
        # If the loop is closed, nobody reads any more; the first flush notices that and cancels.
        with contextlib.suppress(RuntimeError):
            generation.loop.call_soon_threadsafe(generation.settle, refusal)

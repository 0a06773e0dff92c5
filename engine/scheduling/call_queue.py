"""The queue of the engine thread: calls to run between steps, and answers to cancel."""

import contextlib
import queue
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from typing import Any

from engine.generation import Generation


def settle(future: "Future[Any]", outcome: object) -> None:
    """Set a future's result, or its exception, unless it is done or was cancelled. Any thread."""
    with contextlib.suppress(InvalidStateError):
        if isinstance(outcome, BaseException):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)


class CallQueue:
    """Calls with ``Models``, and cancels, for the engine thread; cancels overtake. Any thread."""

    def __init__(self) -> None:
        self.is_closing = False
        self._calls: queue.SimpleQueue[Callable[[Any], object] | None] = queue.SimpleQueue()
        self._cancelled: deque[Generation] = deque()

    def call_soon(self, call: Callable[[Any], object]) -> None:
        """Run a call on the engine thread, after those before it."""
        self._calls.put(call)

    def cancel(self, generation: Generation) -> None:
        self._cancelled.append(generation)
        self.wake()

    def wake(self) -> None:
        self._calls.put(None)

    def take_cancelled(self) -> list[Generation]:
        cancelled: list[Generation] = []
        while self._cancelled:
            cancelled.append(self._cancelled.popleft())
        return cancelled

    def next(self, timeout_s: float | None) -> Callable[[Any], object] | None:
        """Return the next call, None for a wake-up; raises ``queue.Empty`` if none came in time."""
        return self._calls.get(timeout=timeout_s)

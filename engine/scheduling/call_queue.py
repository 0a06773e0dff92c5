"""The queue of the engine thread: calls to run between steps, and answers to cancel."""

import contextlib
import queue
import threading
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
    """Calls with ``Models``, and cancels, for the engine thread; cancels overtake. Any thread.

    Attributes:
        calls: Run on the engine thread, one after the other; None only wakes it.
        futures: Those of all jobs that are not done.
    """

    def __init__(self) -> None:
        self.calls: queue.SimpleQueue[Callable[[Any], object] | None] = queue.SimpleQueue()
        self.futures: set[Future[Any]] = set()
        self.is_open = True
        self.is_closing = False
        self._lock = threading.Lock()
        self._cancelled: deque[Generation] = deque()

    def post(self, future: "Future[Any]", call: Callable[[Any], object]) -> bool:
        """Run a call that settles a future; return False if the thread takes none any more."""
        with self._lock:
            if not self.is_open:
                return False
            self.futures.add(future)
        future.add_done_callback(self._on_done)
        self.calls.put(call)
        return True

    def _on_done(self, future: "Future[Any]") -> None:
        self.futures.discard(future)
        if future.cancelled():
            self.calls.put(lambda models: models.drop_cancelled())

    def close(self) -> None:
        with self._lock:
            self.is_open = False

    def cancel(self, generation: Generation) -> None:
        self._cancelled.append(generation)
        self.calls.put(None)

    def take_cancelled(self) -> list[Generation]:
        cancelled: list[Generation] = []
        while self._cancelled:
            cancelled.append(self._cancelled.popleft())
        return cancelled

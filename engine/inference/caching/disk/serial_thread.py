"""A thread that does one task after the other; it starts with the first task. Any thread."""

import contextlib
import os
import queue
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")

_Work = Callable[[], None]
# The niceness of a patient thread, on systems where a single thread can have one.
_NICE = 10


class SerialThread:
    """Does work in the order in which it was given."""

    def __init__(self, name: str, leave: Callable[[], None], *, is_patient: bool = False) -> None:
        self._name = name
        self._leave = leave
        self._is_patient = is_patient
        self._work: queue.SimpleQueue[_Work | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._is_closed = False

    def do(self, work: Callable[[], T]) -> "Future[T]":
        """Do work on the thread; return the future result, cancelled if the thread is closed."""
        future: Future[T] = Future()

        def run() -> None:
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(work())
                except BaseException as error:  # also panics of native libraries
                    future.set_exception(error)

        with self._lock:
            if self._is_closed:
                future.cancel()
                return future
            self._work.put(run)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()
        return future

    def close(self, patience_s: float) -> bool:
        """Take no more work and wait until the queue is empty; False if that takes too long."""
        with self._lock:
            self._is_closed = True
            thread = self._thread
            self._work.put(None)
        if thread is None:
            return True
        thread.join(patience_s)
        return not thread.is_alive()

    def _run(self) -> None:
        if self._is_patient and sys.platform == "linux":
            with contextlib.suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)
        while (work := self._work.get()) is not None:
            work()
        with contextlib.suppress(Exception):
            self._leave()

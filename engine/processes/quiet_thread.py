"""Native work at a low priority. Any thread."""

import contextlib
import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

_NICENESS = 10

T = TypeVar("T")


def done_quietly(work: Callable[[], T]) -> T:
    """Do work on a thread of low priority; return its result, or raise its exception.

    Only for native code that lets other threads run meanwhile: if it held the interpreter's lock,
    all threads would wait for one of low priority.

    Args:
        work: The work.
    """
    done: Future[T] = Future()

    def run() -> None:
        _give_way()
        try:
            done.set_result(work())
        except BaseException as error:
            done.set_exception(error)

    thread = threading.Thread(target=run, name="fullstop-quiet", daemon=True)
    thread.start()
    return done.result()


def _give_way() -> None:
    """Lower this thread's priority, where the system has one for each thread."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)

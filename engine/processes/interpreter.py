"""The running process: its garbage collector, its freed memory, work at a low priority."""

import contextlib
import ctypes
import gc
import os
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import TypeVar

# Pauses Python's cyclic garbage collector.

_lock = threading.Lock()
_pauses = 0
_threshold = 0


@contextlib.contextmanager
def collector_paused() -> Iterator[None]:
    """Pause the collector inside the block.

    An import makes hundreds of thousands of objects, and hardly any are garbage. This sets the
    threshold instead of turning the collector off and on: a window turns it off for good, perhaps
    during the pause, because it must not run on other threads, and turning it on at the end would
    undo that.
    """
    global _pauses, _threshold
    with _lock:
        if not _pauses:
            _threshold, *older = gc.get_threshold()
            gc.set_threshold(0, *older)
        _pauses += 1
    try:
        yield
    finally:
        with _lock:
            _pauses -= 1
            young, *older = gc.get_threshold()
            if not _pauses and not young:  # otherwise it was set elsewhere meanwhile
                gc.set_threshold(_threshold, *older)


# Gives memory that this process has freed back to the system.


def return_freed_memory() -> None:
    """Give freed memory, which the C library keeps, back to the system.

    Large answers leave holes between memory that is still used, and glibc never returns their pages
    by itself. Other threads that allocate wait meanwhile, some 20 ms for 100 MB.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):  # another C library
            ctypes.CDLL(None).malloc_trim(0)


# As glibc's malloc.h has them.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
# The largest that glibc takes.
_REUSED_BYTES = 32 << 20
_KEPT_BYTES = 128 << 20


def reuse_freed_memory() -> None:
    """Let large blocks come from memory that was freed before, until that is given back.

    glibc asks the system for each large block and gives it back at once. A new page is cleared when
    it is first touched, so that copying into new blocks takes four times as long: where 32 answers
    joined a batch, each running one waited 50 ms longer.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):  # another C library
            ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, _REUSED_BYTES)
            ctypes.CDLL(None).mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)


# Native work at a low priority.

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

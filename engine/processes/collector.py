"""Holds back Python's cyclic garbage collector. Any thread."""

import contextlib
import gc
import threading
from collections.abc import Iterator

_lock = threading.Lock()
_pauses = 0
_threshold = 0


@contextlib.contextmanager
def collector_paused() -> Iterator[None]:
    """Keep the collector from looking for garbage meanwhile.

    An import makes hundreds of thousands of objects, and hardly one of them is garbage. Works by
    the threshold: a window turns the collector off for good, maybe during the pause, because it
    may not run on other threads. Turning it on again at the end would undo that.
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
            if not _pauses and not young:  # else somebody has set another one meanwhile
                gc.set_threshold(_threshold, *older)

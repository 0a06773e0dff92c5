"""Pauses Python's cyclic garbage collector. Any thread."""

import contextlib
import gc
import threading
from collections.abc import Iterator

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

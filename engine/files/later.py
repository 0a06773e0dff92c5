"""Does something a while later on another thread, once, however often that is asked for.

Any thread.
"""

import threading
from collections.abc import Callable


class Later:
    """What a disk did not take is tried again by it.

    Args:
        delay_s: When, in seconds.
        work: What is done; quick, or handed on to a thread that may wait.
    """

    def __init__(self, delay_s: float, work: Callable[[], object]) -> None:
        self._delay_s = delay_s
        self._work = work
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None

    def begin(self) -> None:
        """Do it after the delay, unless that is asked for already."""
        with self._lock:
            if self._timer is None:
                self._timer = threading.Timer(self._delay_s, self._ring)
                self._timer.daemon = True
                self._timer.start()

    def cancel(self) -> None:
        """Do nothing any more, until it is asked for again."""
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

    def _ring(self) -> None:
        with self._lock:
            self._timer = None
        self._work()

"""Does work once after a delay, on another thread, however often it is requested.

Any thread.
"""

import threading
from collections.abc import Callable


class Later:
    """Work that is done once after a delay, such as retrying a failed write.

    Args:
        delay_s: The delay in seconds.
        work: The work; it must be quick, or hand over to a thread that may wait.
    """

    def __init__(self, delay_s: float, work: Callable[[], object]) -> None:
        self._delay_s = delay_s
        self._work = work
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None

    def begin(self) -> None:
        """Do the work after the delay, unless it is already scheduled."""
        with self._lock:
            if self._timer is None:
                self._timer = threading.Timer(self._delay_s, self._ring)
                self._timer.daemon = True
                self._timer.start()

    def cancel(self) -> None:
        """Cancel the scheduled work; ``begin`` schedules it again."""
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

    def _ring(self) -> None:
        with self._lock:
            self._timer = None
        self._work()

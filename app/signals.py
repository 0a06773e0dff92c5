"""Lets SIGINT and SIGTERM end a Qt program whose Python code is mostly asleep.

Python handles a signal only when its interpreter runs, and Qt's loop waits outside of it; a
wake-up descriptor that the loop watches brings it back. Main thread.
"""

import asyncio
import contextlib
import signal
import socket
from collections.abc import Callable, Iterator

_ENDING = (signal.SIGINT, signal.SIGTERM)


class EndingSignals:
    """Takes SIGINT and SIGTERM from now until ``close``, and keeps them for whoever delivers them.

    Made before the loop exists, so that a signal during start-up is neither lost nor fatal.
    """

    def __init__(self) -> None:
        self._reading, self._writing = socket.socketpair()
        self._reading.setblocking(False)
        self._writing.setblocking(False)
        self._old_descriptor = signal.set_wakeup_fd(
            self._writing.fileno(), warn_on_full_buffer=False
        )
        self._old_handlers = {number: signal.signal(number, _ignore) for number in _ENDING}

    @contextlib.contextmanager
    def delivered(
        self, loop: asyncio.AbstractEventLoop, act: Callable[[], object]
    ) -> Iterator[None]:
        """Call ``act`` on the loop at each signal, earlier ones included, while this is open."""

        def arrived() -> None:
            with contextlib.suppress(BlockingIOError):
                numbers = self._reading.recv(64)
                if any(number in numbers for number in _ENDING):
                    act()

        loop.add_reader(self._reading.fileno(), arrived)
        try:
            yield
        finally:
            loop.remove_reader(self._reading.fileno())

    def close(self) -> None:
        """Put back what was done at these signals before."""
        for number, handler in self._old_handlers.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._old_descriptor)
        self._reading.close()
        self._writing.close()


def _ignore(_number: int, _frame: object) -> None:
    """Do nothing: the wake-up descriptor has noted the signal."""

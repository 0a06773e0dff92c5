"""Signals: SIGINT, SIGTERM and SIGHUP end the program; Ctrl-C reaches the current handler.

Python handles a signal only while its interpreter runs, but Qt's loop waits outside of it. A
wake-up descriptor that the loop watches returns to Python. Main thread.
"""

import asyncio
import contextlib
import os
import select
import signal
import socket
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import NoReturn, Self

from app import exits
from app.process.process_groups import kill_process_groups
from app.process.streams import drain_streams

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def exit_at_once() -> NoReturn:
    """End the process at once, whatever its threads are doing."""
    with contextlib.suppress(OSError, ValueError):
        if select.select((), (2,), (), 0)[1]:  # a terminal that nobody reads takes nothing
            os.write(2, b"fullstop: ended at once, as the second signal asked\n")
    _kill_and_exit(exits.INTERRUPTED)


def end_process(exit_code: int) -> NoReturn:
    """End the process once its output is written, whatever its threads wait for."""
    drain_streams()
    _kill_and_exit(exit_code)


def _kill_and_exit(exit_code: int) -> NoReturn:
    kill_process_groups()  # ``os._exit`` calls nothing of ``atexit``
    os._exit(exit_code)


@contextlib.contextmanager
def ending_in_order() -> Iterator[None]:
    """Raise ``SystemExit`` at SIGTERM and SIGHUP, so that programs that were started are ended."""

    def end(number: int, _frame: object) -> None:
        raise SystemExit(128 + number)

    numbers = [
        number
        for number in (signal.SIGTERM, signal.SIGHUP)
        if signal.getsignal(number) is not signal.SIG_IGN
    ]
    before = {number: signal.signal(number, end) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class EndingSignals:
    """Catches the signals that end a program from now until ``close``.

    Created before the loop, so that a signal during start-up is neither lost nor fatal. SIGHUP
    stays ignored if it is ignored already, as by ``nohup``. A second signal ends the program at
    once, in case it cannot end cleanly.
    """

    def __init__(self) -> None:
        self._count = 0
        self._reading, self._writing = socket.socketpair()
        self._reading.setblocking(False)
        self._writing.setblocking(False)
        self._old_descriptor = signal.set_wakeup_fd(
            self._writing.fileno(), warn_on_full_buffer=False
        )
        self._old_handlers = {
            number: signal.signal(number, self._arrived)
            for number in _ENDING
            if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN
        }

    @contextlib.contextmanager
    def delivered(
        self, loop: asyncio.AbstractEventLoop, act: Callable[[], object]
    ) -> Iterator[None]:
        """Call ``act`` on the loop for each signal, including earlier ones, during the block."""

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
        for number, handler in self._old_handlers.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._old_descriptor)
        self._reading.close()
        self._writing.close()

    def _arrived(self, _number: int, _frame: object) -> None:
        # The wake-up descriptor has the signal; the loop does the rest.
        self._count += 1
        if self._count > 1:
            exit_at_once()


class Interrupts:
    """Catches Ctrl-C while it is open and calls the handler of the innermost ``calling``.

    Open it in a coroutine of the main thread. A Ctrl-C outside of every ``calling`` waits for
    the next one, so that none is lost between two of them.
    """

    def __init__(self) -> None:
        self._act: Callable[[], object] | None = None
        self._is_pending = False

    def __enter__(self) -> Self:
        self._before = signal.getsignal(signal.SIGINT)
        self._loop = asyncio.get_running_loop()
        self._loop.add_signal_handler(signal.SIGINT, self._arrived)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._loop.remove_signal_handler(signal.SIGINT)
        signal.signal(signal.SIGINT, self._before)

    @contextlib.contextmanager
    def calling(self, act: Callable[[], object]) -> Iterator[None]:
        """Call ``act`` at each Ctrl-C during the block, and for a pending one."""
        outer, self._act = self._act, act
        try:
            if self._is_pending:
                self._arrived()
            yield
        finally:
            self._act = outer

    def _arrived(self) -> None:
        self._is_pending = self._act is None
        if self._act is not None:
            self._act()

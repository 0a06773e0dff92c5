"""Delivers every Ctrl-C on an event loop to the current handler.

Python raises ``KeyboardInterrupt`` between any two bytecodes, and its line editing misses a signal
that arrives just before it starts to wait. The loop's wake-up descriptor misses no signal. Main
thread.
"""

import asyncio
import contextlib
import signal
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Self


class Interrupts:
    """Catches Ctrl-C while it is open and calls the handler of the innermost ``calling``.

    Open it in a coroutine of the main thread. A Ctrl-C outside of every ``calling`` is kept for the
    next one, so that none is lost between two of them.
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

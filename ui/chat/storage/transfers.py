"""Exports and imports, one after the other, with progress and a way to cancel. Main thread."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from PySide6.QtCore import QObject, Signal

from ui.kit.background.tasks import Tasks

_T = TypeVar("_T")


class Transfer:
    """A running export or import."""

    def __init__(self, words: str, tell: Callable[[], None]) -> None:
        self.words = words
        self.done = 0
        self.total = 0
        self.is_cancelled = False
        self.outcome = ""
        self._tell = tell
        self._waiters: list[asyncio.Event] = []

    def cancel(self) -> None:
        """Note that a person cancelled it; ``result_of`` then no longer waits for its work."""
        self.is_cancelled = True
        for waiter in self._waiters:
            waiter.set()

    async def result_of(self, work: asyncio.Future[_T]) -> _T | None:
        """Wait for work that cannot be interrupted, on another thread; None once cancelled.

        After a cancel, the thread continues to its end, but its result or failure is ignored.
        """
        waiter = asyncio.Event()
        self._waiters.append(waiter)
        if self.is_cancelled:
            waiter.set()
        given_up = asyncio.ensure_future(waiter.wait())
        try:
            await asyncio.wait((work, given_up), return_when=asyncio.FIRST_COMPLETED)
        finally:
            given_up.cancel()
            self._waiters.remove(waiter)
        if self.is_cancelled:
            work.add_done_callback(_forget)
            return None
        return work.result()

    def advance(self, done: int, total: int) -> None:
        """Set the progress."""
        self.done, self.total = done, total
        self._tell()


class Transfers(QObject):
    """The exports and imports of a window.

    Signals:
        changed: One began, made progress or ended; see ``now``.
        ended: One ended; carries its result, as a sentence.
    """

    changed = Signal()
    ended = Signal(str)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.now: Transfer | None = None
        self._tasks = Tasks()
        self._turn = asyncio.Lock()
        self._waiting: list[Transfer] = []

    def start(self, words: str, work: Callable[[Transfer], Coroutine[Any, Any, None]]) -> None:
        """Do work once earlier transfers have ended."""
        transfer = Transfer(words, self.changed.emit)
        self._waiting.append(transfer)
        self._tasks.start(self._do(transfer, work), words)

    def cancel(self) -> None:
        """Cancel the running transfer and those that wait; unfinished files are discarded."""
        for transfer in self._waiting:
            transfer.cancel()

    async def finish(self) -> None:
        """Wait until the background work has ended."""
        await self._tasks.finish()

    async def _do(
        self, transfer: Transfer, work: Callable[[Transfer], Coroutine[Any, Any, None]]
    ) -> None:
        async with self._turn:
            try:
                if not transfer.is_cancelled:
                    self.now = transfer
                    self.changed.emit()
                    await work(transfer)
            finally:
                self._waiting.remove(transfer)
                self.now = None
                self.changed.emit()
                if transfer.outcome:
                    self.ended.emit(transfer.outcome)


def _forget(work: asyncio.Future[Any]) -> None:
    """Read the outcome of abandoned work, because asyncio would log an unread exception."""
    if not work.cancelled():
        work.exception()

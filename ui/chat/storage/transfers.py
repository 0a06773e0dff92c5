"""Exports and imports, one after the other, with progress and a way to cancel. Main thread."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from PySide6.QtCore import QObject, Signal

from ui.kit.background.tasks import Tasks


class Transfer:
    """One export or import that is under way.

    Attributes:
        words: What is being done, for a person.
        done: How many conversations are finished.
        total: How many there are; 0 while that is not known.
        is_cancelled: Whether a person cancelled it.
    """

    def __init__(self, words: str, tell: Callable[[], None]) -> None:
        self.words = words
        self.done = 0
        self.total = 0
        self.is_cancelled = False
        self._tell = tell

    def advance(self, done: int, total: int) -> None:
        """Set the progress."""
        self.done, self.total = done, total
        self._tell()


class Transfers(QObject):
    """The exports and imports of a window.

    Signals:
        changed: One began, made progress or ended; see ``now``.

    Attributes:
        now: The one that is running; None if there is none.
    """

    changed = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.now: Transfer | None = None
        self._tasks = Tasks()
        self._turn = asyncio.Lock()
        self._waiting: list[Transfer] = []

    def start(self, words: str, work: Callable[[Transfer], Coroutine[Any, Any, None]]) -> None:
        """Do work once earlier transfers have ended.

        Args:
            words: What is being done, for a person.
            work: Does it, and checks ``is_cancelled`` between its steps.
        """
        transfer = Transfer(words, self.changed.emit)
        self._waiting.append(transfer)
        self._tasks.start(self._do(transfer, work), words)

    def cancel(self) -> None:
        """Cancel the running transfer and those that wait; unfinished files are discarded."""
        for transfer in self._waiting:
            transfer.is_cancelled = True

    async def finish(self) -> None:
        """Wait until nothing is under way."""
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

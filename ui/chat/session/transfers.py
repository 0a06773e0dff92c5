"""The exports and imports of a window, one after the other. Main thread."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from PySide6.QtCore import QObject, Signal

from ui.kit.tasks import finish_tasks, start_task
from ui.records.conversations import Conversation

Work = Callable[["Transfer"], Coroutine[Any, Any, None]]


class Transfer(QObject):
    """A waiting or running export, import or recovery."""

    progressed = Signal()
    cancelled = Signal()  # for work on another thread that cannot look at ``is_cancelled``

    def __init__(self, label: str, parent: QObject, *, is_import: bool) -> None:
        super().__init__(parent)
        self.label = label
        self.is_import = is_import
        self.done = 0
        self.total = 0
        self.is_cancelled = False
        self.outcome = ""
        self.exported: Path | None = None
        self.imported: list[Conversation] = []
        self.undo: Callable[[], object] = self.cancel  # removes imported conversations

    @property
    def position(self) -> str:
        """The label and the progress: ``Importing a.json: 3 of 20``."""
        if self.total > 1:
            return f"{self.label}: {self.done:,} of {self.total:,}"
        return f"{self.label}: {self.done:,} so far…" if self.done else f"{self.label}…"

    def cancel(self) -> None:
        """Stop after the part that is being done."""
        self.is_cancelled = True
        self.cancelled.emit()

    def advance(self, done: int, total: int = 0) -> None:
        """Set the progress; without a total, of work whose extent is not known."""
        self.done, self.total = done, total
        self.progressed.emit()


class Transfers(QObject):
    """The exports and imports of a window; each begins when the one before it has ended."""

    changed = Signal()
    ended = Signal(object)  # Transfer

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.now: Transfer | None = None
        self._turn = asyncio.Lock()
        self._queue: list[Transfer] = []

    def start(self, label: str, work: Work, *, is_import: bool = False) -> None:
        """Do work once earlier transfers have ended."""
        transfer = Transfer(label, self, is_import=is_import)
        transfer.progressed.connect(self.changed)
        self._queue.append(transfer)
        start_task(self, self._run(transfer, work), label)

    def cancel(self) -> None:
        for transfer in self._queue:
            transfer.cancel()

    def cancel_imports(self) -> None:
        """Cancel the imports when the window closes; imported conversations stay."""
        for transfer in self._queue:
            if transfer.is_import:
                transfer.cancel()

    async def finish(self) -> None:
        await finish_tasks(self)

    async def _run(self, transfer: Transfer, work: Work) -> None:
        async with self._turn:
            try:
                if not transfer.is_cancelled:
                    self.now = transfer
                    self.changed.emit()
                    await work(transfer)
            finally:
                self._queue.remove(transfer)
                self.now = None
                self.changed.emit()
                self.ended.emit(transfer)
                transfer.deleteLater()

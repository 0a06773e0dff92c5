"""The recovery of conversations from a backup or a damaged file. Main thread."""

import asyncio
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from engine import counted
from ui.chat.session.transfers import Transfer, Transfers
from ui.records.store import ConversationStore, Recovered, StoreProblem


class Recovery(QObject):
    """Adds the conversations of a file that are not in the store."""

    finished = Signal(object)  # StoreProblem with the result

    def __init__(
        self, store: ConversationStore, transfers: Transfers, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._store = store
        self._transfers = transfers

    def begin(self, path: Path) -> None:
        """Recover the readable conversations of a file, once earlier transfers have ended."""

        async def recover(transfer: Transfer) -> None:
            work = asyncio.ensure_future(self._store.recover(path))
            transfer.on_cancel = work.cancel
            await asyncio.wait({work})
            is_cancelled = work.cancelled()
            recovered = Recovered() if is_cancelled else work.result()
            self.finished.emit(outcome(recovered, path, is_cancelled=is_cancelled))

        self._transfers.start("Recovering conversations", recover)


def outcome(recovered: Recovered, path: Path, *, is_cancelled: bool = False) -> StoreProblem:
    """Return the result of a recovery; one that ended early can be started again."""
    conversations = counted(recovered.conversations, "conversation")
    messages = counted(recovered.messages, "message")
    sentence = (
        f"{conversations} with {messages} recovered."
        if recovered.messages
        else f"{conversations} recovered."
    )
    if recovered.cause:
        detail = f"The recovery failed: {recovered.cause}."
    elif is_cancelled:
        detail = "The recovery was cancelled."
    elif recovered.unreadable:
        detail = f"{counted(recovered.unreadable, 'row')} could not be read."
    else:
        detail = "Everything in the file could be read."
    return StoreProblem(
        sentence,
        f"{detail} The file is kept as {path.name}.",
        path,
        can_be_recovered=bool(recovered.cause) or is_cancelled,
    )

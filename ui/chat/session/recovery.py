"""The recovery of conversations from a damaged file. Main thread."""

from PySide6.QtCore import QObject, Signal

from engine import counted
from ui.chat.session.transfers import Transfer, Transfers
from ui.records.store import ConversationStore, Recovered, StoreProblem

_LABEL = "Recovering conversations"


class Recovery(QObject):
    """Recovers conversations from a damaged file.

    Signals:
        finished: The recovery ended; carries a ``StoreProblem`` with the result.
    """

    finished = Signal(object)

    def __init__(
        self, store: ConversationStore, transfers: Transfers, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._store = store
        self._transfers = transfers

    def begin(self) -> None:
        """Recover what can be read, once earlier transfers have ended."""
        self._transfers.start(_LABEL, self._recover)

    def decline(self) -> None:
        """Leave the damaged file as it is, and do not offer it at the next start."""
        self._store.decline_recovery()

    async def _recover(self, transfer: Transfer) -> None:
        damaged = self._store.problem
        recovered = await self._store.recover(transfer.advance, lambda: transfer.is_cancelled)
        self.finished.emit(outcome(recovered, damaged, is_cancelled=transfer.is_cancelled))


def outcome(
    recovered: Recovered, damaged: StoreProblem | None, *, is_cancelled: bool = False
) -> StoreProblem:
    """Return the result of a recovery in words; one that ended early can be started again."""
    conversations = counted(recovered.conversations, "conversation")
    messages = counted(recovered.messages, "message")
    sentence = (
        f"{conversations} with {messages} recovered."
        if recovered.messages
        else f"{conversations} recovered."
    )
    details = []
    if recovered.cause:
        details.append(f"Then the recovery failed: {recovered.cause}.")
    elif is_cancelled:
        details.append("Then the recovery was cancelled.")
    elif recovered.unreadable:
        details.append(f"{counted(recovered.unreadable, 'row')} could not be read.")
    else:
        details.append("Everything in the file could be read.")
    path = None if damaged is None else damaged.path
    if path is not None:
        details.append(f"The damaged file is kept as {path.name}.")
    return StoreProblem(
        sentence, " ".join(details), path, can_be_recovered=bool(recovered.cause) or is_cancelled
    )

"""Stores the running answer of a conversation as it grows. Main thread."""

from collections.abc import Sequence
from typing import Protocol

from PySide6.QtCore import QObject, QTimer

from ui.records.conversations import Conversation
from ui.records.messages import ConversationMessage

# A running answer is stored this often. With the time that a save takes, at most half a second of
# it is missing after a crash.
KEEP_MS = 400


class AnswerStore(Protocol):
    """The part of the store that answers are kept in."""

    def save(self, conversation: Conversation) -> None:
        """Keep a conversation's own row."""

    def save_messages(
        self, conversation: Conversation, messages: Sequence[ConversationMessage]
    ) -> None:
        """Keep messages as they are now."""

    async def settled(self) -> None:
        """Wait until all that was saved before is kept."""


class AnswerKeeping(QObject):
    """Keeps what there is of one answer after another, a few times a second.

    Args:
        store: Where it is kept.
        conversation: What it belongs to.
        parent: Its owner.
    """

    def __init__(self, store: AnswerStore, conversation: Conversation, parent: QObject) -> None:
        super().__init__(parent)
        self._store = store
        self._conversation = conversation
        self._message: ConversationMessage | None = None
        self._has_grown = False
        self._keeps = QTimer(self)
        self._keeps.setInterval(KEEP_MS)
        self._keeps.timeout.connect(self._keep)

    def begin(self, message: ConversationMessage) -> None:
        """Keep the answer of a message from now on."""
        self._message = message
        self._keeps.start()

    def note_growth(self) -> None:
        """Note that the answer has more than was stored."""
        self._has_grown = True

    def end(self) -> None:
        """Stop keeping; the message of the answer has to be stored once more."""
        self._keeps.stop()
        self._message = None

    def _keep(self) -> None:
        if self._has_grown and self._message is not None:
            self._has_grown = False
            self._store.save_messages(self._conversation, [self._message])

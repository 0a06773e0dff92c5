"""Saves the running answer of a conversation as it grows. Main thread."""

from collections.abc import Sequence
from typing import Protocol

from PySide6.QtCore import QObject, QTimer

from ui.records.conversations import Conversation
from ui.records.messages import ConversationMessage

# A running answer is saved at this interval. Including the time that a save takes, at most half a
# second of it is missing after a crash.
KEEP_MS = 400


class AnswerStore(Protocol):
    """The part of the store that saves answers."""

    def save(self, conversation: Conversation) -> None:
        """Save a conversation without its messages."""

    def save_messages(
        self, conversation: Conversation, messages: Sequence[ConversationMessage]
    ) -> None:
        """Save messages in their present state."""

    async def settled(self) -> None:
        """Wait until all earlier changes are saved."""


class AnswerKeeping(QObject):
    """Saves one answer at a time, a few times a second."""

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
        """Save the answer of a message from now on."""
        self._message = message
        self._keeps.start()

    def note_growth(self) -> None:
        """Note that the answer has more text than was saved."""
        self._has_grown = True

    def end(self) -> None:
        """Stop saving; the caller saves the message of the answer once more."""
        self._keeps.stop()
        self._message = None

    def _keep(self) -> None:
        if self._has_grown and self._message is not None:
            self._has_grown = False
            self._store.save_messages(self._conversation, [self._message])

"""Saves the text and the files of the composer, a moment after they changed. Main thread."""

from collections.abc import Callable

from PySide6.QtCore import QObject, QTimer

from ui.records.attachments import Attachment
from ui.records.conversations import Conversation

_KEPT_AFTER_MS = 400


class DraftKeeping(QObject):
    """Saves the draft of the open conversation."""

    def __init__(self, save: Callable[[Conversation], None], parent: QObject) -> None:
        super().__init__(parent)
        self._save = save
        self._changed: Conversation | None = None
        self._later = QTimer(self, singleShot=True, interval=_KEPT_AFTER_MS)
        self._later.timeout.connect(self.keep)

    def change(self, conversation: Conversation, text: str) -> None:
        """Note the typed text; it is saved a moment later."""
        if conversation.draft != text:
            conversation.draft = text
            self._keep_soon(conversation)

    def attach(self, conversation: Conversation, files: tuple[Attachment, ...]) -> None:
        """Note the files of the draft; they are saved a moment later."""
        if conversation.attachments != files:
            conversation.attachments = files
            self._keep_soon(conversation)

    def _keep_soon(self, conversation: Conversation) -> None:
        self._changed = conversation
        # The time does not begin again: some people type for minutes without a pause.
        if not self._later.isActive():
            self._later.start()

    def keep(self) -> None:
        """Save unsaved changes of the draft now."""
        self._later.stop()
        changed, self._changed = self._changed, None
        if changed is not None:
            self._save(changed)

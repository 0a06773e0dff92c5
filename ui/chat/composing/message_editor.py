"""The field that replaces a message while a person edits it. Main thread."""

from collections.abc import Iterable

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QPushButton, QVBoxLayout

from ui.chat.composing.attachment_row import AttachmentRow
from ui.kit.controls.growing_input import GrowingInput
from ui.kit.look.theme import Theme
from ui.kit.text.labels import label
from ui.records.attachments import Attachment


class MessageEditor(QFrame):
    """A field with the text of a message, below its files.

    Signals:
        submitted: A person confirmed the edited message; carries its text and its files.
        left: A person cancelled the editing.
    """

    submitted = Signal(str, object)
    left = Signal()

    def __init__(
        self,
        theme: Theme,
        text: str,
        files: Iterable[Attachment] = (),
        *,
        says: str = "question",
        sends: str = "Send",
    ) -> None:
        super().__init__()
        self._is_busy = False
        self.attachments = AttachmentRow(theme)
        self.attachments.show_files(files)
        self.setObjectName("composer")
        self.input = GrowingInput()
        self.input.setAccessibleName(f"Edit the {says}")
        self.input.setPlainText(text)
        cursor = self.input.textCursor()
        cursor.movePosition(cursor.MoveOperation.End)
        self.input.setTextCursor(cursor)
        self.send = QPushButton(sends)
        self.send.setProperty("kind", "primary")
        self.send.setAccessibleName(f"{sends} the edited {says}")
        cancel = QPushButton("Cancel")
        cancel.setAccessibleName("Cancel editing")
        self.notice = label("", "muted", 0.93, is_wrapped=True)
        row = QHBoxLayout()
        row.addWidget(self.notice, 1)
        row.addWidget(cancel)
        row.addWidget(self.send)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(15, 11, 10, 9)
        layout.setSpacing(7)
        layout.addWidget(self.attachments)
        layout.addWidget(self.input)
        layout.addLayout(row)
        self.input.submitted.connect(self._submit)
        self.input.files_given.connect(self.attachments.attach)
        self.input.picture_given.connect(self.attachments.refuse_picture)
        self.attachments.left.connect(self.input.setFocus)
        self.attachments.changed.connect(self._allow)
        self.send.clicked.connect(self._submit)
        cancel.clicked.connect(self.left)

    def show_busy(self, is_busy: bool) -> None:
        """Disable sending while an answer is running."""
        self._is_busy = is_busy
        self._allow()

    def _allow(self) -> None:
        """Allow sending once every file has been read."""
        self.send.setEnabled(not self._is_busy and not self.attachments.is_reading)
        self.notice.setText("")

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Cancel with Escape."""
        if event.key() == Qt.Key.Key_Escape:
            self.left.emit()
        else:
            super().keyPressEvent(event)

    def _submit(self) -> None:
        text, files = self.input.toPlainText(), self.attachments.files
        if (text.strip() or files) and self.send.isEnabled():
            self.submitted.emit(text, files)
        elif not self.send.isEnabled():
            busy = "An answer is running. Esc stops it." if self._is_busy else ""
            self.notice.setText(busy or "A file is still being read.")

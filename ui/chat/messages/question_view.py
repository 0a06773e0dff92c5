"""A question on screen: its bubble, what can be done with it, and its editor. Main thread."""

from collections.abc import Iterable

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QPushButton, QVBoxLayout, QWidget

from ui.chat.composing.attachment_row import AttachmentRow
from ui.chat.messages.message_actions import MessageActions
from ui.chat.messages.plain_bubble import PlainBubble
from ui.kit.controls.growing_input import GrowingInput
from ui.kit.look.theme import Theme
from ui.kit.system.clipboard import copy_text
from ui.kit.text.flow_text import FlowText
from ui.records.attachments import Attachment
from ui.records.messages import ConversationMessage


class QuestionView(QWidget):
    """What the person wrote; editing it asks anew and keeps the old version.

    Signals:
        edited: Another question is to be asked in this one's place; carries its text and files.
        left: Its editor was put away; nothing is to be changed.
    """

    edited = Signal(str, object)
    left = Signal()

    def __init__(self, theme: Theme, message: ConversationMessage) -> None:
        super().__init__()
        self._theme = theme
        self.message = message
        self.editor: QuestionEditor | None = None
        self.action_row = MessageActions(theme, self, is_quiet=True)
        self.edit = self.action_row.add("pencil", "Edit this question (Ctrl+E)")
        self._copy = self.action_row.add("copy", "Copy this question")
        self.bubble = PlainBubble(theme, message.typed, message.files, self.action_row)
        self._layout = QVBoxLayout(self)
        self._layout.setContentsMargins(0, 0, 0, 0)
        self._layout.setSpacing(3)
        self._layout.addWidget(self.bubble)
        self.edit.clicked.connect(self.begin_editing)
        self._copy.clicked.connect(lambda: copy_text(message.text))

    @property
    def text_view(self) -> FlowText:
        """The view of the question's text."""
        return self.bubble.text_view

    def show_busy(self, is_busy: bool) -> None:
        """Allow no change while an answer is running."""
        self.edit.setEnabled(not is_busy)
        if self.editor is not None:
            self.editor.show_busy(is_busy)

    def begin_editing(self) -> None:
        """Put an editor in the bubble's place."""
        if self.editor is None:
            self.editor = QuestionEditor(self._theme, self.message.typed, self.message.files)
            self.editor.submitted.connect(self._submit)
            self.editor.left.connect(self.end_editing)
            self._layout.insertWidget(0, self.editor)
        self.bubble.hide()
        self.editor.input.setFocus()

    def end_editing(self) -> None:
        """Show the bubble again."""
        if self.editor is not None:
            self.editor.attachments.reading.end()
            self.editor.hide()
            self.editor.deleteLater()
            self.editor = None
        self.bubble.show()
        self.left.emit()

    def _submit(self, text: str, files: tuple[Attachment, ...]) -> None:
        if (text, files) == (self.message.typed, self.message.files):
            self.end_editing()
        else:
            self.edited.emit(text, files)


class QuestionEditor(QFrame):
    """A field with the question's text, below its files.

    Signals:
        submitted: The question is to be asked; carries its text and its files.
        left: Nothing is to be changed.
    """

    submitted = Signal(str, object)
    left = Signal()

    def __init__(self, theme: Theme, text: str, files: Iterable[Attachment]) -> None:
        super().__init__()
        self._is_busy = False
        self.attachments = AttachmentRow(theme)
        self.attachments.show_files(files)
        self.setObjectName("composer")
        self.input = GrowingInput()
        self.input.setAccessibleName("Edit the question")
        self.input.setPlainText(text)
        cursor = self.input.textCursor()
        cursor.movePosition(cursor.MoveOperation.End)
        self.input.setTextCursor(cursor)
        self.send = QPushButton("Send")
        self.send.setProperty("kind", "primary")
        self.send.setAccessibleName("Send the edited question")
        cancel = QPushButton("Cancel")
        cancel.setAccessibleName("Cancel editing")
        row = QHBoxLayout()
        row.addStretch(1)
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
        """Send nothing while an answer is running."""
        self._is_busy = is_busy
        self._allow()

    def _allow(self) -> None:
        """Send only once every file has been read."""
        self.send.setEnabled(not self._is_busy and not self.attachments.is_reading)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Leave with Escape."""
        if event.key() == Qt.Key.Key_Escape:
            self.left.emit()
        else:
            super().keyPressEvent(event)

    def _submit(self) -> None:
        text, files = self.input.toPlainText(), self.attachments.files
        if (text.strip() or files) and self.send.isEnabled():
            self.submitted.emit(text, files)

"""The view of a question: its bubble, its buttons, and its editor. Main thread."""

from PySide6.QtCore import QPoint, Signal
from PySide6.QtGui import QContextMenuEvent
from PySide6.QtWidgets import QVBoxLayout, QWidget

from ui.chat.composing.message_editor import MessageEditor
from ui.chat.messages.message_actions import MessageActions, below
from ui.chat.messages.plain_bubble import PlainBubble
from ui.kit.look.theme import Theme
from ui.kit.system.clipboard import copy_text
from ui.kit.text.flow_text import FlowText
from ui.kit.text.searched import SearchedPart, SearchedText
from ui.records.attachments import Attachment
from ui.records.messages import ConversationMessage


class QuestionView(QWidget):
    """Shows a question; editing it asks again and keeps the old version.

    Signals:
        edited: A person edited the question; carries the new text and files.
        left: A person cancelled the editing.
        menu_wanted: A person wants its menu; carries the place on the screen.
        picture_wanted: A person wants to see a picture; carries the ``Attachment``.
    """

    edited = Signal(str, object)
    left = Signal()
    menu_wanted = Signal(QPoint)
    picture_wanted = Signal(object)

    def __init__(
        self, theme: Theme, message: ConversationMessage, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._theme = theme
        self.message = message
        self.editor: MessageEditor | None = None
        self.action_row = MessageActions(theme, self, is_quiet=True)
        self.edit = self.action_row.add("pencil", "Edit this question (Ctrl+E)")
        self._copy = self.action_row.add("copy", "Copy this question")
        self.more = self.action_row.add("more", "More actions for this question")
        self.bubble = PlainBubble(theme, message.typed, message.files, self.action_row)
        for file in self.bubble.files:
            file.picture_wanted.connect(self.picture_wanted)
        self._layout = QVBoxLayout(self)
        self._layout.setContentsMargins(0, 0, 0, 0)
        self._layout.setSpacing(3)
        self._layout.addWidget(self.bubble)
        self.edit.clicked.connect(self.begin_editing)
        self.more.clicked.connect(lambda: self.menu_wanted.emit(below(self.more)))
        self._copy.clicked.connect(lambda: copy_text(message.text))

    @property
    def text_view(self) -> FlowText:
        """The view of the question's text."""
        return self.bubble.text_view

    def searched_parts(self) -> list[SearchedPart]:
        """Return its files and its text, for the search."""
        files = [part for file in self.bubble.files for part in file.searched_parts()]
        return [*files, SearchedText(lambda: self.text_view)]

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        """Ask for the message's menu."""
        self.menu_wanted.emit(event.globalPos())
        event.accept()

    def show_busy(self, is_busy: bool) -> None:
        """Disable changes while an answer is running."""
        self.edit.setEnabled(not is_busy)
        if self.editor is not None:
            self.editor.show_busy(is_busy)

    def begin_editing(self) -> None:
        """Replace the bubble by an editor."""
        if self.editor is None:
            self.editor = MessageEditor(self._theme, self.message.typed, self.message.files)
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

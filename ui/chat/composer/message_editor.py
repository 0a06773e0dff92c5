"""Edits a message in its place. Main thread."""

from collections.abc import Iterable
from pathlib import Path

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QKeyEvent, QTextCursor
from PySide6.QtWidgets import QBoxLayout, QFrame, QWidget

from ui.chat.composer.attachments import AttachmentRow
from ui.kit.buttons import push_button
from ui.kit.fields import GrowingInput
from ui.kit.labels import label
from ui.kit.layouts import column, row
from ui.kit.theme import restyle
from ui.records.attachments import Attachment

READING = "A file is still being read."


class MessageEditor(QFrame):
    """A field with the text of a message, below its files."""

    submitted = Signal(str, object)  # text, files
    left = Signal()

    def __init__(
        self,
        text: str,
        files: Iterable[Attachment] = (),
        *,
        accessible_name: str,
        sends: str,
        pictures_folder: Path | None = None,
    ) -> None:
        super().__init__()
        self._is_busy = False
        self.attachments = AttachmentRow()
        self.attachments.pictures_folder = pictures_folder
        self.attachments.show_files(files)
        self.setObjectName("composer")
        self.input = GrowingInput()
        self.input.setAccessibleName(f"Edit the {accessible_name}")
        self.input.focus_changed.connect(lambda has_focus: restyle(self, "focused", has_focus))
        self.input.setPlainText(text)
        self.input.moveCursor(QTextCursor.MoveOperation.End)
        self.send = push_button(sends, f"{sends} the edited {accessible_name}", kind="primary")
        cancel = push_button("Cancel", "Cancel editing")
        self.notice = label("", "muted", 0.93, is_wrapped=True)
        column(
            self.attachments,
            self.input,
            row((self.notice, 1), cancel, self.send),
            spacing=7,
            margins=(15, 11, 10, 9),
            on=self,
        )
        self.input.submitted.connect(self._submit)
        self.attachments.take_from(self.input)
        self.attachments.changed.connect(self._allow)
        self.send.clicked.connect(self._submit)
        cancel.clicked.connect(self.left)

    def discard(self) -> None:
        self.attachments.end_reading()
        self.hide()
        self.deleteLater()

    def show_busy(self, is_busy: bool) -> None:
        self._is_busy = is_busy
        self._allow()

    def _allow(self) -> None:
        self.send.setEnabled(not self._is_busy and not self.attachments.is_reading)
        self.notice.setText("")

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape:
            self.left.emit()
        else:
            super().keyPressEvent(event)

    def _submit(self) -> None:
        text, files = self.input.toPlainText(), self.attachments.files
        if (text.strip() or files) and self.send.isEnabled():
            self.submitted.emit(text, files)
        elif not self.send.isEnabled():
            busy = "The model is still answering. Press Esc to stop." if self._is_busy else ""
            self.notice.setText(busy or READING)


class EditedInPlace(QFrame):
    """A widget with a part that an editor replaces while its text is edited.

    A subclass hides the part while there is an ``editor``, and takes the edited text.
    """

    left = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.editor: MessageEditor | None = None
        self.pictures_folder: Path | None = None

    def open_editor(
        self,
        layout: QBoxLayout,
        part: QWidget,
        text: str,
        files: Iterable[Attachment] = (),
        *,
        accessible_name: str = "question",
        sends: str = "Save",
    ) -> None:
        """Show an editor in the place of a part, unless one is open; focus its field."""
        if self.editor is None:
            editor = MessageEditor(
                text,
                files,
                accessible_name=accessible_name,
                sends=sends,
                pictures_folder=self.pictures_folder,
            )
            self.editor = editor
            editor.submitted.connect(self.take_edited)
            editor.left.connect(self.end_editing)
            layout.insertWidget(layout.indexOf(part), editor)
            self.show_edited_part()
        self.editor.input.setFocus()

    def end_editing(self) -> None:
        """Discard the editor and show the part again."""
        if self.editor is not None:
            self.editor.discard()
            self.editor = None
        self.show_edited_part()
        self.left.emit()

    def show_edited_part(self) -> None:
        """Show the part that is edited, or hide it while there is an editor."""
        raise NotImplementedError

    def take_edited(self, text: str, files: tuple[Attachment, ...]) -> None:
        """Use the edited text; end the editing if the widget stays."""
        raise NotImplementedError

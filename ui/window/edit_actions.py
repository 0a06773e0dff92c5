"""Undo, clipboard and selection, for whatever has the keyboard. Main thread."""

from typing import Literal

from PySide6.QtCore import QEvent, QObject, Qt, QTimer, Slot
from PySide6.QtGui import QKeyEvent, QKeySequence, QUndoGroup
from PySide6.QtWidgets import (
    QAbstractItemView,
    QAbstractSpinBox,
    QApplication,
    QComboBox,
    QLineEdit,
    QMenu,
    QMenuBar,
    QPlainTextEdit,
    QTextEdit,
    QWidget,
)

from ui.chat.session.conversation_controller import ConversationController
from ui.chat.session.workspace import Workspace
from ui.kit.flow_text import TextWidget, selected_text
from ui.kit.menus import copied_text, copy_text


class EditActions(QObject):
    """Acts on the focused text field, which handles these keys itself; otherwise on the chat."""

    def __init__(self, workspace: Workspace, composer: QTextEdit, parent: QObject) -> None:
        super().__init__(parent)
        self._composer = composer
        self._focused: QWidget | None = None
        application = QApplication.instance()
        assert isinstance(application, QApplication)
        application.focusChanged.connect(self._note_focus)
        self._group = QUndoGroup(self)
        self._list = workspace.conversations
        # The last change: in the list of conversations, or in messages, stops and settings.
        self._latest: Literal["typing", "list", "group"] = "typing"
        # Active until the event is over in which text is typed, which may change a setting.
        self._typing = QTimer(self, singleShot=True, interval=0)
        self._list.undoable.connect(lambda _: self._note_list(True))
        self._list.undone.connect(lambda: self._note_list(self._list.can_undo))
        self._group.indexChanged.connect(lambda _: self._note_group())
        workspace.opened.connect(self._follow_undo)
        self._follow_undo(workspace.current)

    # -- what can be done ----------------------------------------------------------------------

    @property
    def text(self) -> TextWidget | None:
        """The focused text field, or the field inside the focused control."""
        widget = self._focused
        if isinstance(widget, QAbstractSpinBox | QComboBox):
            widget = widget.findChild(QLineEdit)
        return widget if isinstance(widget, QLineEdit | QPlainTextEdit | QTextEdit) else None

    @property
    def _writable(self) -> TextWidget | None:
        text = self.text
        return text if text is not None and text.isEnabled() and not text.isReadOnly() else None

    @property
    def undo_title(self) -> str:
        if self._undoes_list:
            return f"&Undo {self._list.undo_verb}"
        if self._undoes_text:
            return "&Undo Typing"
        return f"&Undo {self._group.undoText().replace('&', '&&')}".rstrip()

    @property
    def redo_title(self) -> str:
        if _can_redo(self.text):
            return "&Redo Typing"
        return f"&Redo {self._group.redoText().replace('&', '&&')}".rstrip()

    def can_undo(self) -> bool:
        return _can_undo(self.text) or self._undoes_list or self._group.canUndo()

    def can_redo(self) -> bool:
        return _can_redo(self.text) or self._group.canRedo()

    def has_selection(self) -> bool:
        return bool(self.selection())

    def can_cut(self) -> bool:
        return self._writable is not None and self.has_selection()

    def can_copy(self) -> bool:
        """Return whether text or a row is selected."""
        return self.has_selection() or isinstance(self._focused, QAbstractItemView)

    def can_select_all(self) -> bool:
        return self.text is not None or isinstance(self._focused, QAbstractItemView)

    def can_paste(self) -> bool:
        """Return whether the field takes the content of the clipboard."""
        field = self._writable or self._composer
        return bool(copied_text()) if isinstance(field, QLineEdit) else field.canPaste()

    def can_paste_plain(self) -> bool:
        return bool(copied_text())

    # -- actions -------------------------------------------------------------------------------

    def undo(self) -> None:
        if self._undoes_list:
            self._list.undo_last()
        elif self._undoes_text and (text := self.text) is not None:
            self._note_typing()
            text.undo()
        else:
            self._group.undo()

    def redo(self) -> None:
        if (text := self.text) is not None and _can_redo(text):
            text.redo()
        else:
            self._group.redo()

    def cut(self) -> None:
        if self.text is not None:
            self.text.cut()

    def copy(self) -> None:
        """Copy the selected text, or the text of the current row."""
        if self.text is not None:
            self.text.copy()
        elif isinstance(self._focused, QAbstractItemView):
            row = self._focused.currentIndex().data()
            if row:
                copy_text(str(row))

    def paste(self) -> None:
        self._field().paste()

    def paste_plain(self) -> None:
        field = self._field()
        insert = field.insert if isinstance(field, QLineEdit) else field.insertPlainText
        insert(copied_text())

    def delete(self) -> None:
        """Delete the selected text, or the character after the caret."""
        text = self._writable
        if isinstance(text, QLineEdit):
            text.del_()
        elif text is not None:
            text.textCursor().deleteChar()

    def select_all(self) -> None:
        if isinstance(self._focused, QAbstractItemView):
            self._focused.selectAll()
        elif self.text is not None:
            self.text.selectAll()

    def selection(self) -> str:
        return "" if self.text is None else selected_text(self.text)

    # -- inside --------------------------------------------------------------------------------

    @property
    def _undoes_list(self) -> bool:
        has_others = _can_undo(self.text) or self._group.canUndo()
        return self._list.can_undo and (self._latest == "list" or not has_others)

    @property
    def _undoes_text(self) -> bool:
        undoes_group = self._latest == "group" and self._group.canUndo()
        return _can_undo(self.text) and not undoes_group and not self._undoes_list

    @Slot()
    def _note_typing(self) -> None:
        self._latest = "typing"
        self._typing.start()

    def _note_list(self, is_latest: bool) -> None:
        self._latest = "list" if is_latest else "group"

    def _note_group(self) -> None:
        if not (self._typing.isActive() and _can_undo(self.text)):
            self._latest = "group"

    def _follow_undo(self, opened: ConversationController) -> None:
        stack = opened.undo_stack
        latest = self._latest
        self._group.addStack(stack)
        self._group.setActiveStack(stack)  # this is reported as a change
        self._latest = latest

    def _note_focus(self, _: QWidget | None, now: QWidget | None) -> None:
        # Opening a menu with the keyboard takes the focus; the entry acts on the widget before.
        if now is None or isinstance(now, QMenu | QMenuBar):
            return
        if self._focused is not None:
            self._focused.destroyed.disconnect(self._forget_focus)
            self._focused.removeEventFilter(self)
        self._focused = now
        now.destroyed.connect(self._forget_focus)
        if self.text is not None:
            now.installEventFilter(self)
        once = Qt.ConnectionType.UniqueConnection
        if isinstance(text := self.text, QLineEdit):
            text.textEdited.connect(self._note_typing, once)
        elif text is not None:
            text.document().undoCommandAdded.connect(self._note_typing, once)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802 - Qt's name
        """Leave Undo and Redo to the menu where they do not concern the typing in the field."""
        kind = event.type()
        if kind == QEvent.Type.ShortcutOverride and isinstance(event, QKeyEvent):
            keys = QKeySequence.StandardKey
            is_undo = event.matches(keys.Undo) and not self._undoes_text
            if is_undo or (event.matches(keys.Redo) and not _can_redo(self.text)):
                event.ignore()
                return True
        elif kind in (QEvent.Type.KeyPress, QEvent.Type.InputMethod):
            self._typing.start()
        return False

    def _forget_focus(self) -> None:
        self._focused = None

    def _field(self) -> TextWidget:
        if (text := self._writable) is not None:
            return text
        self._composer.setFocus()
        return self._composer


def _can_undo(text: TextWidget | None) -> bool:
    if text is None or isinstance(text, QLineEdit):
        return text is not None and text.isUndoAvailable()
    return not text.isReadOnly() and text.document().isUndoAvailable()


def _can_redo(text: TextWidget | None) -> bool:
    if text is None or isinstance(text, QLineEdit):
        return text is not None and text.isRedoAvailable()
    return not text.isReadOnly() and text.document().isRedoAvailable()

"""Edits and reads text fields and other text widgets of any kind. Main thread."""

from typing import TypeGuard

from PySide6.QtWidgets import (
    QAbstractSpinBox,
    QComboBox,
    QLineEdit,
    QPlainTextEdit,
    QTextEdit,
    QWidget,
)

TextWidget = QLineEdit | QPlainTextEdit | QTextEdit


def text_widget_of(widget: QWidget | None) -> TextWidget | None:
    """Return the widget that contains the text: itself or the field inside it; None for none."""
    if isinstance(widget, QAbstractSpinBox | QComboBox):
        widget = widget.findChild(QLineEdit)
    return widget if is_text_widget(widget) else None


def is_text_widget(widget: QWidget | None) -> TypeGuard[TextWidget]:
    """Return whether a widget contains text that can be selected."""
    return isinstance(widget, QLineEdit | QPlainTextEdit | QTextEdit)


def can_write(widget: TextWidget) -> bool:
    """Return whether the text can be changed."""
    return widget.isEnabled() and not widget.isReadOnly()


def can_undo(widget: TextWidget) -> bool:
    """Return whether there is a change of the text to undo."""
    if isinstance(widget, QLineEdit):
        return widget.isUndoAvailable()
    return not widget.isReadOnly() and widget.document().isUndoAvailable()


def can_redo(widget: TextWidget) -> bool:
    """Return whether there is a change of the text to redo."""
    if isinstance(widget, QLineEdit):
        return widget.isRedoAvailable()
    return not widget.isReadOnly() and widget.document().isRedoAvailable()


def selected_text(widget: TextWidget) -> str:
    """Return the selected text as it would be copied; empty for none."""
    if isinstance(widget, QLineEdit):
        return widget.selectedText()
    if not widget.textCursor().hasSelection():
        return ""
    return widget.createMimeDataFromSelection().text()


def delete_selected(widget: TextWidget) -> None:
    """Delete the selected text, or the character after the caret."""
    if isinstance(widget, QLineEdit):
        widget.del_()
    else:
        widget.textCursor().deleteChar()


def insert_plain(widget: TextWidget, text: str) -> None:
    """Replace the selection by a text."""
    if isinstance(widget, QLineEdit):
        widget.insert(text)
    else:
        widget.insertPlainText(text)

"""Labels of menus, and the clipboard. Main thread."""

from PySide6.QtCore import QTimer
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QAbstractButton


def escape_mnemonics(text: str) -> str:
    """Return the user's words as a label in which ``&`` is an ampersand."""
    return text.replace("&", "&&")


COPIED_MS = 1_500  # how long a button says "Copied"
_COPIED = "Copied"


def copy_text(text: str) -> None:
    """Put a text on the clipboard."""
    QGuiApplication.clipboard().setText(text)


def copied_text() -> str:
    """Return the text on the clipboard; empty if the clipboard contains something else."""
    return QGuiApplication.clipboard().text()


def copy_from(button: QAbstractButton, text: str) -> None:
    """Put a text on the clipboard; the pressed button shows that."""
    copy_text(text)
    show_copied(button)


def show_copied(button: QAbstractButton) -> None:
    """Show "Copied" on a pressed button for a moment."""
    caption = button.text()
    if caption != _COPIED:  # otherwise it was pressed twice, and the first press restores its words
        button.setText(_COPIED)
        QTimer.singleShot(COPIED_MS, button, lambda: button.setText(caption))

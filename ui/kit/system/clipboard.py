"""Text on the system's clipboard. Main thread."""

from PySide6.QtCore import QTimer
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QAbstractButton

SAID_MS = 1_500  # how long a button says "Copied"
_COPIED = "Copied"


def copy_text(text: str) -> None:
    """Put a text on the clipboard."""
    QGuiApplication.clipboard().setText(text)


def copied_text() -> str:
    """Return the text on the clipboard; empty if the clipboard contains something else."""
    return QGuiApplication.clipboard().text()


def copy_from(button: QAbstractButton, text: str) -> None:
    """Put a text on the clipboard, and show "Copied" on the pressed button for a moment."""
    copy_text(text)
    words = button.text()
    if words != _COPIED:  # otherwise it was pressed twice, and the first press restores its words
        button.setText(_COPIED)
        QTimer.singleShot(SAID_MS, button, lambda: button.setText(words))

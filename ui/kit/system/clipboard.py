"""Text on the system's clipboard. Main thread."""

from PySide6.QtGui import QGuiApplication


def copy_text(text: str) -> None:
    """Put a text on the clipboard."""
    QGuiApplication.clipboard().setText(text)


def copied_text() -> str:
    """Return the text on the clipboard; empty if it holds something else."""
    return QGuiApplication.clipboard().text()

"""What the program is, in a box. Main thread."""

from importlib.metadata import PackageNotFoundError, version

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QMessageBox, QWidget


def about_box(parent: QWidget) -> QMessageBox:
    """Return the box; it deletes itself when it is closed."""
    box = QMessageBox(parent)
    box.setWindowTitle("About Fullstop")
    box.setTextFormat(Qt.TextFormat.PlainText)
    box.setText(f"Fullstop {_version()}")
    box.setInformativeText(
        "Chat with MLX language models, serve them to other apps, and see exactly why a "
        "model stopped."
    )
    box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    return box


def _version() -> str:
    try:
        return version("fullstop-chat")
    except PackageNotFoundError:
        return "(development)"

"""The About box. Main thread."""

from importlib.metadata import PackageNotFoundError, version

from PySide6.QtWidgets import QMessageBox, QWidget

from ui.kit.system.boxes import tell

_PURPOSE = (
    "Chat with MLX language models, serve them to other apps, and see exactly why a model stopped."
)


def show_about(parent: QWidget) -> QMessageBox:
    """Show which version of the program this is, and what it is for."""
    return tell(parent, f"Fullstop {_version()}", _PURPOSE, title="About Fullstop")


def _version() -> str:
    try:
        return version("fullstop-chat")
    except PackageNotFoundError:
        return "(development)"

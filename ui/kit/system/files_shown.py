"""Shows a folder in the system's own file manager. Main thread."""

import sys
from pathlib import Path

from PySide6.QtCore import QUrl
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QWidget

from ui.kit.system.boxes import tell

_NAMES = {"darwin": "Finder", "win32": "Explorer"}


def show_in_files_words() -> str:
    """Return the words for a menu entry on this system."""
    return f"Show in {_NAMES.get(sys.platform, 'File Manager')}"


def show_in_files(parent: QWidget, folder: Path) -> None:
    """Open a folder; say where it is if no program opens it."""
    if not QDesktopServices.openUrl(QUrl.fromLocalFile(str(folder))):
        words = "No program could show this folder."
        tell(parent, words, str(folder), title=show_in_files_words())

"""Files that the Mac's Finder asks the running program to open: a double click on a saved run.

Files that arrive before there is a window wait for it. Main thread.
"""

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QEvent, QObject
from PySide6.QtGui import QFileOpenEvent


class OpenedFiles(QObject):
    """Handles the requests that the system sends to the application, its parent."""

    def __init__(self, application: QObject) -> None:
        super().__init__(application)
        self._open: Callable[[Path], None] | None = None
        self._waiting: list[Path] = []
        application.installEventFilter(self)

    def deliver_to(self, open_file: Callable[[Path], None]) -> None:
        """Open files with a function from now on, starting with those that are waiting."""
        self._open = open_file
        waiting, self._waiting = self._waiting, []
        for path in waiting:
            open_file(path)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802 - Qt's name
        """Handle a request to open a file."""
        if isinstance(event, QFileOpenEvent) and event.file():
            path = Path(event.file())
            if self._open is None:
                self._waiting.append(path)
            else:
                self._open(path)
            return True
        return super().eventFilter(watched, event)

"""Qt's application: handles the system's requests to quit and to open files. Main thread."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent
from PySide6.QtGui import QFileOpenEvent
from PySide6.QtWidgets import QApplication

from app import __version__
from ui.kit.dates import use_iso_dates_without_region

if TYPE_CHECKING:
    from ui.window.main_window import MainWindow


class Application(QApplication):
    """Handles requests to quit, and to open files, which wait until there is a window."""

    def __init__(self, arguments: Sequence[str] = ()) -> None:
        use_iso_dates_without_region()
        super().__init__(list(arguments or sys.argv[:1]))
        self._window: MainWindow | None = None
        self._waiting: list[Path] = []
        self.setApplicationName("fullstop")
        self.setApplicationDisplayName("Fullstop")
        self.setApplicationVersion(__version__)
        self.setDesktopFileName("fullstop")
        # The loop must outlive the window until answers, server and engine have ended.
        self.setQuitOnLastWindowClosed(False)

    def attach_window(self, window: "MainWindow") -> None:
        """Let a window handle what the system asks, beginning with the files that are waiting."""
        self._window = window
        waiting, self._waiting = self._waiting, []
        for path in waiting:
            window.open_run(path)

    def detach(self) -> None:
        self._window = None

    def event(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Quit and self._window is not None:
            self._window.quit()
            return True
        if isinstance(event, QFileOpenEvent) and event.file():
            path = Path(event.file())
            if self._window is None:
                self._waiting.append(path)
            else:
                self._window.open_run(path)
            return True
        return super().event(event)

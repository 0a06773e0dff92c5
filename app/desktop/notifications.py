"""System notifications: by the tray icon, or by ``notify-send`` without a tray.

Main thread.
"""

import shutil
import sys
from collections.abc import Callable

from PySide6.QtCore import QObject, QProcess

_SECONDS_MS = 1000
_SHOWN_MS = 15 * _SECONDS_MS
_CLICKED = b"default"


class CommandNotifications(QObject):
    """Shows notifications with ``notify-send``, which waits for a click and reports it."""

    def __init__(self, program: str, parent: QObject) -> None:
        super().__init__(parent)
        self._program = program
        self.waiting: set[QProcess] = set()

    def show(self, title: str, text: str, chosen: Callable[[], None]) -> None:
        """Show a notification; ``chosen`` is called when a person clicks it."""
        process = QProcess(self)
        self.waiting.add(process)
        process.finished.connect(lambda: self._end(process, chosen))
        process.errorOccurred.connect(lambda _: self._end(process, None))
        options = ["--app-name=Fullstop", "--icon=fullstop", f"--expire-time={_SHOWN_MS}"]
        # A title that begins with a dash is not an option.
        process.start(
            self._program, [*options, "--action=default=Show", "--wait", "--", title, text]
        )

    def close(self) -> None:
        """Stop waiting for clicks."""
        for process in list(self.waiting):
            self.waiting.discard(process)
            process.kill()
            process.waitForFinished(_SECONDS_MS)

    def _end(self, process: QProcess, chosen: Callable[[], None] | None) -> None:
        if process not in self.waiting:
            return
        self.waiting.discard(process)
        said = process.readAllStandardOutput().data()
        process.deleteLater()
        if chosen is not None and _CLICKED in bytes(said).split():
            chosen()


def command_notifications(parent: QObject) -> CommandNotifications | None:
    """Return a way to show notifications without a tray; None if the system has none."""
    program = None if sys.platform == "darwin" else shutil.which("notify-send")
    return None if program is None else CommandNotifications(program, parent)

"""The tray and notifications: how the program is present without its window."""

import contextlib
import shutil
import sys
from collections.abc import Callable, Iterator

from PySide6.QtCore import QObject, QProcess

from ui.preferences.preferences_state import PreferencesState
from ui.window.main_window import MainWindow
from ui.window.tray import Tray, has_tray

# System notifications: by the tray icon, or by ``notify-send`` without a tray.
#
# Main thread.

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


# Keeps the program alive in the tray when its window is closed. Main thread.


@contextlib.contextmanager
def in_tray(window: MainWindow, preferences: PreferencesState) -> Iterator[None]:
    """Show an icon in the tray, if there is one, so that the program runs on without its window."""
    switch = window.workspace.server
    if not has_tray():
        with _told_by_command(window):
            yield
        return
    tray = Tray(
        window.theme,
        switch,
        window,
        show=window.come_forward,
        show_server=window.others.show_server,
        quit=window.quit,
    )
    window.goes_on_when_closed = lambda: preferences.now.stays_in_tray and switch.is_wanted
    tray.show()
    window.notices.deliver = tray.notify
    try:
        yield
    finally:
        window.notices.deliver = None
        tray.close()


@contextlib.contextmanager
def _told_by_command(window: MainWindow) -> Iterator[None]:
    """Show notifications without a tray, if the system has a program for that."""
    notifications = command_notifications(window)
    if notifications is None:
        yield
        return
    window.notices.deliver = notifications.show
    try:
        yield
    finally:
        window.notices.deliver = None
        notifications.close()

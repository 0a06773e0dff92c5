"""Keeps the program alive in the tray when its window is closed. Main thread."""

import contextlib
from collections.abc import Iterator

from app.desktop.notifications import command_notifications
from ui.preferences.preferences_state import PreferencesState
from ui.window.main_window import MainWindow
from ui.window.tray import Tray, has_tray


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

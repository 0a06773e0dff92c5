"""Keeps the program alive in the tray when its window is closed. Main thread."""

import contextlib
from collections.abc import Iterator

from ui.preferences.preferences_state import PreferencesState
from ui.window.main_window import MainWindow
from ui.window.tray import Tray, has_tray


@contextlib.contextmanager
def in_tray(window: MainWindow, preferences: PreferencesState) -> Iterator[None]:
    """Show an icon in the tray, where there is one, with which a closed window lives on."""
    switch = window.workspace.server
    if not has_tray():
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
    try:
        yield
    finally:
        tray.close()

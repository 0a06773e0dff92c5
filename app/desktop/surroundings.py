"""What surrounds the window: tray, other starts of the program, and what is kept for next time.

Main thread.
"""

import contextlib
import logging
from collections.abc import Iterator
from pathlib import Path

from app.desktop.single_instance import SingleInstance
from app.folders import paths
from app.folders.privacy import made_private
from app.settings.options import ChatOptions
from app.settings.stored_preferences import StoredPreferences
from ui.kit.system.boxes import report_failure
from ui.preferences.preferences import PreferencesState
from ui.window.main_window import MainWindow
from ui.window.tray import Tray, has_tray

_log = logging.getLogger(__name__)


@contextlib.contextmanager
def only_instance() -> Iterator[SingleInstance | None]:
    """Yield the place of the one running program; None if another has it, which was told."""
    try:
        folder = made_private(paths.config_folder())
    except OSError as error:
        # Where nothing can be kept, starts cannot know of each other.
        _log.warning("no folder for settings: %s", error)
        folder = paths.config_folder()
    instance = SingleInstance(folder)
    if not instance.claim() and instance.ask_to_show():
        yield None
        return
    try:
        yield instance
    finally:
        instance.release()


@contextlib.contextmanager
def shown_on_demand(window: MainWindow, instance: SingleInstance | None) -> Iterator[None]:
    """Bring the window forward when the program is started again."""
    if instance is not None:
        instance.show_wanted.connect(window.come_forward)
    try:
        yield
    finally:
        if instance is not None:
            instance.show_wanted.disconnect(window.come_forward)


@contextlib.contextmanager
def in_tray(window: MainWindow, preferences: PreferencesState) -> Iterator[None]:
    """Show an icon in the tray, where there is one, with which a closed window lives on."""
    switch = window.workspace.server
    if switch is None or not has_tray():
        yield
        return
    tray = Tray(window.theme, switch, window)
    tray.show_wanted.connect(window.come_forward)
    tray.server_wanted.connect(window.show_server)
    tray.quit_wanted.connect(window.quit)
    window.goes_on_when_closed = lambda: preferences.now.stays_in_tray and switch.is_wanted
    tray.show()
    try:
        yield
    finally:
        tray.close()


def chosen_model(options: ChatOptions, stored: StoredPreferences) -> Path:
    """Return the model that was asked for, or else the one that was used last."""
    if options.model == paths.demo_model() and stored.last_model is not None:
        return stored.last_model
    return options.model


def keep_for_next_time(window: MainWindow, stored: StoredPreferences) -> None:
    """Keep the window's place and the model that is loaded."""
    try:
        stored.keep_window_layout(window.save_layout())
        info = window.workspace.model.info
        if info is not None:
            stored.keep_last_model(None if info.path == paths.demo_model() else info.path)
    except OSError as error:
        _log.warning("the window's place is not kept: %s", error)


def tell(window: MainWindow, notice: str) -> None:
    """Say something that a person should know once; nothing if there is nothing to say."""
    if not notice:
        return
    _log.warning("%s", notice)
    report_failure(window, "Some of your settings could not be read", notice, title="Settings")

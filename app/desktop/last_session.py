"""Keeps the window's layout and its last model for the next start.

Main thread.
"""

import logging
from pathlib import Path

from app.folders import paths
from app.settings.options import ChatOptions
from app.settings.stored_preferences import StoredPreferences
from ui.kit.system.boxes import report_failure
from ui.window.main_window import MainWindow

_log = logging.getLogger(__name__)


def chosen_model(options: ChatOptions, stored: StoredPreferences) -> Path:
    """Return the requested model, or else the one that was used last."""
    if options.model == paths.demo_model() and stored.last_model is not None:
        return stored.last_model
    return options.model


def keep_for_next_time(window: MainWindow, stored: StoredPreferences) -> None:
    """Keep the window's layout and the loaded model."""
    try:
        stored.keep_window_layout(window.save_layout())
        info = window.workspace.model.info
        if info is not None:
            stored.keep_last_model(None if info.path == paths.demo_model() else info.path)
    except OSError as error:
        _log.warning("the window's layout cannot be saved: %s", error)


def tell(window: MainWindow, notice: str) -> None:
    """Show a notice to the person once, if there is one."""
    if not notice:
        return
    _log.warning("%s", notice)
    report_failure(window, "Some of your settings could not be read", notice, title="Settings")

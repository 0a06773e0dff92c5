"""The settings file as the window sees it: preferences, the last model, the window's layout.

Fits ``ui.preferences.preferences_state.PreferencesStore``. Any thread: changes are kept in turn.
"""

import base64
import binascii
import os
import threading
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from app.settings.settings_file import SettingsFile
from ui.preferences.preferences import Preferences


class StoredPreferences:
    """Reads the settings once and saves every change.

    Attributes:
        notice: A notice for the person about a damaged file; empty if the file was fine.
    """

    def __init__(self, folder: Path) -> None:
        self._lock = threading.Lock()
        self._file = SettingsFile(folder)
        loaded = self._file.load()
        self.notice = loaded.notice
        self._settings = loaded.settings
        self._is_unsaved = False

    def preferences(self) -> Preferences:
        """Return the saved preferences."""
        return Preferences(**_fields_of(self._settings))

    def keep(self, preferences: Preferences) -> None:
        """Keep preferences.

        Raises:
            OSError: They cannot be written.
        """
        self._save(**_fields_of(preferences))

    @property
    def last_model(self) -> Path | None:
        """The folder of the model that was used last; None if unknown or gone."""
        path = self._settings.last_model
        # Unlike ``Path.is_dir``, this does not raise for an invalid path.
        return Path(path) if path and os.path.isdir(path) else None

    def keep_last_model(self, path: Path | None) -> None:
        """Keep the folder of the model that is used; None for the demo model.

        Raises:
            OSError: It cannot be written.
        """
        self._save(last_model="" if path is None else str(path))

    @property
    def window_layout(self) -> bytes:
        """Size, place and columns of the window; empty if not known."""
        try:
            return base64.b64decode(self._settings.window_layout, validate=True)
        except (binascii.Error, ValueError):
            return b""

    def keep_window_layout(self, layout: bytes) -> None:
        """Keep size, place and columns of the window.

        Raises:
            OSError: They cannot be written.
        """
        self._save(window_layout=base64.b64encode(layout).decode())

    def _save(self, **fields: Any) -> None:
        with self._lock:
            settings = replace(self._settings, **fields)
            if settings != self._settings or self._is_unsaved:
                self._settings, self._is_unsaved = settings, True
                self._file.save(settings)
                self._is_unsaved = False


def _fields_of(preferences: Preferences) -> dict[str, Any]:
    """Return only the preferences among the settings."""
    return {one.name: getattr(preferences, one.name) for one in fields(Preferences)}

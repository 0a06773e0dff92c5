"""Between the settings file and the window's preferences: the one mapping, and keeping changes.

Fits ``ui.preferences.preferences.PreferencesStore``. Any thread: changes are kept one at a time.
"""

import base64
import binascii
import os
import threading
from dataclasses import asdict
from pathlib import Path

from app.settings.settings_file import (
    ModelSettings,
    NewConversationSettings,
    ServerSettings,
    Settings,
    SettingsFile,
)
from ui.preferences.preferences import ModelPreferences, Preferences, ServerPreferences
from ui.records.conversations import ConversationSettings


class StoredPreferences:
    """The settings file as the window sees it.

    Attributes:
        notice: What a person should know of how the file was found; empty where all was well.
    """

    def __init__(self, folder: Path) -> None:
        self._lock = threading.Lock()
        self._file = SettingsFile(folder)
        loaded = self._file.load()
        self.notice = loaded.notice
        self._settings = loaded.settings

    def preferences(self) -> Preferences:
        """Return the preferences as they were kept."""
        return preferences_of(self._settings)

    def keep(self, preferences: Preferences) -> None:
        """Keep preferences.

        Raises:
            OSError: They cannot be written.
        """
        begin = preferences.new_conversation
        self._save(
            theme=preferences.theme,
            has_high_contrast=preferences.has_high_contrast,
            text_percent=preferences.text_percent,
            stays_in_tray=preferences.stays_in_tray,
            server=ServerSettings(**asdict(preferences.server)),
            models=ModelSettings(**asdict(preferences.models)),
            new_conversation=NewConversationSettings(
                system_prompt=begin.system_prompt,
                temperature=begin.temperature,
                max_tokens=begin.max_tokens,
                is_thinking=begin.is_thinking,
            ),
        )

    @property
    def last_model(self) -> Path | None:
        """The folder of the model that was used last; None where it is not known or has gone."""
        path = self._settings.last_model
        # Unlike a Path's, this question has an answer for what can be no path at all.
        return Path(path) if path and os.path.isdir(path) else None

    def keep_last_model(self, path: Path | None) -> None:
        """Keep the folder of the model that is used; None for the one that comes with us.

        Raises:
            OSError: It cannot be written.
        """
        self._save(last_model="" if path is None else str(path))

    @property
    def window_layout(self) -> bytes:
        """Size, place and columns of the window; empty where they are not known."""
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

    def _save(self, **fields: object) -> None:
        with self._lock:
            settings = self._settings.model_copy(update=fields)
            if settings != self._settings:
                self._settings = settings
                self._file.save(settings)


def preferences_of(settings: Settings) -> Preferences:
    """Return the part of the settings that a person may change."""
    return Preferences(
        theme=settings.theme,
        has_high_contrast=settings.has_high_contrast,
        text_percent=settings.text_percent,
        stays_in_tray=settings.stays_in_tray,
        server=ServerPreferences(**settings.server.model_dump()),
        models=ModelPreferences(**settings.models.model_dump()),
        new_conversation=ConversationSettings(**settings.new_conversation.model_dump()),
    )

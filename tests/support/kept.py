"""Preferences that are kept only in memory."""

from ui.preferences.preferences import Preferences
from ui.preferences.preferences_state import PreferencesState


class MemoryPreferences:
    def __init__(self) -> None:
        self.kept: Preferences | None = None

    def keep(self, preferences: Preferences) -> None:
        self.kept = preferences


def preferences_state(preferences: Preferences | None = None) -> PreferencesState:
    """Return preferences, the usual ones unless others are given."""
    return PreferencesState(preferences or Preferences(), MemoryPreferences())

"""Preferences that are kept only in memory, and a folder in which no file can be set aside."""

import errno
import os
from pathlib import Path

import pytest

from engine import Engine
from engine.library.local_models import ModelFolders
from ui.models.model_choices import ChoicesState
from ui.models.model_library import ModelLibrary
from ui.models.models import Models
from ui.preferences import Preferences
from ui.preferences_state import PreferencesState
from ui.stops.stop_lists import StopLists


def preferences_state(preferences: Preferences | None = None) -> PreferencesState:
    """Return preferences, the usual ones without motion unless others are given."""
    usual = Preferences(reduces_motion=True)
    return PreferencesState(preferences or usual, lambda _: None)


def model_library(engine: Engine) -> ModelLibrary:
    """Return a library of the engine's models, without folders of others."""
    preferences = preferences_state()
    models = Models(engine, ChoicesState(preferences))
    return ModelLibrary(models, preferences, ModelFolders())


def saved_stop_lists(preferences: Preferences | None = None) -> StopLists:
    state = preferences_state(preferences)
    return StopLists(state, ChoicesState(state))


def nothing_is_set_aside(patched: pytest.MonkeyPatch) -> None:
    """Let no damaged file be renamed; all other files are."""
    rename = os.replace

    def refuse(source: str | Path, target: str | Path) -> None:
        if ".set-aside-" in str(target):
            raise PermissionError(errno.EACCES, "Permission denied")
        rename(source, target)

    patched.setattr(os, "replace", refuse)

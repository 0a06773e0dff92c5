"""The settings file of the window: JSON, checked, written atomically. Main thread."""

import base64
import binascii
import json
import os
import threading
from dataclasses import asdict, dataclass, fields, replace
from itertools import takewhile
from pathlib import Path
from typing import Any

from api.terminal_text import on_one_line
from app.damaged_files import OverwriteGuard, is_damage
from app.paths import SETTINGS_FILE
from app.private_files import access_problem, made_private
from app.settings.checks import checks_of
from engine.files.causes import os_cause
from engine.files.json_fields import from_values
from engine.files.safe_files import read_bounded, write_whole
from ui.preferences import Preferences, declare

VERSION = 1

_EARLIER_CHOICES = {
    "drafts": "draft",
    "pinned": "is_pinned",
    "settings": "settings",
    "last_used": "used_at",
}


@dataclass(frozen=True, slots=True)
class Settings(Preferences):
    """The preferences, and values that the program stores for itself."""

    last_model: str = declare("", help="folder of the model that was used last")
    window_layout: str = declare("", help="size, place and columns of the window")


class SettingsFile:
    """The file in a folder. Settings that this version does not know stay in the file."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / SETTINGS_FILE
        self._damaged = OverwriteGuard(self.path)
        self._is_unread = False
        self._stored: dict[str, Any] = {}

    def load(self) -> tuple[Settings, str]:
        """Return the settings and a notice; an unusable file is kept, never overwritten."""
        try:
            values = json.loads(read_bounded(self.path).decode("utf-8"))
        except FileNotFoundError:
            return Settings(), ""
        except UnicodeDecodeError:
            return self._set_aside("it is not text")
        except OSError as error:
            if is_damage(error):
                return self._set_aside(os_cause(error))
            cause = access_problem(self.path, os.R_OK) or os_cause(error)
            self._is_unread = True
            return Settings(), (
                f"The settings file could not be read: {cause}. The default settings are used, and "
                "no change is saved."
            )
        except json.JSONDecodeError as error:
            return self._set_aside(f"line {error.lineno} is not valid JSON")
        except (ValueError, RecursionError):
            return self._set_aside("it is not valid JSON")
        if not isinstance(values, dict):
            return self._set_aside("it does not contain a JSON object")
        self._stored = values
        values = json.loads(json.dumps(values))
        models = values.get("models")
        if isinstance(models, dict) and "choices" not in models:
            models["choices"] = _joined_choices(models)
        return self._check(values)

    def save(self, settings: Settings) -> None:
        """Write the settings atomically; ``OSError`` also if a damaged file would be lost."""
        made_private(self.path.parent)
        if self._is_unread and os.path.lexists(self.path):
            raise OSError(f"{self.path.name} could not be read at the start, and is kept")
        self._damaged.check_writable()
        values = _merge(self._stored, json.loads(json.dumps(asdict(settings))))
        version = self._stored.get("version")
        values["version"] = max(version if type(version) is int else VERSION, VERSION)
        write_whole(self.path, json.dumps(values, indent=2) + "\n")

    def _check(self, values: dict[str, Any]) -> tuple[Settings, str]:
        from pydantic import ValidationError

        values.pop("version", None)
        invalid: set[str] = set()
        while True:
            try:
                checked = checks_of(Settings).model_validate(values)
                break
            except ValidationError as error:
                for problem in error.errors(include_url=False):
                    # Of a list's item, the whole list is dropped.
                    path = takewhile(lambda part: isinstance(part, str), problem["loc"])
                    *sections, name = map(str, path)
                    section: Any = values
                    for part in sections:
                        section = section.get(part, {})
                    section.pop(name, None)
                    if problem["type"] != "extra_forbidden":
                        invalid.add(".".join((*sections, name)))
        settings: Settings = from_values(Settings, checked.model_dump(mode="json"))
        if not invalid:
            return settings, ""
        # Names in a damaged file may be very long
        names = on_one_line(", ".join(sorted(invalid)), 300)
        return (settings, f"{self.path.name} contains invalid settings: {names}. The others apply.")

    def _set_aside(self, reason: str) -> tuple[Settings, str]:
        notice = f"The settings file could not be used: {reason}. {self._damaged.set_aside()}"
        return Settings(), f"{notice} The default settings are used."


def _joined_choices(models: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the choices for each model, of which earlier versions had one list for each kind."""
    joined: dict[str, dict[str, Any]] = {}
    for kind, name in _EARLIER_CHOICES.items():
        items = models.get(kind)
        for item in items if isinstance(items, list) else ():
            match item:
                case str(folder) if kind == "pinned":
                    value: Any = True
                case [str(folder), value]:
                    pass
                case _:
                    continue
            joined.setdefault(folder, {"folder": folder})[name] = value
    return list(joined.values())


def _merge(stored: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
    """Return the stored values with new ones; unknown names are kept."""
    merged = dict(stored)
    for name, value in values.items():
        before = stored.get(name)
        if isinstance(before, dict) and isinstance(value, dict):
            value = _merge(before, value)
        merged[name] = value
    return merged


class StoredPreferences:
    """Reads the settings once and saves every change. Fits ``ui.preferences_state``."""

    def __init__(self, folder: Path) -> None:
        self._lock = threading.Lock()
        self._file = SettingsFile(folder)
        self._settings, self.notice = self._file.load()
        self._is_unsaved = False

    def preferences(self) -> Preferences:
        return Preferences(**_preference_values(self._settings))

    def save(self, preferences: Preferences) -> None:
        self._save(**_preference_values(preferences))

    @property
    def last_model(self) -> Path | None:
        path = self._settings.last_model
        # Unlike ``Path.is_dir``, this does not raise for an invalid path.
        return Path(path) if path and os.path.isdir(path) else None

    def save_last_model(self, path: Path | None) -> None:
        self._save(last_model="" if path is None else str(path))

    @property
    def window_layout(self) -> bytes:
        """Size, position and columns of the window; empty if not known."""
        try:
            return base64.b64decode(self._settings.window_layout, validate=True)
        except (binascii.Error, ValueError):
            return b""

    def save_window_layout(self, layout: bytes) -> None:
        self._save(window_layout=base64.b64encode(layout).decode())

    def _save(self, **changes: Any) -> None:
        with self._lock:
            settings = replace(self._settings, **changes)
            if settings != self._settings or self._is_unsaved:
                self._settings, self._is_unsaved = settings, True
                self._file.save(settings)
                self._is_unsaved = False


def _preference_values(preferences: Preferences) -> dict[str, Any]:
    return {field.name: getattr(preferences, field.name) for field in fields(Preferences)}

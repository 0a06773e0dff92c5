"""The window's settings file: read with a check of every value, written whole."""

import base64
import binascii
import itertools
import json
import logging
import os
import threading
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, fields, replace
from functools import cache
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

from api.terminal_text import on_one_line
from app.paths import DamagedFileKeeper, made_private
from engine.files.causes import os_cause
from engine.files.json_fields import from_values
from engine.files.safe_files import read_bounded, write_whole
from ui.preferences import Declaration, Declared, Preferences, declare, declared

if TYPE_CHECKING:
    from pydantic import BaseModel

# Checks external values against declared settings.
#
# The checks are pydantic models made from the declarations, so that each limit is declared once.

T = TypeVar("T")


@cache
def checks_of(kind: type) -> "type[BaseModel]":
    """Return the model that checks the settings of a dataclass and of its nested dataclasses.

    Paths are texts and tuples are lists, as in files and on the command line. Unknown names are
    errors, and numbers are finite.
    """
    from pydantic import ConfigDict, Field, create_model  # help and most commands do without it

    hints = get_type_hints(kind)
    said = {option.name: option for option in declared(kind) if "." not in option.path}
    checked: dict[str, Any] = {}
    for field_ in fields(kind):
        if field_.name in said:
            checked[field_.name] = _check(said[field_.name])
        else:
            inner = checks_of(hints[field_.name])
            checked[field_.name] = (inner, Field(default_factory=inner))
    finite = ConfigDict(extra="forbid", allow_inf_nan=False)
    return create_model(kind.__name__, __config__=finite, **checked)


def _check(option: Declared) -> tuple[Any, Any]:
    default = list(option.default) if isinstance(option.default, tuple) else option.default
    if isinstance(default, Path):
        default = str(default)
    return _spelled(option.kind, option.setting), default


def _spelled(kind: Any, said: Declaration) -> Any:
    """Return the external type of a value of ``kind``, with its limits."""
    from pydantic import Field

    if isinstance(kind, UnionType):
        item, _ = get_args(kind)
        return _spelled(item, said) | None
    if kind is Path:
        return Annotated[str, Field(min_length=1)]
    if kind in (int, float):
        above = said.least if said.excludes_least else None
        minimum = None if said.excludes_least else said.least
        return Annotated[kind, Field(gt=above, ge=minimum, le=said.most)]
    if get_origin(kind) is tuple and get_args(kind)[-1] is Ellipsis:
        return list[get_args(kind)[0]]  # type: ignore[misc]
    return kind


# The settings file: JSON, checked, with a version, written atomically.
#
# Main thread; the file is a few kilobytes.

FILE_NAME = "settings.json"
VERSION = 1

# Names in a damaged file may be very long.
_SHOWN_CHARS = 300

FieldPath = tuple[str, ...]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Settings(Preferences):
    """Everything that is kept between runs, except conversations and models.

    The preferences, and values that the program keeps for itself.
    """

    last_model: str = declare("", help="folder of the model that was used last")
    window_layout: str = declare("", help="size, place and columns of the window")


@dataclass(frozen=True, slots=True)
class LoadedSettings:
    """Settings as they were loaded."""

    settings: Settings
    notice: str = ""


class SettingsFile:
    """The file in a folder.

    Settings that this version does not understand, written by a later version or by hand, stay in
    the file.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE_NAME
        self._damaged = DamagedFileKeeper(self.path)
        self._version = VERSION
        self._foreign: dict[FieldPath, Any] = {}

    def load(self) -> LoadedSettings:
        """Return the settings. A file that cannot be used is set aside, never overwritten."""
        try:
            raw = read_bounded(self.path).decode("utf-8")
        except FileNotFoundError:
            return LoadedSettings(Settings())
        except UnicodeDecodeError:
            return self._set_aside("it is not text")
        except OSError as error:
            # Set aside as well: the next change of a setting would take its place.
            return self._set_aside(os_cause(error))
        try:
            values = json.loads(raw)
        except json.JSONDecodeError as error:
            return self._set_aside(f"line {error.lineno} is not valid JSON")
        except (ValueError, RecursionError):
            return self._set_aside("it is not valid JSON")
        if not isinstance(values, dict):
            return self._set_aside("it does not contain a JSON object")
        return self._understood(values)

    def save(self, settings: Settings) -> None:
        """Write the settings atomically.

        Raises:
            OSError: They cannot be written, or a damaged file would be lost by that.
        """
        made_private(self.path.parent)
        self._damaged.make_room()
        values, usual = _as_json(settings), _as_json(Settings())
        for place, foreign in self._foreign.items():
            # A value that the person has chosen here meanwhile takes precedence.
            if _at(values, place) == _at(usual, place):
                _put(values, place, foreign)
        values["version"] = self._version
        write_whole(self.path, json.dumps(values, indent=2) + "\n")

    def _understood(self, values: dict[str, Any]) -> LoadedSettings:
        """Return the settings that this version understands, and keep the others."""
        from pydantic import ValidationError

        values = migrated(values)
        self._version = values.pop("version")
        self._foreign = {}
        while True:
            try:
                checked = checks_of(Settings).model_validate(values)
                break
            except ValidationError as error:
                places = {_field(problem["loc"]) for problem in error.errors(include_url=False)}
            for place in places:
                self._foreign[place] = _taken(values, place)
        settings: Settings = from_values(Settings, checked.model_dump(mode="json"))
        if not self._foreign:
            return LoadedSettings(settings)
        listed = ", ".join(sorted(".".join(place) for place in self._foreign))
        names = on_one_line(listed, _SHOWN_CHARS)
        _log.warning("settings that are not understood: %s", names)
        if self._version > VERSION:
            return LoadedSettings(settings)  # a later version knows what they mean
        return LoadedSettings(
            settings,
            f"{self.path.name} contains settings that this version does not understand: {names}. "
            "They stay in the file. The others apply.",
        )

    def _set_aside(self, reason: str) -> LoadedSettings:
        kept = self._damaged.set_aside()
        return LoadedSettings(
            Settings(),
            f"The settings file could not be used: {reason}. {kept} The default settings are used.",
        )


def _as_json(settings: Settings) -> dict[str, Any]:
    """Return settings as JSON values, with tuples as lists."""
    values: dict[str, Any] = json.loads(json.dumps(asdict(settings)))
    return values


def migrated(values: dict[str, Any]) -> dict[str, Any]:
    """Return the file's values, migrated to the current version.

    A file of a later version keeps its version number.
    """
    version = values.get("version", 0)
    if type(version) is not int or version < 0:
        version = 0
    for step in _STEPS[version:]:
        values = step(values)
    return {**values, "version": max(version, VERSION)}


def _to_1(value: dict[str, Any]) -> dict[str, Any]:
    """Files written by hand may leave the version out."""
    return {**value, "version": 1}


_STEPS: tuple[Callable[[dict[str, Any]], dict[str, Any]], ...] = (_to_1,)


def _field(place: Iterable[str | int]) -> FieldPath:
    """Return the field of a problem; for an item of a list, the whole list."""
    return tuple(itertools.takewhile(lambda part: isinstance(part, str), place))  # type: ignore[arg-type]


def _at(values: dict[str, Any], place: FieldPath) -> Any:
    value: Any = values
    for part in place:
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _put(values: dict[str, Any], place: FieldPath, value: Any) -> None:
    *outer, name = place
    section = _at(values, tuple(outer))
    if isinstance(section, dict):
        section[name] = value


def _taken(values: dict[str, Any], place: FieldPath) -> Any:
    *outer, name = place
    return _at(values, tuple(outer)).pop(name)


# The settings file as the window sees it: preferences, the last model, the window's layout.
#
# Fits ``ui.preferences_state.PreferencesStore``.


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
    return {field_.name: getattr(preferences, field_.name) for field_ in fields(Preferences)}

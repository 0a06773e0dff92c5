"""The settings file: JSON, checked, with a version, written atomically.

Knows no toolkit. Main thread; the file is a few kilobytes.
"""

import itertools
import json
import logging
import math
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from api.conformance.captures.values import on_one_line
from app.folders.privacy import made_private
from app.folders.set_aside import set_aside
from app.settings.checking import checks_of, made
from engine.files.bounded import read_bounded
from engine.files.causes import os_cause
from engine.files.whole_file import write_whole
from ui.preferences.declaring import declare
from ui.preferences.preferences import Preferences

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
            values = json.loads(raw, parse_constant=_beyond, parse_float=_number)
        except json.JSONDecodeError as error:
            return self._set_aside(f"line {error.lineno} is not valid JSON")
        except (ValueError, RecursionError):
            return self._set_aside("it is not valid JSON")
        if not isinstance(values, dict):
            return self._set_aside("it does not contain a JSON object")
        return self._understood(values)

    def save(self, settings: Settings) -> None:
        """Write the settings atomically."""
        made_private(self.path.parent)
        values, usual = _as_json(settings), _as_json(Settings())
        for place, foreign in self._foreign.items():
            # A value that the person has chosen here meanwhile takes precedence.
            if _at(values, place) == _at(usual, place):
                _put(values, place, foreign)
        values["version"] = self._version
        write_whole(self.path, _text_of(values) + "\n")

    def _understood(self, values: dict[str, Any]) -> LoadedSettings:
        """Return the settings that this version understands, and keep the others."""
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
        settings = made(Settings, checked.model_dump())
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
        kept = set_aside(self.path)
        return LoadedSettings(
            Settings(),
            f"The settings file could not be used: {reason}. {kept} The default settings are used.",
        )


@dataclass(frozen=True, slots=True)
class _Beyond:
    """A number beyond a float's range, which ``json`` would write as ``Infinity``."""

    text: str


# Earlier versions wrote ``Infinity``, which is not JSON.
_WORDS = {"Infinity": "1e999", "-Infinity": "-1e999", "NaN": "null"}


def _beyond(word: str) -> _Beyond:
    return _Beyond(_WORDS[word])


def _number(text: str) -> float | _Beyond:
    value = float(text)
    return _Beyond(text) if math.isinf(value) else value


def _text_of(values: dict[str, Any]) -> str:
    """Return values as JSON; numbers beyond a float's range stay as they were written."""
    beyond: list[_Beyond] = []

    def placeholder(value: object) -> str:
        if not isinstance(value, _Beyond):
            raise TypeError(f"a {type(value).__name__} cannot be a setting")
        beyond.append(value)
        return f"\0{len(beyond)}\0"

    text = json.dumps(values, indent=2, allow_nan=False, default=placeholder)
    for number, value in enumerate(beyond, 1):
        text = text.replace(json.dumps(f"\0{number}\0"), value.text)
    return text


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
    found: Any = values
    for part in place:
        found = found.get(part) if isinstance(found, dict) else None
    return found


def _put(values: dict[str, Any], place: FieldPath, value: Any) -> None:
    *outer, name = place
    section = _at(values, tuple(outer))
    if isinstance(section, dict):
        section[name] = value


def _taken(values: dict[str, Any], place: FieldPath) -> Any:
    *outer, name = place
    return _at(values, tuple(outer)).pop(name)

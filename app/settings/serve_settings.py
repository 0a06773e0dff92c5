"""Resolves the settings of ``fullstop serve``: command line, then environment, then file.

All three are checked in the same way; an error names the source, the setting and a remedy. Must not
start anything. Main thread, at start-up.
"""

import difflib
import errno
import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_origin

from pydantic import ValidationError

from app.folders import paths
from app.process import exits
from app.process.exits import CommandError
from app.settings.checking import checks_of, made
from app.settings.serve_options import API_KEY_VARIABLE, PREFIX, ServeOptions
from engine.files.bounded import read_bounded
from engine.files.causes import os_cause
from ui.preferences.declaring import declared

FILE_NAME = "serve.toml"

_SETTINGS = "settings"
_COMMAND_LINE = "command line"
_KEYS = {"api_key", "api_key_file"}
_MOST_KEY_BYTES = 64 << 10
_DECLARED = {one.name: one for one in declared(ServeOptions)}


def resolve(given: Mapping[str, Any], environment: Mapping[str, str]) -> ServeOptions:
    """Return the options of a server."""
    file = _file(given, environment)
    from_file = {} if file is None else _with_lists(_read(file))
    _check(from_file, str(file), is_strict=True)
    from_environment = _from_environment(environment)
    _check(from_environment, "environment")
    from_words = {
        name: str(value) if isinstance(value, Path) else value
        for name, value in given.items()
        if name in _DECLARED and value is not None
    }
    _check(from_words, _COMMAND_LINE)
    for place, source in (
        (str(file), from_file),
        ("environment", from_environment),
        (_COMMAND_LINE, from_words),
    ):
        if source.keys() >= _KEYS:
            raise CommandError(_either(place), exits.USAGE)
    values = _merged(from_file, from_environment, from_words)
    checked = checks_of(ServeOptions).model_validate(values).model_dump(exclude_unset=True)
    if "model" in checked:
        checked["model"] = [str(paths.model_folder(one)) for one in checked["model"] if one]
    if checked.get("draft_model"):
        checked["draft_model"] = paths.model_folder(checked["draft_model"])
    if "api_key" in checked:
        checked["api_key"] = checked["api_key"] or None  # an empty key would mean no key
    if checked.get("api_key_file"):
        checked["api_key"] = _key_of(Path(checked["api_key_file"]).expanduser())
    return made(ServeOptions, checked)


def _merged(*sources: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of all sources; later ones take precedence."""
    values: dict[str, Any] = {}
    for source in sources:
        if source.keys() & _KEYS:  # a key in one place replaces the file of a key in another
            values = {name: value for name, value in values.items() if name not in _KEYS}
        values |= source
    return values


def _either(place: str) -> str:
    if place == _COMMAND_LINE:
        return "use either --api-key or --api-key-file"
    if place == "environment":
        return f"{API_KEY_VARIABLE} and {API_KEY_VARIABLE}_FILE are both set; unset one of them"
    return f"{place}: api_key and api_key_file are both given; leave out one of them"


def _key_of(file: Path) -> str:
    """Return the first line of a file; no error quotes it."""
    try:
        lines = read_bounded(file, _MOST_KEY_BYTES).decode("utf-8-sig").splitlines()
    except OSError as error:
        cause = "it is too large for a key" if error.errno == errno.EFBIG else os_cause(error)
        raise CommandError(
            f"--api-key-file: {file} cannot be read: {cause}", exits.USAGE
        ) from error
    except UnicodeDecodeError:
        raise CommandError(f"--api-key-file: {file} is not UTF-8 text", exits.USAGE) from None
    key = lines[0].strip() if lines else ""
    if not key:
        raise CommandError(
            f"--api-key-file: {file} has no key on its first line; write the key there", exits.USAGE
        )
    return key


def _file(given: Mapping[str, Any], environment: Mapping[str, str]) -> Path | None:
    """Return the file to read; a named file must exist, the usual one need not."""
    named = given.get(_SETTINGS) or environment.get(f"{PREFIX}{_SETTINGS.upper()}")
    if named:
        return Path(named).expanduser()
    usual = paths.config_folder() / FILE_NAME
    return usual if usual.exists() else None


def _read(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(read_bounded(file).decode("utf-8"))
    except FileNotFoundError:
        raise CommandError(
            f"{file} does not exist; --settings takes a TOML file", exits.USAGE
        ) from None
    except OSError as error:
        raise CommandError(f"{file} cannot be read: {os_cause(error)}", exits.USAGE) from error
    except UnicodeDecodeError:
        raise CommandError(f"{file} is not UTF-8 text; save it as UTF-8", exits.USAGE) from None
    except tomllib.TOMLDecodeError as error:
        raise CommandError(
            f"{file} is not valid TOML: {error}; lines look like {_example('port')} or "
            f"{_example('host')}",
            exits.USAGE,
        ) from None


def _with_lists(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a file; a single model need not be in a list."""
    model = values.get("model")
    return {**values, "model": [model]} if isinstance(model, str) and model else dict(values)


def _from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, one in _DECLARED.items():
        text = environment.get(f"{PREFIX}{name.upper()}")
        if text:  # an empty variable means not set
            parts = [part.strip() for part in text.split(",")]
            is_list = get_origin(one.kind) is tuple
            # A folder's name may contain commas.
            is_one = is_list and Path(text).expanduser().exists()
            several = [text] if is_one else [part for part in parts if part]
            found[name] = several if is_list else text
    return found


def _check(values: Mapping[str, Any], place: str, *, is_strict: bool = False) -> None:
    try:
        checks_of(ServeOptions).model_validate(values, strict=is_strict)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        key = str(first["loc"][0])
        raise CommandError(
            _complaint(place, key, first["type"], first["msg"]), exits.USAGE
        ) from None


def _complaint(place: str, key: str, kind: str, message: str) -> str:
    if kind == "extra_forbidden":
        near = difflib.get_close_matches(key, _DECLARED, 1)
        remedy = f"did you mean {near[0]}?" if near else f"known settings: {', '.join(_DECLARED)}"
        return f"{place}: {key}: unknown setting; {remedy}"
    if place == _COMMAND_LINE:
        return f"--{key.replace('_', '-')}: {message}"
    if place == "environment":
        return f"{PREFIX}{key.upper()} (environment): {message}; correct it or unset it"
    return f"{place}: {key}: {message}; write it like {_example(key)}, or leave it out"


def _example(name: str) -> str:
    """Return a line of the file that sets a value."""
    one = _DECLARED[name]
    said = one.setting.example
    value = True if one.kind is bool else one.default if said is None else said
    return f"{name} = {json.dumps(value)}"  # TOML writes these values like JSON

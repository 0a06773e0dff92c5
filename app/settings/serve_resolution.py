"""Resolves the settings of ``fullstop serve``: command line, then environment, then file.

All three are checked in the same way; an error names the source, the setting and a remedy.
"""

import errno
import json
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_origin

from app import exits, paths
from app.exits import CommandError, did_you_mean
from app.private_files import access_problem
from app.settings.checks import checks_of
from app.settings.serve import PREFIX, ServeOptions
from engine.files.causes import os_cause
from engine.files.json_fields import from_values
from engine.files.safe_files import read_bounded
from ui.preferences import API_KEY_VARIABLE, declared

_SETTINGS = "settings"
_COMMAND_LINE = "command line"
_KEYS = {"api_key", "api_key_file"}
_DECLARED = {option.name: option for option in declared(ServeOptions)}


def resolve_serve_options(given: Mapping[str, Any], environment: Mapping[str, str]) -> ServeOptions:
    """Return the options of a server."""
    file = _file(given, environment)
    from_file = {} if file is None else _with_lists(_read(file))
    _check(from_file, str(file), is_strict=True)
    from_environment = _from_environment(environment)
    _check(from_environment, "environment")
    from_arguments = {
        name: str(value) if isinstance(value, Path) else value
        for name, value in given.items()
        if name in _DECLARED and value is not None
    }
    _check(from_arguments, _COMMAND_LINE)
    for source_name, source in (
        (str(file), from_file),
        ("environment", from_environment),
        (_COMMAND_LINE, from_arguments),
    ):
        if source.keys() >= _KEYS:
            raise CommandError(_either(source_name), exits.USAGE)
    values = _merged(from_file, from_environment, from_arguments)
    checked = checks_of(ServeOptions).model_validate(values).model_dump(exclude_unset=True)
    if "model" in checked:
        checked["model"] = [str(paths.model_folder(model)) for model in checked["model"] if model]
    if checked.get("draft_model"):
        checked["draft_model"] = paths.model_folder(checked["draft_model"])
    if checked.get("chat_template"):
        checked["chat_template"] = paths.typed_path(checked["chat_template"])
    if "api_key" in checked:
        checked["api_key"] = checked["api_key"] or None  # an empty key would mean no key
    if checked.get("api_key_file"):
        checked["api_key"] = _key_of(paths.typed_path(checked["api_key_file"]))
    resolved: ServeOptions = from_values(ServeOptions, checked)
    return resolved


def _merged(*sources: Mapping[str, Any]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for source in sources:
        if source.keys() & _KEYS:  # a key in one source replaces the key file in another
            values = {name: value for name, value in values.items() if name not in _KEYS}
        values |= source
    return values


def _either(source_name: str) -> str:
    if source_name == _COMMAND_LINE:
        return "use either --api-key or --api-key-file"
    if source_name == "environment":
        return f"{API_KEY_VARIABLE} and {API_KEY_VARIABLE}_FILE are both set; unset one of them"
    return f"{source_name}: api_key and api_key_file are both given; leave out one of them"


def _key_of(file: Path) -> str:
    """Return the first line of a file; no error quotes it."""
    try:
        lines = read_bounded(file, 64 << 10).decode("utf-8-sig").splitlines()
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
        return paths.typed_path(named)
    usual = paths.config_folder() / paths.SERVE_FILE
    try:
        usual.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        pass  # reading it fails with the reason; it may require a key, so it cannot be left out
    return usual


def _read(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(read_bounded(file).decode("utf-8"))
    except FileNotFoundError:
        raise CommandError(
            f"{file} does not exist; --settings takes a TOML file", exits.USAGE
        ) from None
    except OSError as error:
        cause = access_problem(file, os.R_OK) or os_cause(error)
        raise CommandError(f"{file} cannot be read: {cause}", exits.USAGE) from error
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
    values: dict[str, Any] = {}
    for name, option in _DECLARED.items():
        text = environment.get(f"{PREFIX}{name.upper()}")
        if text:  # an empty variable means not set
            parts = [part.strip() for part in text.split(",")]
            is_list = get_origin(option.kind) is tuple
            # A folder's name may contain commas.
            is_one = is_list and os.path.exists(paths.typed_path(text))
            several = [text] if is_one else [part for part in parts if part]
            values[name] = several if is_list else text
    return values


def _check(values: Mapping[str, Any], source_name: str, *, is_strict: bool = False) -> None:
    from pydantic import ValidationError

    try:
        checks_of(ServeOptions).model_validate(values, strict=is_strict)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        key = str(first["loc"][0])
        raise CommandError(
            _complaint(source_name, key, first["type"], first["msg"]), exits.USAGE
        ) from None


def _complaint(source_name: str, key: str, kind: str, message: str) -> str:
    if kind == "extra_forbidden":
        near = did_you_mean(key, _DECLARED) or f" Known settings: {', '.join(_DECLARED)}"
        return f"{source_name}: {key}: unknown setting.{near}"
    if source_name == _COMMAND_LINE:
        return f"--{key.replace('_', '-')}: {message}"
    if source_name == "environment":
        return f"{PREFIX}{key.upper()} (environment): {message}; correct it or unset it"
    return f"{source_name}: {key}: {message}; write it like {_example(key)}, or leave it out"


def _example(name: str) -> str:
    option = _DECLARED[name]
    example = option.example
    value = True if option.kind is bool else option.default if example is None else example
    return f"{name} = {json.dumps(value)}"  # TOML writes these values like JSON

"""Where ``fullstop serve`` gets its settings: command line, environment, file, in this order.

All three are checked by one model; a mistake is told with its place, its name and a remedy. Must
not start anything. Main thread, at start-up.
"""

import difflib
import tomllib
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from app.folders import paths
from app.process import exits
from app.process.exits import CommandError
from app.settings.options import DEFAULT_HOST, DEFAULT_PORT, ServeLimits, ServeOptions

FILE_NAME = "serve.toml"
PREFIX = "FULLSTOP_"

_SETTINGS = "settings"
_COMMAND_LINE = "command line"
_LISTS = frozenset({"allow_origin", "allow_host"})
# More of these would not be a limit but a mistake of units.
_Seconds = Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)]
_Count = Annotated[int, Field(ge=1, le=1_000_000)]
_Bytes = Annotated[int, Field(ge=1, le=1 << 50)]


class ServeSettings(BaseModel):
    """Everything that can be set, under the names of the file."""

    model_config = ConfigDict(extra="forbid")

    host: Annotated[str, Field(min_length=1)] = DEFAULT_HOST
    port: Annotated[int, Field(ge=0, le=65535)] = DEFAULT_PORT
    model: Annotated[str, Field(min_length=1)] | None = None
    api_key: str | None = None
    allow_origin: list[str] = Field(default_factory=list)
    allow_host: list[str] = Field(default_factory=list)
    tls_cert: Annotated[str, Field(min_length=1)] | None = None
    tls_key: Annotated[str, Field(min_length=1)] | None = None
    strict: bool = False
    verbose: bool = False
    max_rows: Annotated[int, Field(ge=1, le=1024)] | None = None
    max_waiting: _Count | None = None
    prefill_chunk: _Count | None = None
    context_bytes: _Bytes | None = None
    prompt_cache_bytes: Annotated[int, Field(ge=0, le=1 << 50)] | None = None
    max_body_bytes: _Bytes | None = None
    max_connections: _Count | None = None
    keepalive_s: _Seconds | None = None
    header_timeout_s: _Seconds | None = None
    body_timeout_s: _Seconds | None = None
    idle_timeout_s: _Seconds | None = None
    write_timeout_s: _Seconds | None = None
    stop_grace_s: Annotated[float, Field(ge=0, le=86_400, allow_inf_nan=False)] | None = None


_KEYS = tuple(ServeSettings.model_fields)


def resolve(given: Mapping[str, Any], environment: Mapping[str, str]) -> ServeOptions:
    """Return the options of a server.

    Args:
        given: What stands on the command line, by the names of the settings; ``settings`` is
            the file to read.
        environment: The process's environment.

    Raises:
        CommandError: A value will not do, or the file cannot be used.
    """
    file = _file(given, environment)
    from_file = {} if file is None else _read(file)
    _check(from_file, str(file), is_strict=True)
    from_environment = _from_environment(environment)
    _check(from_environment, "environment")
    from_words = {
        key: str(value) if isinstance(value, Path) else value
        for key, value in given.items()
        if key in _KEYS and value is not None
    }
    _check(from_words, _COMMAND_LINE)
    settings = ServeSettings.model_validate({**from_file, **from_environment, **from_words})
    return ServeOptions(
        model=paths.demo_model() if settings.model is None else paths.model_folder(settings.model),
        host=settings.host,
        port=settings.port,
        api_key=settings.api_key or None,
        allowed_origins=tuple(settings.allow_origin),
        allowed_hosts=tuple(settings.allow_host),
        tls_cert=_path(settings.tls_cert),
        tls_key=_path(settings.tls_key),
        is_strict=settings.strict,
        is_verbose=settings.verbose,
        limits=ServeLimits(
            **{one.name: getattr(settings, one.name) for one in fields(ServeLimits)}
        ),
    )


def _path(text: str | None) -> Path | None:
    return None if text is None else Path(text).expanduser()


def _file(given: Mapping[str, Any], environment: Mapping[str, str]) -> Path | None:
    """Return the file to read; the usual one need not exist, a named one must."""
    named = given.get(_SETTINGS) or environment.get(f"{PREFIX}{_SETTINGS.upper()}")
    if named:
        return Path(named).expanduser()
    usual = paths.config_folder() / FILE_NAME
    return usual if usual.is_file() else None


def _read(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CommandError(
            f"{file} does not exist; --settings takes a TOML file", exits.USAGE
        ) from None
    except OSError as error:
        raise CommandError(f"{file} cannot be read: {error.strerror}", exits.USAGE) from error
    except UnicodeDecodeError:
        raise CommandError(f"{file} is not UTF-8 text; save it as UTF-8", exits.USAGE) from None
    except tomllib.TOMLDecodeError as error:
        raise CommandError(
            f"{file} is not valid TOML: {error}; lines look like port = {DEFAULT_PORT} or "
            'host = "127.0.0.1"',
            exits.USAGE,
        ) from None


def _from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key in _KEYS:
        text = environment.get(f"{PREFIX}{key.upper()}")
        if text:  # an empty variable is as good as none
            parts = [part.strip() for part in text.split(",")]
            found[key] = [part for part in parts if part] if key in _LISTS else text
    return found


def _check(values: Mapping[str, Any], place: str, *, is_strict: bool = False) -> None:
    try:
        ServeSettings.model_validate(values, strict=is_strict)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        key = str(first["loc"][0])
        raise CommandError(
            _complaint(place, key, first["type"], first["msg"]), exits.USAGE
        ) from None


def _complaint(place: str, key: str, kind: str, message: str) -> str:
    if kind == "extra_forbidden":
        near = difflib.get_close_matches(key, _KEYS, 1)
        remedy = f"did you mean {near[0]}?" if near else f"known are {', '.join(_KEYS)}"
        return f"{place}: {key}: there is no such setting; {remedy}"
    if place == _COMMAND_LINE:
        return f"--{key.replace('_', '-')}: {message}"
    if place == "environment":
        return f"{PREFIX}{key.upper()} (environment): {message}; correct it or unset it"
    example = _EXAMPLES.get(key, f"{key} = 10")
    return f"{place}: {key}: {message}; write it like {example}, or leave it out"


_EXAMPLES = {
    "host": f'host = "{DEFAULT_HOST}"',
    "port": f"port = {DEFAULT_PORT}",
    "model": 'model = "~/models/some-mlx-model"',
    "api_key": 'api_key = "secret"',
    "allow_origin": 'allow_origin = ["https://example.org"]',
    "allow_host": 'allow_host = ["my-computer.local"]',
    "tls_cert": 'tls_cert = "~/server.pem"',
    "tls_key": 'tls_key = "~/server-key.pem"',
    "strict": "strict = true",
    "verbose": "verbose = true",
}

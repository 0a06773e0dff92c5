"""Reads which servers are compared: Fullstop, mlx_lm.server, and those of a TOML file.

Starts nothing. Pure but for reading the file; any thread.
"""

import re
import shlex
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from api.conformance.captures.values import WireDialect

DIALECTS = (WireDialect.CHAT, WireDialect.MESSAGES)
PLACEHOLDERS = ("model", "port", "python")
_FIELDS = ("name", "command", "dialect", "ready", "model_name", "environment", "version")


class ConfigurationError(Exception):
    """The file of servers is invalid; the message names the field and what to write there."""


@dataclass(frozen=True, slots=True)
class ServerCommand:
    """How to start one server and ask it."""

    name: str
    command: tuple[str, ...]
    dialect: WireDialect = WireDialect.CHAT
    ready: str = ""
    model_name: str = "{model}"
    environment: Mapping[str, str] = field(default_factory=dict)
    version: tuple[str, ...] = ()


def filled(text: str, *, model: Path, port: int = 0) -> str:
    known = {"model": str(model), "port": str(port), "python": sys.executable}
    return re.sub(r"\{(\w+)\}", lambda found: known.get(found[1], found[0]), text)


def _version_of(package: str) -> tuple[str, ...]:
    code = f"from importlib.metadata import version; print(version({package!r}))"
    return ("{python}", "-c", code)


def fullstop(dialect: WireDialect = WireDialect.CHAT) -> ServerCommand:
    """Return ours, asked in one dialect."""
    return ServerCommand(
        "Fullstop" if dialect is WireDialect.CHAT else f"Fullstop ({dialect})",
        ("{python}", "-m", "app", "serve", "--model", "{model}", "--port", "{port}"),
        dialect,
        ready="/health",
        version=("{python}", "-m", "app", "--version"),
    )


MLX_LM = ServerCommand(
    "mlx_lm.server",
    (
        *("{python}", "-m", "mlx_lm", "server", "--model", "{model}", "--port", "{port}"),
        *("--log-level", "WARNING"),
    ),
    ready="/health",
    model_name="default_model",
    version=_version_of("mlx-lm"),
)


def read_servers(path: Path) -> list[ServerCommand]:
    """Return the servers of a file."""
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigurationError(f"{path} is not valid TOML: {error}") from error
    try:
        return servers_of(found)
    except ConfigurationError as error:
        raise ConfigurationError(f"{path}: {error}") from None


def servers_of(found: Mapping[str, Any]) -> list[ServerCommand]:
    """Return the servers of a file's values; raises as ``read_servers``."""
    for name in found:
        if name != "server":
            raise ConfigurationError(f"{name} is not known; each server is a table [[server]]")
    tables = found.get("server", [])
    if not isinstance(tables, list):
        raise ConfigurationError("server must be a list of tables; write [[server]], not [server]")
    servers = [_server(f"server {number}", one) for number, one in enumerate(tables, 1)]
    taken = {fullstop(dialect).name for dialect in DIALECTS} | {MLX_LM.name}
    for number, one in enumerate(servers, 1):
        if one.name in taken:
            raise ConfigurationError(f"server {number}: name {one.name!r} is taken; choose another")
        taken.add(one.name)
    return servers


def _server(place: str, table: Any) -> ServerCommand:
    if not isinstance(table, dict):
        raise ConfigurationError(f"{place} must be a table; write [[server]] above its fields")
    for name in table:
        if name not in _FIELDS:
            raise ConfigurationError(
                f"{place}: {name} is not known; the fields are {', '.join(_FIELDS)}"
            )
    given = _text(place, table, "name")
    place = f"{place} ({given})"
    command = _words(place, table, "command")
    if not any("{port}" in word for word in command):
        raise ConfigurationError(f"{place}: command has no {{port}}; it says where to listen")
    dialect = _text(place, table, "dialect", WireDialect.CHAT.value)
    if dialect not in DIALECTS:
        known = " or ".join(f'"{one}"' for one in DIALECTS)
        raise ConfigurationError(f"{place}: dialect must be {known}, not {dialect!r}")
    ready = _text(place, table, "ready", "")
    if ready and not ready.startswith("/"):
        raise ConfigurationError(f"{place}: ready must be a path such as /health, not {ready!r}")
    return ServerCommand(
        given,
        command,
        WireDialect(dialect),
        ready,
        _known(f"{place}: model_name", _text(place, table, "model_name", "{model}")),
        _environment(place, table),
        _words(place, table, "version") if "version" in table else (),
    )


def _text(place: str, table: Mapping[str, Any], name: str, default: str | None = None) -> str:
    value = table.get(name, default)
    if value is None:
        raise ConfigurationError(f"{place}: {name} is missing")
    if not isinstance(value, str) or (not value.strip() and default is None):
        raise ConfigurationError(f"{place}: {name} must be a text that is not empty")
    return value


def _words(place: str, table: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """Return a command line, given as one text or as a list of words."""
    value = table.get(name)
    if value is None:
        raise ConfigurationError(f"{place}: {name} is missing")
    if isinstance(value, str):
        try:
            # Split before the placeholders are filled: a path with spaces stays one word.
            words = shlex.split(value)
        except ValueError as error:
            raise ConfigurationError(f"{place}: {name} cannot be split: {error}") from None
    else:
        words = value
    if not isinstance(words, list) or not words or not all(isinstance(w, str) for w in words):
        raise ConfigurationError(f"{place}: {name} must be a command line or a list of its words")
    return tuple(_known(f"{place}: {name}", word) for word in words)


def _known(place: str, word: str) -> str:
    for name in re.findall(r"\{(\w+)\}", word):
        if name not in PLACEHOLDERS:
            known = ", ".join(f"{{{one}}}" for one in PLACEHOLDERS)
            raise ConfigurationError(f"{place}: {{{name}}} is not known; there are {known}")
    return word


def _environment(place: str, table: Mapping[str, Any]) -> dict[str, str]:
    value = table.get("environment", {})
    if not isinstance(value, dict):
        raise ConfigurationError(f'{place}: environment must be a table such as {{ NAME = "1" }}')
    for name, text in value.items():
        if not isinstance(text, str):
            raise ConfigurationError(f"{place}: environment.{name} must be a text in quotes")
    return value

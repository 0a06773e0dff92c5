"""Reads and writes the ``mcpServers`` JSON that every app with tools uses, and the file of it."""

import json
import os
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from app.paths import DamagedFileKeeper, made_private
from engine.files.causes import os_cause
from engine.files.json_fields import parse_json
from engine.files.safe_files import read_bounded, write_whole
from ui.records.tools import NamedValue, ToolServerConfig

# Reads the fields of one server in a configuration, each with its type and limits.
#
# An invalid field raises ``BadConfiguration``, which names it.

ADDRESSES = ("url", "serverUrl", "httpUrl")
"""Other programs' names of the field with a server's address."""

KEPT_ELSEWHERE = "${keychain}"
"""Replaces the value of a secret in the file."""
SIGNED_IN = ("oauth/tokens", "oauth/client")
"""The secrets of a sign-in, and of how Fullstop is registered for it."""

_MOST_NAME_CHARS = 64
_SECRET_NAME = re.compile(
    r"(?i)(key|token|secret|passw|credential|cookie|authoriz|auth$|bearer|private|(^|_)pat($|_)"
    r"|(^|_)dsn$|connection_?string)"
)
_SECRET_VALUE = re.compile(
    r"^(sk-|ghp_|github_pat_|gho_|glpat-|xox[abps]-|hf_|AKIA|Bearer |Basic )|://[^/\s:@]+:[^/\s@]+@"
)
_ASKED_FOR = re.compile(r"^\$\{input:[^}]*\}$")


class BadConfiguration(ValueError):
    """A configuration cannot be used; the message names the field and the remedy."""


def looks_secret(name: str, value: str) -> bool:
    """Return whether a variable or header seems to be a secret."""
    return bool(_SECRET_NAME.search(name) or _SECRET_VALUE.search(value))


def server_name(name: str) -> str:
    """Return a usable name of a server."""
    stripped = name.strip()
    if not stripped:
        raise BadConfiguration("The server needs a name. Write one, such as files.")
    if len(stripped) > _MOST_NAME_CHARS:
        raise BadConfiguration(
            f"{stripped[:20]}…: the name has {len(stripped):,} characters. Use at most "
            f"{_MOST_NAME_CHARS}."
        )
    if not stripped.isprintable() or "/" in stripped:
        raise BadConfiguration(
            f"{stripped!a}: the name has a slash or a character that cannot be shown. "
            "Use letters, digits, spaces, - and _."
        )
    return stripped


def text_field(values: Mapping[str, Any], field: str, where: str) -> str:
    """Return a text; empty where the field is missing."""
    value = values.get(field)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise BadConfiguration(f"{where}.{field}: must be a text in quotes, not {kind_of(value)}.")
    return _whole(value, f"{where}.{field}")


def _whole(text: str, where: str) -> str:
    if "\0" in text or any("\ud800" <= char <= "\udfff" for char in text):
        raise BadConfiguration(f"{where}: has a character that no program can take. Remove it.")
    return text


def url_field(values: Mapping[str, Any], where: str) -> str:
    """Return the address of a server from the field with any of its names; empty for none."""
    field = next((name for name in ADDRESSES if values.get(name) is not None), "url")
    url = text_field(values, field, where).strip()
    if not url:
        return ""
    try:
        parts = urlsplit(url)
        is_usable = parts.scheme in ("http", "https") and bool(parts.hostname)
        parts.port  # noqa: B018 - asking is what checks it
    except ValueError:
        is_usable = False
    if not is_usable:
        raise BadConfiguration(
            f"{where}.{field}: is not an address. Write one that begins with http:// or https://."
        )
    return url


def args_field(values: Mapping[str, Any], where: str) -> tuple[str, ...]:
    """Return the arguments of a program."""
    args = values.get("args")
    if args is None:
        return ()
    if not isinstance(args, list):
        raise BadConfiguration(
            f'{where}.args: must be a list such as ["-y", "some-server"], not {kind_of(args)}.'
        )
    for number, argument in enumerate(args):
        if not isinstance(argument, str):
            raise BadConfiguration(
                f"{where}.args[{number}]: must be a text, not {kind_of(argument)}. "
                "Put it in quotes."
            )
        _whole(argument, f"{where}.args[{number}]")
    return tuple(args)


def named_values(values: Mapping[str, Any], field: str, where: str) -> tuple[NamedValue, ...]:
    """Return variables or headers; values that seem to be secrets are marked."""
    given = values.get(field)
    if given is None:
        return ()
    if not isinstance(given, dict):
        raise BadConfiguration(
            f'{where}.{field}: must be an object such as {{"NAME": "value"}}, not {kind_of(given)}.'
        )
    read: list[NamedValue] = []
    for name, value in given.items():
        place = f"{where}.{field}.{name}"
        if not name or "=" in name or not _whole(name, place).isprintable():
            raise BadConfiguration(f"{where}.{field}: {name!a} cannot be a name. Rename it.")
        if not isinstance(value, str):
            raise BadConfiguration(
                f"{place}: must be a text, not {kind_of(value)}. Put the value in quotes."
            )
        _whole(value, place)
        if field == "headers" and any(char in value for char in "\r\n"):
            raise BadConfiguration(f"{place}: a header is one line. Remove the line break.")
        if value == KEPT_ELSEWHERE or _ASKED_FOR.match(value):
            read.append(NamedValue(name, "", is_secret=True))
        else:
            read.append(NamedValue(name, value, looks_secret(name, value)))
    return tuple(read)


def kind_of(value: Any) -> str:
    """Return a person's word for the type of a JSON value."""
    if isinstance(value, bool):
        return "true or false"
    if value is None:
        return "null"
    names = {str: "a text", int: "a number", float: "a number", list: "a list", dict: "an object"}
    return names.get(type(value), "that")


# Reads and writes the ``mcpServers`` JSON that every app with tools uses.
#
# Claude Desktop, Claude Code, Cursor, VS Code and LM Studio use the same format:
# https://modelcontextprotocol.io/docs/develop/connect-local-servers

_MOST_SERVERS = 200
_SECTIONS = ("mcpServers", "servers")
_PROGRAM_TYPES = {"stdio", "local"}
_SSE = "sse"
_ADDRESS_TYPES = {"http", "streamable-http", "streamablehttp", "streamable_http", "remote", _SSE}
_KNOWN = {"command", "args", "env", "cwd", "headers", "disabled", "type", "transport", *ADDRESSES}


@dataclass(frozen=True, slots=True)
class ReadServers:
    """The servers in a text.

    Attributes:
        servers: Those that can be used, at least one. Secrets are marked and still have their
            values, if the text has them.
        refused: Why the others cannot be used, a sentence for each.
    """

    servers: list[ToolServerConfig]
    refused: tuple[str, ...] = ()


def servers_from(text: str) -> ReadServers:
    """Return the servers in a pasted text or a file; comments and commas too many are allowed."""
    section, where = _section(_parsed(text))
    if not section:
        raise BadConfiguration(f"{where}: names no server. Add one, such as {_EXAMPLE}.")
    if len(section) > _MOST_SERVERS:
        raise BadConfiguration(
            f"{where}: names {len(section):,} servers. At most {_MOST_SERVERS} can be kept; "
            "remove some."
        )
    servers: list[ToolServerConfig] = []
    refused: list[str] = []
    for name, values in section.items():
        try:
            servers.append(_server(name, values, f"{where}.{name}"))
        except BadConfiguration as error:
            refused.append(str(error))
    if not servers:
        raise BadConfiguration(" ".join(refused))
    return ReadServers(servers, tuple(refused))


def text_of(configs: Iterable[ToolServerConfig]) -> str:
    """Return servers as the text of a file, without secrets."""
    servers = {config.name: _values_of(config) for config in configs}
    return json.dumps({"mcpServers": servers}, indent=2, ensure_ascii=False) + "\n"


def checked(config: ToolServerConfig) -> ToolServerConfig:
    """Check a server from a form in which the person has marked the secrets."""
    usable = _server(config.name, _values_of(config, with_secrets=True), config.name or "name")
    return replace(usable, env=config.env, headers=config.headers)


_EXAMPLE = '{"mcpServers": {"files": {"command": "npx", "args": ["-y", "some-server"]}}}'


def _parsed(text: str) -> Any:
    stripped = text.strip().lstrip("\ufeff")
    if not stripped:
        raise BadConfiguration(f"The text is empty. Paste JSON such as {_EXAMPLE}.")
    # Read-me files often show an entry without the braces around it.
    if stripped.startswith('"'):
        stripped = "{" + stripped.rstrip(",") + "}"
    try:
        return parse_json(_without_comments(stripped))
    except json.JSONDecodeError as error:
        raise BadConfiguration(
            f"Line {error.lineno}, column {error.colno}: this is not valid JSON. {_remedy(error)}"
        ) from error
    except (RecursionError, ValueError) as error:
        raise BadConfiguration("The JSON is nested too deeply, or a number is too long.") from error


# A text in quotes, or what JSON for people has besides: comments, and a comma before a bracket.
_COMMENT = r"//[^\n]*+|/\*(?:[^*]|\*(?!/))*+\*/"
_TEXT_OR_EXTRA = re.compile(
    rf'"(?:[^"\\]|\\.)*+"|{_COMMENT}|,(?=(?:\s|{_COMMENT})*+[}}\]])', re.DOTALL
)


def _without_comments(text: str) -> str:
    """Return a text as JSON; what is taken out leaves its room, so that places stay the same."""

    def kept(match: re.Match[str]) -> str:
        words = match[0]
        return words if words.startswith('"') else re.sub(r"[^\n]", " ", words)

    return _TEXT_OR_EXTRA.sub(kept, text)


def _remedy(error: json.JSONDecodeError) -> str:
    rest = error.doc[error.pos :].lstrip()
    if rest.startswith("#"):
        return "Remove the comment, or begin it with //."
    if rest.startswith(("'", "“", "”")):
        return "Put texts in straight double quotes."
    if not rest:
        return "The end is missing: check that each bracket and quote is closed."
    return "Check for a missing comma, quote or bracket just before this place."


def _section(values: Any) -> tuple[Mapping[str, Any], str]:
    """Return the object that maps names to servers, and its name."""
    if not isinstance(values, dict):
        raise BadConfiguration(f"The text must be a JSON object such as {_EXAMPLE}.")
    for name in _SECTIONS:
        if name in values and not ({"command", *ADDRESSES} & set(_dict(values[name]))):
            if not isinstance(values[name], dict):
                raise BadConfiguration(
                    f"{name}: must be an object that maps names to servers, not "
                    f"{kind_of(values[name])}."
                )
            return values[name], name
    if {"command", *ADDRESSES} & set(values) and not isinstance(values.get("command"), dict):
        raise BadConfiguration(
            'The server has no name. Put it under one: {"mcpServers": {"my-server": … }}.'
        )
    if values and not any(isinstance(value, dict) for value in values.values()):
        raise BadConfiguration(f"mcpServers: is missing. Write {_EXAMPLE}.")
    return values, "mcpServers"


def _dict(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _server(name: str, values: Any, where: str) -> ToolServerConfig:
    name = server_name(name)
    if not isinstance(values, dict):
        raise BadConfiguration(
            f'{where}: must be an object with "command" or "url", not {kind_of(values)}.'
        )
    url = url_field(values, where)
    command = text_field(values, "command", where)
    named = text_field(values, "type", where) or text_field(values, "transport", where)
    kind = named.lower()
    if kind and kind not in _PROGRAM_TYPES | _ADDRESS_TYPES:
        raise BadConfiguration(
            f'{where}.type: "{named[:40]}" is unknown. Write "stdio", "http" or "sse".'
        )
    if command and url:
        raise BadConfiguration(
            f'{where}: has both "command" and "url". Keep "command" for a program, or "url" for '
            "an address."
        )
    if not command and not url:
        wanted = '"url"' if kind in _ADDRESS_TYPES else '"command" (a program) or "url"'
        raise BadConfiguration(f"{where}: needs {wanted}.")
    if kind in _ADDRESS_TYPES and command:
        raise BadConfiguration(f'{where}.type: a server with "command" has the type "stdio".')
    if kind in _PROGRAM_TYPES and url:
        raise BadConfiguration(f'{where}.type: a server with "url" has the type "http".')
    disabled = values.get("disabled", False)
    if not isinstance(disabled, bool):
        raise BadConfiguration(f"{where}.disabled: must be true or false, not {kind_of(disabled)}.")
    return ToolServerConfig(
        name,
        command,
        args_field(values, where),
        named_values(values, "env", where),
        text_field(values, "cwd", where),
        url,
        named_values(values, "headers", where),
        kind == _SSE,
        not disabled,
        {key: value for key, value in values.items() if key not in _KNOWN},
    )


def _values_of(config: ToolServerConfig, *, with_secrets: bool = False) -> dict[str, Any]:
    def named(values: Iterable[NamedValue]) -> dict[str, str]:
        return {
            value.name: KEPT_ELSEWHERE
            if value.is_secret and not (with_secrets and value.value)
            else value.value
            for value in values
        }

    address = _SSE if config.is_sse else "http"
    values: dict[str, Any] = {"type": address if config.url else "stdio"}
    if config.url:
        values["url"] = config.url
    else:
        values |= {"command": config.command, "args": list(config.args)}
    if config.cwd:
        values["cwd"] = config.cwd
    if config.env:
        values["env"] = named(config.env)
    if config.headers:
        values["headers"] = named(config.headers)
    if not config.is_on:
        values["disabled"] = True
    return {**config.extra, **values}


# The file of tool servers: private and written atomically; a damaged file is never overwritten.

FILE_NAME = "tool-servers.json"
_EMPTY = '{"mcpServers": {}}'


class ServersFile:
    """The file in a folder."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE_NAME
        self.notice = ""
        self._damaged = DamagedFileKeeper(self.path)

    def load(self) -> list[ToolServerConfig]:
        """Return the servers. Of a file that cannot be used, or a part of it, the text is kept."""
        try:
            text = read_bounded(self.path).decode("utf-8")
        except FileNotFoundError:
            return []
        except UnicodeDecodeError:
            return self._set_aside("it is not text.")
        except OSError as error:
            return self._set_aside(f"{os_cause(error)}.")
        if "".join(text.split()) == "".join(_EMPTY.split()):
            return []
        try:
            read = servers_from(text)
        except BadConfiguration as error:
            return self._set_aside(str(error))
        if read.refused:
            self._set_aside(" ".join(read.refused), "could be used only in part")
            if not self.path.exists():  # else it could not be set aside
                self.save(read.servers)
        return read.servers

    def save(self, configs: Iterable[ToolServerConfig]) -> None:
        """Write the servers; secrets are not in the file.

        Raises:
            OSError: It cannot be written, or a damaged file would be lost by that.
        """
        made_private(self.path.parent)
        self._damaged.make_room()
        # The temporary file is private from the moment it is created.
        write_whole(self.path, text_of(configs))

    def _set_aside(self, reason: str, use: str = "could not be used") -> list[ToolServerConfig]:
        kept = self._damaged.set_aside()
        self.notice = (
            f"The file of tool servers {use}: {reason} {kept} Correct it there and paste it again."
        )
        return []


def claude_desktop_file(home: Path | None = None, platform: str = sys.platform) -> Path:
    """Return the path of Claude Desktop's configuration.

    https://modelcontextprotocol.io/docs/develop/connect-local-servers names the path on macOS.
    """
    home = home or Path.home()
    if platform == "darwin":
        folder = home / "Library" / "Application Support"
    else:
        chosen = os.environ.get("XDG_CONFIG_HOME")
        folder = Path(chosen) if chosen and Path(chosen).is_absolute() else home / ".config"
    return folder / "Claude" / "claude_desktop_config.json"


def claude_desktop_servers(path: Path) -> ReadServers:
    """Return the servers of Claude Desktop's file."""
    try:
        text = read_bounded(path).decode("utf-8")
    except FileNotFoundError as error:
        raise BadConfiguration(f"Claude Desktop has no servers here: {path} is missing.") from error
    except UnicodeDecodeError as error:
        raise BadConfiguration(f"{path} is not text in UTF-8.") from error
    except OSError as error:
        raise BadConfiguration(f"{path} could not be read: {os_cause(error)}.") from error
    if '"mcpServers"' not in text:
        raise BadConfiguration(f"{path} names no tool servers.")
    return servers_from(text)

"""The ``mcpServers`` JSON of Claude Desktop, Cursor, VS Code and LM Studio, and the file of it.

https://modelcontextprotocol.io/docs/develop/connect-local-servers
"""

import contextlib
import json
import re
from collections.abc import Container, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from app.damaged_files import OverwriteGuard, is_damage
from app.paths import TOOL_SERVERS_FILE, claude_desktop_file
from app.private_files import made_private
from engine.files.causes import os_cause
from engine.files.safe_files import read_bounded, write_whole
from ui.records.tool_servers import NamedValue, ToolServerConfig

KEYCHAIN_PLACEHOLDER = "${keychain}"
"""Replaces the value of a secret in the file."""
OAUTH_SECRETS = ("oauth/tokens", "oauth/client")
"""The secrets of a sign-in: its tokens, and the registration of the client."""

_MAX_NAME_CHARS = 64
_URL_FIELDS = ("url", "serverUrl", "httpUrl")
_STDIO_TYPES = {"stdio", "local"}
_SSE = "sse"
_HTTP_TYPES = {"http", "streamable-http", "streamablehttp", "streamable_http", "remote", _SSE}
_KNOWN_FIELDS = {
    *("command", "args", "env", "cwd", "headers", "disabled", "type", "transport"),
    *_URL_FIELDS,
}
_EXAMPLE = '{"mcpServers": {"files": {"command": "npx", "args": ["-y", "some-server"]}}}'
_SECRET_NAME = re.compile(
    r"(?i)(key|token|secret|passw|credential|cookie|authoriz|auth$|bearer|private|(^|_)pat($|_)"
    r"|(^|_)dsn$|connection_?string)"
)
_SECRET_VALUE = re.compile(
    r"^(sk-|ghp_|github_pat_|gho_|glpat-|xox[abps]-|hf_|AKIA|Bearer |Basic )|://[^/\s:@]+:[^/\s@]+@"
)
_VS_CODE_INPUT = re.compile(r"^\$\{input:[^}]*\}$")
# Possessive groups with alternatives match wrongly before Python 3.11.5; no text matches these in
# two ways.
_COMMENT = r"//[^\n]*+|/\*(?:[^*]|\*(?!/))*\*/"
_STRING_OR_EXTRA = re.compile(
    rf'"[^"\\]*+(?:\\.[^"\\]*+)*(?:"|\\?\Z)|{_COMMENT}|,(?=(?:\s|{_COMMENT})*[}}\]])', re.DOTALL
)
ParsedServers = tuple[list[ToolServerConfig], tuple[str, ...]]
"""The valid servers of a text, and an error for each other one."""
_TYPE_NAMES = {str: "text in quotes", list: "a list", dict: "an object", bool: "true or false"}


class BadConfiguration(ValueError):
    """A configuration cannot be used; the message names the field and the remedy."""


def parse_servers(text: str) -> ParsedServers:
    """Parse JSON as VS Code does; the values of secrets are in the servers, if they were given."""
    section = _find_section(_parse_json(text))
    servers: list[ToolServerConfig] = []
    errors: list[str] = []
    for name, values in section.items():
        path = f"mcpServers.{name}"
        try:
            server = _parse_server(name, values, path)
            if any(server.name == other.name for other in servers):
                raise BadConfiguration(f"{path}: two servers are called {server.name}. Rename one.")
            servers.append(server)
        except BadConfiguration as error:
            errors.append(str(error))
    if not servers:
        raise BadConfiguration(" ".join(errors) or f"mcpServers names no server. Use {_EXAMPLE}.")
    return servers, tuple(errors)


def unique_name(name: str, taken: Container[str]) -> str:
    """Return a name, with a number if it is taken; it is shortened to what a name may have."""
    unique, number = name, 2
    while unique in taken:
        suffix = f" {number}"
        unique, number = name[: _MAX_NAME_CHARS - len(suffix)].rstrip() + suffix, number + 1
    return unique


def format_servers(configs: Iterable[ToolServerConfig]) -> str:
    """Return the text of a file of servers, without secrets."""
    servers = {config.name: _server_values(config) for config in configs}
    return json.dumps({"mcpServers": servers}, indent=2, ensure_ascii=False) + "\n"


def validate_config(config: ToolServerConfig) -> ToolServerConfig:
    """Return the config of a form with normalised fields; raise ``BadConfiguration``."""
    valid = _parse_server(
        config.name, _server_values(config, with_secrets=True), config.name or "name"
    )
    return replace(valid, env=config.env, headers=config.headers)


def _parse_json(text: str) -> Any:
    stripped = text.strip().lstrip("\ufeff")
    if stripped.startswith('"'):  # an entry without the braces around it
        stripped = "{" + stripped.rstrip(",") + "}"
    try:
        return json.loads(_STRING_OR_EXTRA.sub(_blank_extra, stripped))
    except json.JSONDecodeError as error:
        raise BadConfiguration(
            f"Invalid JSON at line {error.lineno}, column {error.colno}: {error.msg}. Paste JSON "
            f"such as {_EXAMPLE}."
        ) from error
    except (RecursionError, ValueError) as error:
        raise BadConfiguration("The JSON is nested too deeply, or a number is too long.") from error


def _blank_extra(match: re.Match[str]) -> str:
    """Replace a comment or trailing comma by spaces, which keeps line and column of errors."""
    return match[0] if match[0].startswith('"') else re.sub(r"[^\n]", " ", match[0])


def _find_section(values: Any) -> Mapping[str, Any]:
    values = _check_type(values, dict, "The text")
    for name in ("mcpServers", "servers"):
        section = values.get(name)
        if section is not None and not (isinstance(section, dict) and _is_server(section)):
            return dict(_check_type(section, dict, name))
    if _is_server(values):
        raise BadConfiguration(
            'The server has no name. Put it under one: {"mcpServers": {"my-server": … }}.'
        )
    if values and not any(isinstance(value, dict) for value in values.values()):
        raise BadConfiguration(f"mcpServers: is missing. Write {_EXAMPLE}.")
    return dict(values)


def _is_server(values: Mapping[str, Any]) -> bool:
    return any(isinstance(values.get(field), str) for field in ("command", *_URL_FIELDS))


def _parse_server(name: str, values: Any, path: str) -> ToolServerConfig:
    values = _check_type(values, dict, path)
    url = _parse_url(values, path)
    command = _text_field(values, "command", path)
    given = _text_field(values, "type", path) or _text_field(values, "transport", path)
    kind = given.lower()
    if kind and kind not in _STDIO_TYPES | _HTTP_TYPES:
        raise BadConfiguration(
            f'{path}.type: "{given[:40]}" is unknown. Write "stdio", "http" or "sse".'
        )
    if bool(command) is bool(url):
        raise BadConfiguration(f'{path}: needs either "command" (a program) or "url".')
    if kind and (kind in _HTTP_TYPES) is bool(command):
        raise BadConfiguration(f'{path}.type: is "stdio" with "command", "http" with "url".')
    args = _check_type(values.get("args") or [], list, f"{path}.args")
    return ToolServerConfig(
        _parse_name(name),
        command,
        tuple(_check_text(arg, f"{path}.args[{index}]") for index, arg in enumerate(args)),
        _parse_named_values(values, "env", path),
        _text_field(values, "cwd", path),
        url,
        _parse_named_values(values, "headers", path),
        kind == _SSE,
        not _check_type(values.get("disabled", False), bool, f"{path}.disabled"),
        {key: value for key, value in values.items() if key not in _KNOWN_FIELDS},
    )


def _parse_name(name: str) -> str:
    stripped = name.strip()
    if not stripped:
        raise BadConfiguration("The server needs a name. Write one, such as files.")
    if len(stripped) > _MAX_NAME_CHARS or not stripped.isprintable() or "/" in stripped:
        raise BadConfiguration(
            f"{stripped[:20]!a}: is not a usable name. Use at most {_MAX_NAME_CHARS} letters, "
            "digits, spaces, - and _."
        )
    return stripped


def _parse_url(values: Mapping[str, Any], path: str) -> str:
    field = next((name for name in _URL_FIELDS if values.get(name) is not None), "url")
    url = _text_field(values, field, path).strip()
    try:
        parts = urlsplit(url)
        is_valid = parts.scheme in ("http", "https") and bool(parts.hostname)
        parts.port  # noqa: B018 - the property raises ValueError for an invalid port
    except ValueError:
        is_valid = False
    if url and not is_valid:
        raise BadConfiguration(f"{path}.{field}: must begin with http:// or https://.")
    return url


def _parse_named_values(values: Mapping[str, Any], field: str, path: str) -> tuple[NamedValue, ...]:
    """Return variables or headers; values that look like secrets are marked."""
    parsed: list[NamedValue] = []
    given = _check_type(values.get(field) or {}, dict, f"{path}.{field}")
    for name, value in given.items():
        if not name or "=" in name or not name.isprintable():
            raise BadConfiguration(f"{path}.{field}: {name!a} cannot be a name. Rename it.")
        _check_text(value, f"{path}.{field}.{name}")
        if field == "headers" and any(char in value for char in "\r\n"):
            raise BadConfiguration(f"{path}.{field}.{name}: a header is one line.")
        if value == KEYCHAIN_PLACEHOLDER or _VS_CODE_INPUT.match(value):
            parsed.append(NamedValue(name, "", is_secret=True))
        else:
            is_secret = bool(_SECRET_NAME.search(name) or _SECRET_VALUE.search(value))
            parsed.append(NamedValue(name, value, is_secret))
    return tuple(parsed)


def _text_field(values: Mapping[str, Any], field: str, path: str) -> str:
    value = values.get(field)
    return "" if value is None else _check_text(value, f"{path}.{field}")


def _check_text(value: Any, path: str) -> str:
    text: str = _check_type(value, str, path)
    if "\0" in text or any("\ud800" <= char <= "\udfff" for char in text):
        raise BadConfiguration(f"{path}: contains a character that no program accepts.")
    return text


def _check_type(value: Any, kind: type, path: str) -> Any:
    if not isinstance(value, kind):
        raise BadConfiguration(f"{path}: must be {_TYPE_NAMES[kind]}.")
    return value


def _server_values(config: ToolServerConfig, *, with_secrets: bool = False) -> dict[str, Any]:
    def dump_named(values: Iterable[NamedValue]) -> dict[str, str]:
        return {
            value.name: KEYCHAIN_PLACEHOLDER
            if value.is_secret and not (with_secrets and value.value)
            else value.value
            for value in values
        }

    values: dict[str, Any]
    if config.url:
        values = {"type": _SSE if config.is_sse else "http", "url": config.url}
    else:
        values = {"type": "stdio", "command": config.command, "args": list(config.args)}
    if config.cwd:
        values["cwd"] = config.cwd
    if config.env:
        values["env"] = dump_named(config.env)
    if config.headers:
        values["headers"] = dump_named(config.headers)
    if not config.is_on:
        values["disabled"] = True
    return {**config.extra, **values}


class ServersFile:
    """The private file of MCP servers; a damaged file is never overwritten."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / TOOL_SERVERS_FILE
        self.notice = ""
        self._damaged = OverwriteGuard(self.path)

    def load(self) -> list[ToolServerConfig]:
        """Return the servers. A file that is invalid, even in part, is set aside as it is.

        ``OSError``: it cannot be read now, and stays.
        """
        try:
            text = read_bounded(self.path).decode("utf-8")
            if "".join(text.split()) == '{"mcpServers":{}}':
                return []
            servers, errors = parse_servers(text)
        except FileNotFoundError:
            return []
        except OSError as error:
            if not is_damage(error):
                raise
            return self._set_aside(f"{os_cause(error)}.")
        except ValueError as error:  # not UTF-8, or a BadConfiguration
            return self._set_aside(str(error))
        if errors:
            self._set_aside(" ".join(errors), "could be used only in part")
            if not self.path.exists():  # else it could not be set aside
                with contextlib.suppress(OSError):  # the next change saves them
                    self.save(servers)
        return servers

    def save(self, configs: Iterable[ToolServerConfig]) -> None:
        """Write the servers without secrets; ``OSError`` also if a damaged file would be lost."""
        made_private(self.path.parent)
        self._damaged.check_writable()
        write_whole(self.path, format_servers(configs))

    def _set_aside(self, reason: str, use: str = "could not be used") -> list[ToolServerConfig]:
        new_name = self._damaged.set_aside()
        remedy = "Correct it there and paste it again."
        self.notice = f"The file of MCP servers {use}: {reason} {new_name} {remedy}"
        return []


def read_claude_desktop() -> ParsedServers:
    """Return the servers of Claude Desktop's file."""
    path = claude_desktop_file()
    try:
        text = read_bounded(path).decode("utf-8")
    except FileNotFoundError as error:
        raise BadConfiguration("Claude Desktop is not set up on this computer.") from error
    except (OSError, UnicodeDecodeError) as error:
        cause = os_cause(error) if isinstance(error, OSError) else "it is not text in UTF-8"
        raise BadConfiguration(f"{path} could not be read: {cause}.") from error
    if '"mcpServers"' not in text:
        raise BadConfiguration(f"{path} names no MCP servers.")
    return parse_servers(text)

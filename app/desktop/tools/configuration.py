"""Reads and writes the ``mcpServers`` JSON that every app with tools uses.

Pure; any thread. Claude Desktop, Claude Code, Cursor, VS Code and LM Studio use the same format:
https://modelcontextprotocol.io/docs/develop/connect-local-servers
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from app.desktop.tools.server_fields import (
    ADDRESSES,
    KEPT_ELSEWHERE,
    BadConfiguration,
    args_field,
    kind_of,
    named_values,
    server_name,
    text_field,
    url_field,
)
from engine.files.patient_json import parse_json
from ui.records.tools import NamedValue, ToolServerConfig

_MOST_SERVERS = 200
_SECTIONS = ("mcpServers", "servers")
_PROGRAM_TYPES = {"stdio", "local"}
_SSE = "sse"
_ADDRESS_TYPES = {"http", "streamable-http", "streamablehttp", "streamable_http", "remote", _SSE}
_KNOWN = {"command", "args", "env", "cwd", "headers", "disabled", "type", "transport", *ADDRESSES}


def servers_from(text: str) -> list[ToolServerConfig]:
    """Return the servers in a pasted text or a file.

    Secrets are marked and still have their values, if the text has them.
    """
    section, where = _section(_parsed(text))
    if not section:
        raise BadConfiguration(f"{where}: names no server. Add one, such as {_EXAMPLE}.")
    if len(section) > _MOST_SERVERS:
        raise BadConfiguration(
            f"{where}: names {len(section):,} servers. At most {_MOST_SERVERS} can be kept; "
            "remove some."
        )
    return [_server(name, values, f"{where}.{name}") for name, values in section.items()]


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
        return parse_json(stripped)
    except json.JSONDecodeError as error:
        raise BadConfiguration(
            f"Line {error.lineno}, column {error.colno}: this is not valid JSON. {_remedy(error)}"
        ) from error
    except (RecursionError, ValueError) as error:
        raise BadConfiguration("The JSON is nested too deeply, or a number is too long.") from error


def _remedy(error: json.JSONDecodeError) -> str:
    rest = error.doc[error.pos :].lstrip()
    before = error.doc[: error.pos].rstrip()
    if rest[:1] in ("}", "]") and before.endswith(","):
        return "Remove the comma before the closing bracket."
    if rest.startswith(("//", "/*", "#")):
        return "Remove the comment."
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
    if values and not any(isinstance(one, dict) for one in values.values()):
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
            one.name: KEPT_ELSEWHERE
            if one.is_secret and not (with_secrets and one.value)
            else one.value
            for one in values
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

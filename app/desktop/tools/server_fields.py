"""Reads the fields of one server in a configuration, each with its type and limits.

Pure; any thread. An invalid field raises ``BadConfiguration``, which names it.
"""

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from ui.records.tools import NamedValue

ADDRESSES = ("url", "serverUrl", "httpUrl")
"""Other programs' names of the field with a server's address."""

KEPT_ELSEWHERE = "${keychain}"
"""Replaces the value of a secret in the file."""

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
    field = next((one for one in ADDRESSES if values.get(one) is not None), "url")
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
    for number, one in enumerate(args):
        if not isinstance(one, str):
            raise BadConfiguration(
                f"{where}.args[{number}]: must be a text, not {kind_of(one)}. Put it in quotes."
            )
        _whole(one, f"{where}.args[{number}]")
    return tuple(args)


def named_values(values: Mapping[str, Any], field: str, where: str) -> tuple[NamedValue, ...]:
    """Return variables or headers; values that seem to be secrets are marked."""
    found = values.get(field)
    if found is None:
        return ()
    if not isinstance(found, dict):
        raise BadConfiguration(
            f'{where}.{field}: must be an object such as {{"NAME": "value"}}, not {kind_of(found)}.'
        )
    read: list[NamedValue] = []
    for name, value in found.items():
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

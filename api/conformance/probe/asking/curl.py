"""Requests as curl commands that can be pasted into a shell. Pure; any thread."""

import json
import re
import shlex
from typing import Any

from api.conformance.captures.values import WireDialect
from api.conformance.probe.asking.access import Access
from api.conformance.probe.dialects.driver import headers

KEY_VARIABLE = "API_KEY"


def curl_line(
    url: str, dialect: WireDialect, body: Any, access: Access, *, is_cut: bool = False
) -> str:
    """Return a command that sends a request.

    The key, and values of headers that the user gave, appear as shell variables only.

    Args:
        url: The address.
        dialect: Decides the headers.
        body: The body, as a JSON value or as raw bytes.
        access: How the server is reached.
        is_cut: Whether to hang up after a second instead of reading to the end.
    """
    words = ["curl", "-sS", "-i"]
    if isinstance(body, dict) and body.get("stream"):
        words.append("-N")
    if is_cut:
        words += ["--max-time", "1"]
    if access.ca_file is not None:
        words += ["--cacert", shlex.quote(str(access.ca_file))]
    elif access.is_insecure:
        words.append("--insecure")
    words.append(shlex.quote(url))
    key = f"${KEY_VARIABLE}" if access.api_key is not None else None
    hidden = [(name, f"${_variable(name)}") for name, _ in access.headers]
    placeholders = {key, *(value for _, value in hidden)}
    for name, value in headers(dialect, key, hidden).items():
        # Double quotes, so that the shell replaces variables.
        is_hidden = value.removeprefix("Bearer ") in placeholders
        quoted = f'"{name}: {value}"' if is_hidden else shlex.quote(f"{name}: {value}")
        words.append(f"-H {quoted}")
    raw = body.decode("utf-8", "replace") if isinstance(body, bytes) else json.dumps(body)
    words.append(f"--data-raw {shlex.quote(raw)}")
    return " ".join(words)


def _variable(header: str) -> str:
    return re.sub(r"\W", "_", header, flags=re.ASCII).upper()

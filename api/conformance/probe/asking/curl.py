"""Requests as curl commands that can be pasted into a shell. Pure; any thread."""

import json
import shlex
from typing import Any

from api.conformance.captures.values import WireDialect
from api.conformance.probe.dialects.driver import headers

KEY_VARIABLE = "API_KEY"


def curl_line(
    url: str, dialect: WireDialect, body: Any, *, has_key: bool, is_cut: bool = False
) -> str:
    """Return a command that sends a request; a key appears in it as a variable, never itself.

    Args:
        url: Where to.
        dialect: Decides the headers.
        body: The body, as JSON value or as raw bytes.
        has_key: Whether the server wants a key.
        is_cut: Hang up after a second instead of reading to the end.
    """
    words = ["curl", "-sS", "-i"]
    if isinstance(body, dict) and body.get("stream"):
        words.append("-N")
    if is_cut:
        words += ["--max-time", "1"]
    words.append(shlex.quote(url))
    placeholder = f"${KEY_VARIABLE}"
    for name, value in headers(dialect, placeholder if has_key else None).items():
        # Double quotes where the shell has to put the key in.
        quoted = f'"{name}: {value}"' if placeholder in value else shlex.quote(f"{name}: {value}")
        words.append(f"-H {quoted}")
    raw = body.decode("utf-8", "replace") if isinstance(body, bytes) else json.dumps(body)
    words.append(f"--data-raw {shlex.quote(raw)}")
    return " ".join(words)

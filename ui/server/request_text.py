"""A request of the log as text: a curl command, lines of JSON, readable bodies.

Pure; any thread. The text never contains API keys: the server has removed them.
"""

import json
import shlex
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from ui.server.requests import RequestBody, RequestEntry

KEY_VARIABLE = "FULLSTOP_API_KEY"

# Headers that curl writes itself, or that describe the connection and not the request.
_CURLS_OWN = frozenset(
    {"host", "content-length", "connection", "accept-encoding", "transfer-encoding", "user-agent"}
)
_KEYS = {"authorization": f"Bearer ${KEY_VARIABLE}", "x-api-key": f"${KEY_VARIABLE}"}


def as_curl(entry: RequestEntry, url: str) -> str:
    """Return a command for a shell that sends the request again."""
    parts = [f"curl {shlex.quote(url + entry.path)}"]
    if entry.method not in ("GET", "POST") or (entry.method == "POST" and not entry.asked.text):
        parts.append(f"-X {entry.method}")
    if entry.is_stream:
        parts.append("--no-buffer")
    for name, value in entry.headers:
        key = _KEYS.get(name.lower())
        if key is not None:
            parts.append(f'-H "{name}: {key}"')  # double quotes: the shell fills in the variable
        elif name.lower() not in _CURLS_OWN:
            parts.append(f"-H {shlex.quote(f'{name}: {value}')}")
    if entry.asked.text:
        parts.append(f"--data-raw {shlex.quote(entry.asked.text)}")
    return " \\\n  ".join(parts)


def as_jsonl(entries: Iterable[RequestEntry]) -> str:
    """Return one line of JSON for each entry."""
    return "".join(
        json.dumps(_value(entry), ensure_ascii=False, separators=(",", ":")) + "\n"
        for entry in entries
    )


def readable(body: RequestBody) -> str:
    """Return a body for reading: JSON is indented, anything else is unchanged."""
    text = body.text
    if body.is_whole and text.lstrip()[:1] in ("{", "["):
        try:
            return json.dumps(json.loads(text), ensure_ascii=False, indent=2)
        except (ValueError, RecursionError):
            return text
    return text


def error_message(entry: RequestEntry) -> str:
    """Return what the server said was wrong with a request; empty if it said nothing."""
    if not entry.is_error or not entry.answered.is_whole:
        return ""
    try:
        value = json.loads(entry.answered.text)
    except (ValueError, RecursionError):
        return ""
    error = value.get("error") if isinstance(value, dict) else None
    if isinstance(error, dict):
        error = error.get("message")
    return error if isinstance(error, str) else ""


def _value(entry: RequestEntry) -> dict[str, Any]:
    return {
        "id": entry.id,
        "time": datetime.fromtimestamp(entry.began_at, UTC).isoformat(timespec="milliseconds"),
        "client": entry.client,
        "user_agent": entry.agent,
        "method": entry.method,
        "path": entry.path,
        "route": entry.dialect,
        "model": entry.model,
        "stream": entry.is_stream,
        "status": entry.status,
        "answers": [
            {
                "stop": {"kind": end.stop.kind.value, "value": end.stop.value},
                "prompt_tokens": end.usage.prompt_tokens,
                "cached_tokens": end.usage.cached_tokens,
                "output_tokens": end.usage.output_tokens,
                "first_token_s": end.timing.first_token_s,
                "decode_s": end.timing.decode_s,
                "error": end.error,
            }
            for end in entry.ends
        ],
        "total_s": entry.took_s,
        "request": _message(entry.headers, entry.asked),
        "response": _message(entry.answer_headers, entry.answered),
    }


def _message(headers: Iterable[tuple[str, str]], body: RequestBody) -> dict[str, Any]:
    return {
        "headers": [list(pair) for pair in headers],
        "body": body.text,
        "body_bytes": body.size_bytes,
        "body_is_whole": body.is_whole,
    }

"""Large bodies, and the processes that read them."""

import json
from typing import Any

import psutil

from api.dialects.shared import body_reader
from api.server.routes import DIALECTS

ASK: dict[str, Any] = {
    "model": "m",
    "max_tokens": 4,
    "messages": [{"role": "user", "content": "Hi"}],
}
PADDING = "p" * 150_000
ANSWERS = {route.path: route for dialect in DIALECTS for route in dialect.answers}


def helpers() -> list[psutil.Process]:
    """Return the processes that read large bodies for this one."""
    found = []
    for child in psutil.Process().children():
        try:
            if body_reader.__name__ in child.cmdline():
                found.append(child)
        except psutil.Error:
            continue
    return found


def padded(body: Any) -> bytes:
    """Return a body that an unknown field makes large."""
    return json.dumps(body).encode()[:-1] + b', "padding": "' + PADDING.encode() + b'"}'


def overflow_words(reply: Any, path: str) -> str:
    error = reply.json["error"]
    if path.startswith("/v1/messages"):
        assert error["type"] == "invalid_request_error"
        return str(error["message"])
    if path.startswith("/v1/"):
        assert error["code"] == "context_length_exceeded"
    return str(error if isinstance(error, str) else error["message"])

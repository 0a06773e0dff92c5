"""Large bodies."""

import json
from typing import Any

from api.server.routes import DIALECTS
from api.transport.bodies import IN_PLACE_BYTES

ASK: dict[str, Any] = {
    "model": "m",
    "max_tokens": 4,
    "messages": [{"role": "user", "content": "Hi"}],
}
PADDING = "p" * (IN_PLACE_BYTES + 1)
ANSWERS = {route.path: route for dialect in DIALECTS for route in dialect.answers}


def padded(body: Any) -> bytes:
    """Return a body that an unknown field makes large."""
    return json.dumps(body).encode()[:-1] + b', "user": "' + PADDING.encode() + b'"}'


def overflow_words(reply: Any, path: str) -> str:
    error = reply.json["error"]
    if path.startswith("/v1/messages"):
        assert error["type"] == "invalid_request_error"
        return str(error["message"])
    if path.startswith("/v1/"):
        assert error["code"] == "context_length_exceeded"
    return str(error if isinstance(error, str) else error["message"])

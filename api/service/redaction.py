"""Removes secrets from the headers, query strings and bodies of requests that are shown."""

import re
from collections.abc import Iterable

HIDDEN = "[hidden]"

_SECRET_HEADERS = frozenset(
    {
        "authorization",
        "proxy-authorization",
        "x-api-key",
        "api-key",
        "x-goog-api-key",
        "cookie",
        "set-cookie",
    }
)
_SECRET_NAMES = (
    r"(?:[\w-]*[_-])?(?:api[_-]?key|apikey|secret|password|passwd|authorization"
    r"|access[_-]?token|auth[_-]?token|refresh[_-]?token|bearer[_-]?token|client[_-]?secret)"
)
_FIELD = re.compile(rf'("{_SECRET_NAMES}"\s*:\s*)"(?:[^"\\]|\\.)*"?', re.IGNORECASE)
_PARAMETER = re.compile(rf"(?<![^?&])({_SECRET_NAMES}|key|token)=[^&#]*", re.IGNORECASE)


def safe_headers(
    headers: Iterable[tuple[str, str]], secret: str | None = None
) -> tuple[tuple[str, str], ...]:
    """Return headers without the values of keys."""
    return tuple(
        (name, HIDDEN if name.lower() in _SECRET_HEADERS else _without(value, secret))
        for name, value in headers
    )


def safe_path(path_and_query: str, secret: str | None = None) -> str:
    """Return a path whose query parameters that carry keys are hidden."""
    path, mark, query = path_and_query.partition("?")
    hidden = _PARAMETER.sub(lambda match: f"{match[1]}={HIDDEN}", query)
    return _without(path + mark + hidden, secret)


def safe_body(text: str, secret: str | None = None) -> str:
    """Return a body with the values of JSON fields that are named like keys replaced.

    A value that was cut off in the middle is replaced too.
    """
    return _without(_FIELD.sub(rf'\1"{HIDDEN}"', text), secret)


def _without(text: str, secret: str | None) -> str:
    return text.replace(secret, HIDDEN) if secret else text

"""Checks the API key of a request in constant time; reads only the headers. Any thread."""

import hmac
from collections.abc import Iterator, Mapping

from api.transport.errors import ApiError, ErrorKind


def check_key(headers: Mapping[str, str], key: str | None) -> str | None:
    """Accept a request that sends the key, as ``x-api-key`` or as a bearer token; return its key.

    A server without a key takes any: a client that sends one still is not all the others.
    """
    presented = list(_presented(headers))
    if key is None:
        return next(filter(None, presented), None)
    if any(hmac.compare_digest(_bytes(one), _bytes(key)) for one in presented):
        return key
    if presented:
        message = "the API key is wrong"
    elif headers.get("Authorization", "").strip().lower() not in ("", "bearer"):
        message = "the API key is wrong: Authorization must be the word Bearer and the key"
    else:
        message = "an API key is required; send it as x-api-key or as Authorization: Bearer"
    raise ApiError(ErrorKind.AUTHENTICATION, message)


def _presented(headers: Mapping[str, str]) -> Iterator[str]:
    """Yield the keys that a request sends; an empty one is none."""
    if key := headers.get("x-api-key", "").strip():
        yield key
    scheme, _, token = headers.get("Authorization", "").partition(" ")
    if scheme.lower() == "bearer" and token.strip():
        yield token.strip()


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")

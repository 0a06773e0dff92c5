"""Keeps web pages out: a page can send requests to this computer, so names are checked.

``Host`` must be ours, or a rebound DNS name could reach us; ``Origin`` must be absent, ours or
allowed. CORS headers go to allowed origins only. Pure but for the request's headers; any thread.
"""

import re
from collections.abc import Mapping

from api.address import is_loopback, same_host
from api.config import ServerConfig
from api.errors import ApiError, ErrorKind

# A bracketed address or a name, and perhaps a port: nothing else that a lenient parser might see.
_HOST = re.compile(
    r"(?:\[(?P<address>[0-9A-Fa-f:.]+)\]|(?P<name>[^\s\[\]:/?#@\\,]+))(?::(?P<port>\d{0,5}))?"
)
_MAX_PORT = 65535
_EXPOSED = "request-id, x-request-id, retry-after, x-should-retry"


def check_host(host_header: str | None, config: ServerConfig, local_host: str | None) -> None:
    """Let a request pass that addresses us by a loopback name or by the address it reached.

    Args:
        host_header: The request's ``Host``.
        config: Where we listen.
        local_host: The address of our end of the connection, where it is known.

    Raises:
        ApiError: The name is not ours.
    """
    host = _host_of(host_header)
    ours = [config.host, *config.allowed_hosts, *([local_host] if local_host else [])]
    if host and (is_loopback(host) or any(same_host(host, one) for one in ours)):
        return
    raise ApiError(
        ErrorKind.PERMISSION,
        "the Host header names no address of this server; use its IP address or localhost",
    )


def check_origin(origin: str | None, host_header: str | None, config: ServerConfig) -> None:
    """Let a request pass that comes from no web page, or from one that is ours or allowed.

    Raises:
        ApiError: The page's origin is not allowed.
    """
    if origin is None or is_allowed(origin, config) or _is_own(origin, host_header):
        return
    raise ApiError(
        ErrorKind.PERMISSION,
        "this web origin may not call this server; add it to the allowed origins",
    )


def is_allowed(origin: str, config: ServerConfig) -> bool:
    """Whether the user allowed a web origin."""
    if "*" in config.allowed_origins:
        return True
    return origin.lower() in (one.lower().rstrip("/") for one in config.allowed_origins)


def cors_headers(origin: str | None, config: ServerConfig) -> dict[str, str]:
    """Return what an answer says to a browser: nothing, unless its page is allowed."""
    if origin is None or not is_allowed(origin, config):
        return {}
    return {
        "Access-Control-Allow-Origin": origin,
        "Access-Control-Expose-Headers": _EXPOSED,
        "Vary": "Origin",
    }


def preflight_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return what a browser wants to know before it sends an allowed page's request."""
    answer = {
        "Access-Control-Allow-Methods": "GET, POST, HEAD, OPTIONS",
        "Access-Control-Allow-Headers": headers.get("Access-Control-Request-Headers", "*"),
        "Access-Control-Max-Age": "600",
    }
    if headers.get("Access-Control-Request-Private-Network") == "true":
        answer["Access-Control-Allow-Private-Network"] = "true"
    return answer


def _host_of(header: str | None) -> str | None:
    """Return the host of a ``Host`` header without its port, or None if it is malformed."""
    found = _HOST.fullmatch(header or "")
    if found is None or not 0 <= int(found["port"] or 0) <= _MAX_PORT:
        return None
    return (found["address"] or found["name"]).lower()


def _is_own(origin: str, host_header: str | None) -> bool:
    return host_header is not None and origin.lower() == f"http://{host_header.lower()}"

"""Checks the API key, the host and the origin of requests; reads only their headers.

Any web page can send requests to this computer. ``Host`` must name this server: otherwise a page
could reach it by DNS rebinding. ``Origin`` must be absent, ours, of this computer or allowed.
Requests that pages send without an ``Origin`` (images, scripts, links) are recognised by
``Sec-Fetch-Site``. CORS headers go to allowed origins only.

Names ending in ``.local`` or ``.internal`` are never in public DNS, and containers reach their host
by such names, so they are accepted as ``Host``. Another computer on the same network could still
claim such a name: as the *origin* of a page it is accepted only if the user allowed it.
"""

import hmac
import re
import socket
from collections.abc import Iterator, Mapping

from api.service.config import ServerConfig, is_loopback, same_host
from api.service.errors import ApiError, ErrorKind, shown

# Anthropic's name, and Azure's for OpenAI's API.
_KEY_HEADERS = ("x-api-key", "api-key")
# A bracketed address or a name, with an optional port; nothing else, however lenient a parser is.
_HOST = re.compile(
    r"(?:\[(?P<address>[0-9A-Fa-f:.]+)\]|(?P<name>[^\s\[\]:/?#@\\,]+))(?::(?P<port>\d{0,5}))?"
)
# RFC 6762, and ICANN's reservation for private use; loopback names are checked separately.
_PRIVATE = (".local", ".internal")
# Schemes of desktop apps on a browser's engine: no page on the web can have such an origin. Ollama
# lets in the same, and ``file://`` too, which Safari sends for a downloaded page.
_APP_SCHEMES = frozenset({"app", "tauri", "vscode-file", "vscode-webview"})
# What proxies add, and services that make a program on this computer reachable from elsewhere.
_PROXY_HEADERS = (
    "Forwarded",
    "Via",
    "X-Forwarded-For",
    "X-Forwarded-Host",
    "X-Forwarded-Proto",
    "X-Real-IP",
    "True-Client-IP",
    "CF-Connecting-IP",
)
_FOREIGN_SITES = frozenset({"cross-site", "same-site"})
# Anthropic's name and OpenAI's.
REQUEST_ID_HEADERS = ("request-id", "x-request-id")
TOOLS_LEFT_OUT_HEADER = "x-fullstop-tools-left-out"
NOT_APPLIED_HEADER = "x-fullstop-not-applied"
TASK_LIMIT_HEADER = "x-fullstop-task-max-tokens"
_OWN_HEADERS = (TOOLS_LEFT_OUT_HEADER, NOT_APPLIED_HEADER, TASK_LIMIT_HEADER)
# The headers that pages of other origins may read.
_EXPOSED = (*REQUEST_ID_HEADERS, "retry-after", "x-should-retry", *_OWN_HEADERS)


def check_key(headers: Mapping[str, str], key: str | None) -> str | None:
    """Accept a request that sends the key, in one of its headers; return it.

    A server without a key takes any: a client that sends one still is not all the others.
    """
    presented = list(_presented_keys(headers))
    if key is None:
        return next(filter(None, presented), None)
    if any(hmac.compare_digest(_bytes(given), _bytes(key)) for given in presented):
        return key
    if presented:
        message = "the API key is wrong"
    elif headers.get("Authorization", "").strip().lower() not in ("", "bearer"):
        message = "the API key is wrong: Authorization must be the word Bearer and the key"
    else:
        message = "an API key is required; send it as x-api-key or as Authorization: Bearer"
    raise ApiError(ErrorKind.AUTHENTICATION, message)


def _presented_keys(headers: Mapping[str, str]) -> Iterator[str]:
    """Yield the keys that a request sends; an empty one is none."""
    for name in _KEY_HEADERS:
        if key := headers.get(name, "").strip():
            yield key
    scheme, _, token = headers.get("Authorization", "").partition(" ")
    if scheme.lower() == "bearer" and token.strip():
        yield token.strip()


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def check_host(host_header: str | None, config: ServerConfig, local_host: str | None) -> None:
    """Accept a request whose ``Host`` can only mean this server.

    Accepted are loopback names, the address that the request reached, this computer's own name,
    names of local networks and containers, and names that the user allowed.
    """
    host = _host_of(host_header)
    # Nobody can redirect a private name here by public DNS.
    is_private = host is not None and host.rstrip(".").endswith(_PRIVATE)
    if host and (_is_certain(host, config, local_host) or is_private):
        return
    raise ApiError(
        ErrorKind.PERMISSION,
        "the Host header does not name an address of this server; use its IP address or "
        f"localhost, or start the server with --allow-host {shown(host or 'NAME')} (in the window: "
        "Names of this computer)",
    )


def check_origin(
    origin: str | None,
    host_header: str | None,
    config: ServerConfig,
    local_host: str | None = None,
) -> None:
    """Accept a request that comes from no web page, or from a page that is ours or allowed."""
    if origin is None or is_allowed(origin, config):
        return
    host = _host_of(host_header)
    own = f"{'https' if config.is_encrypted else 'http'}://{host_header}"
    if host and _is_certain(host, config, local_host) and origin.lower() == own.lower():
        return
    raise ApiError(
        ErrorKind.PERMISSION,
        "this web origin may not call this server; start the server with --allow-origin "
        f"{shown(origin)} (in the window: Web pages that may call it)",
    )


def check_site(site: str | None, origin: str | None, config: ServerConfig) -> None:
    """Accept a request unless a page of another origin may have caused it.

    Browsers say where a request comes from even if it has no ``Origin``, as for an image, a script,
    a link or a frame. ``same-origin`` is a page of ours; ``none`` is a person (an address that was
    typed, a bookmark) or an app on a browser's engine, and no page can send it. ``same-site`` is a
    page on another port of this computer, which is as foreign as any other. Unknown values are
    ignored, as the specification requires: https://www.w3.org/TR/fetch-metadata/
    """
    if origin is not None or site is None or "*" in config.allowed_origins:
        return
    if site.strip().lower() in _FOREIGN_SITES:
        raise ApiError(
            ErrorKind.PERMISSION,
            "a page of another site may not load this as an image, a script, a frame or a link; "
            "type the address into the browser, or call it by fetch from an allowed origin "
            "(--allow-origin)",
        )


def is_from_here(headers: Mapping[str, str], peer: str | None, local_host: str | None) -> bool:
    """Return whether a program on this computer sent a request.

    Nobody else can have our own address at the other end of a connection. A proxy on this computer
    passes on what others ask, and says so in a header.
    """
    if peer is None or any(name in headers for name in _PROXY_HEADERS):
        return False
    return is_loopback(peer) or (local_host is not None and same_host(peer, local_host))


def is_allowed(origin: str, config: ServerConfig) -> bool:
    """Return whether an origin is of this computer, or allowed by itself or with its scheme."""
    if "*" in config.allowed_origins or _is_local(origin):
        return True
    lower = origin.lower()
    return any(
        lower.startswith(allowed[:-1]) if allowed.endswith("://*") else lower == allowed.rstrip("/")
        for allowed in map(str.lower, config.allowed_origins)
    )


def cors_headers(origin: str | None, config: ServerConfig) -> dict[str, str]:
    """Return the CORS headers of an answer: none, unless the page's origin is allowed."""
    if origin is None or not is_allowed(origin, config):
        return {}
    return {
        "Access-Control-Allow-Origin": origin,
        "Access-Control-Expose-Headers": ", ".join(_EXPOSED),
        "Vary": "Origin",
    }


def preflight_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers that answer a browser's preflight request for an allowed page."""
    answer = {
        "Access-Control-Allow-Methods": "GET, POST, HEAD, DELETE, OPTIONS",
        "Access-Control-Allow-Headers": headers.get("Access-Control-Request-Headers", "*"),
        "Access-Control-Max-Age": "600",
    }
    if headers.get("Access-Control-Request-Private-Network") == "true":
        answer["Access-Control-Allow-Private-Network"] = "true"
    return answer


def _host_of(header: str | None) -> str | None:
    """Return the host of a ``Host`` header without its port, or None if it is malformed."""
    match = _HOST.fullmatch(header or "")
    if match is None or int(match["port"] or 0) > 65535:
        return None
    return (match["address"] or match["name"]).lower()


def _is_certain(host: str, config: ServerConfig, local_host: str | None) -> bool:
    """Return whether a name can only mean this server, whoever else is on the network."""
    ours = [config.host, *config.allowed_hosts, *([local_host] if local_host else [])]
    own_name = socket.gethostname()
    if own_name:
        ours.append(own_name)
    return is_loopback(host) or any(same_host(host, own) for own in ours)


def _is_local(origin: str) -> bool:
    """Return whether a program on this computer serves the page, or a desktop app shows it."""
    scheme, separator, host_and_port = origin.partition("://")
    if scheme.lower() in _APP_SCHEMES:
        return bool(separator)
    host = _host_of(host_and_port) if scheme.lower() in ("http", "https") else None
    return host is not None and (is_loopback(host) or host == "0.0.0.0")

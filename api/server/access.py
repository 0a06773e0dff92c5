"""Who may use the server: hosts, origins, keys, certificates; and what of requests may be shown."""

import hmac
import re
import socket
import ssl
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NoReturn

from api.transport.config import ConfigError, ServerConfig, is_loopback, same_host
from api.transport.errors import ApiError, ErrorKind
from engine.files.causes import os_cause
from engine.files.safe_files import read_bounded

# Checks the API key of a request in constant time; reads only the headers.


def check_key(headers: Mapping[str, str], key: str | None) -> str | None:
    """Accept a request that sends the key, in one of its headers; return it.

    A server without a key takes any: a client that sends one still is not all the others.
    """
    presented = list(_presented(headers))
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


# Anthropic's name, and Azure's for OpenAI's API.
_KEY_HEADERS = ("x-api-key", "api-key")


def _presented(headers: Mapping[str, str]) -> Iterator[str]:
    """Yield the keys that a request sends; an empty one is none."""
    for name in _KEY_HEADERS:
        if key := headers.get(name, "").strip():
            yield key
    scheme, _, token = headers.get("Authorization", "").partition(" ")
    if scheme.lower() == "bearer" and token.strip():
        yield token.strip()


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


# Keeps foreign web pages out: any page can send requests to this computer, so headers are
# checked.
#
# ``Host`` must name this server: otherwise a page could reach us by DNS rebinding. ``Origin``
# must be absent, ours, of this computer or allowed. Requests that pages send without an
# ``Origin`` (images, scripts, links) are recognised by ``Sec-Fetch-Site``. CORS headers go to
# allowed origins only.
#
# Names ending in ``.local`` or ``.internal`` are never in public DNS, and containers reach their
# host by such names, so they are accepted as ``Host``. Another computer on the same network could
# still claim such a name: as the *origin* of a page it is accepted only if the user allowed it.

# A bracketed address or a name, with an optional port; nothing else, however lenient a parser is.
_HOST = re.compile(
    r"(?:\[(?P<address>[0-9A-Fa-f:.]+)\]|(?P<name>[^\s\[\]:/?#@\\,]+))(?::(?P<port>\d{0,5}))?"
)
_MAX_PORT = 65535
# RFC 6762, and ICANN's reservation for private use; loopback names are checked separately.
_PRIVATE = (".local", ".internal")
# Schemes of desktop apps on a browser's engine: no page on the web can have such an origin. Ollama
# lets in the same, and ``file://`` too, which Safari sends for a downloaded page.
_APP_SCHEMES = frozenset({"app", "tauri", "vscode-file", "vscode-webview"})
# Longer host names are not repeated in errors.
_MAX_REPEATED = 150
# Characters that an error can repeat without misleading its reader.
_ORIGIN = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,40}://[A-Za-z0-9.:\[\]_-]{1,150}")
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
_EXPOSED = (
    "request-id, x-request-id, retry-after, x-should-retry, "
    "x-fullstop-tools-left-out, x-fullstop-not-applied, x-fullstop-task-max-tokens"
)


def check_host(host_header: str | None, config: ServerConfig, local_host: str | None) -> None:
    """Accept a request whose ``Host`` can only mean this server.

    Accepted are loopback names, the address that the request reached, this computer's own name,
    names of local networks and containers, and names that the user allowed.
    """
    host = _host_of(host_header)
    if host and (_is_certain(host, config, local_host) or _is_private(host)):
        return
    name = host if host and len(host) <= _MAX_REPEATED else "NAME"
    remedy = f"--allow-host {name}"
    raise ApiError(
        ErrorKind.PERMISSION,
        "the Host header does not name an address of this server; use its IP address or "
        "localhost, or "
        f"start the server with {remedy} (in the window: Names of this computer)",
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
    if host and _is_certain(host, config, local_host) and _is_own(origin, host_header, config):
        return
    named = origin if _ORIGIN.fullmatch(origin) else "ORIGIN"
    raise ApiError(
        ErrorKind.PERMISSION,
        "this web origin may not call this server; start the server with --allow-origin "
        f"{named} (in the window: Web pages that may call it)",
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
    asked = origin.lower()
    return any(
        asked.startswith(allowed[:-1]) if allowed.endswith("://*") else asked == allowed.rstrip("/")
        for allowed in map(str.lower, config.allowed_origins)
    )


def cors_headers(origin: str | None, config: ServerConfig) -> dict[str, str]:
    """Return the CORS headers of an answer: none, unless the page's origin is allowed."""
    if origin is None or not is_allowed(origin, config):
        return {}
    return {
        "Access-Control-Allow-Origin": origin,
        "Access-Control-Expose-Headers": _EXPOSED,
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
    if match is None or not 0 <= int(match["port"] or 0) <= _MAX_PORT:
        return None
    return (match["address"] or match["name"]).lower()


def _is_certain(host: str, config: ServerConfig, local_host: str | None) -> bool:
    """Return whether a name can only mean this server, whoever else is on the network."""
    ours = [config.host, *config.allowed_hosts, *([local_host] if local_host else [])]
    own_name = socket.gethostname()
    if own_name:
        ours.append(own_name)
    return is_loopback(host) or any(same_host(host, own) for own in ours)


def _is_private(host: str) -> bool:
    """Return whether a name cannot be in public DNS, where a stranger could redirect it here."""
    return host.rstrip(".").endswith(_PRIVATE)


def _is_local(origin: str) -> bool:
    """Return whether a program on this computer serves the page, or a desktop app shows it.

    Such a program can call the server without a browser, too.
    """
    scheme, separator, rest = origin.partition("://")
    if scheme.lower() in _APP_SCHEMES:
        return bool(separator)
    host = _host_of(rest) if scheme.lower() in ("http", "https") else None
    return host is not None and (is_loopback(host) or host == "0.0.0.0")


def _is_own(origin: str, host_header: str | None, config: ServerConfig) -> bool:
    scheme = "https" if config.is_encrypted else "http"
    return host_header is not None and origin.lower() == f"{scheme}://{host_header.lower()}"


# Reads the certificate and the private key of a server.
#
# Problems are reported when the server starts, with the name of the setting, instead of failing
# each client's handshake. Blocks while it reads the files.

_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
_KEY = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----")
_LARGEST_BYTES = 1 << 20
_TURNS = 16
# OpenSSL's numbers: https://docs.openssl.org/master/man3/X509_STORE_CTX_get_error/
_NOT_YET_VALID, _EXPIRED = 9, 10


class _HasPassphrase(Exception):
    """The private key is protected by a passphrase."""


def context_of(config: ServerConfig) -> ssl.SSLContext | None:
    """Return the TLS context of a server; None if it has no certificate."""
    cert, key = config.tls_cert, config.tls_key or config.tls_cert
    if cert is None or key is None:
        return None
    chain = _CERTIFICATE.findall(_text("tls_cert", cert))
    if not chain:
        raise ConfigError("tls_cert", f"{cert} contains no certificate in PEM form")
    key_setting = "tls_cert" if config.tls_key is None else "tls_key"
    if not _KEY.search(_text(key_setting, key)):
        remedy = "; name its file with --tls-key" if config.tls_key is None else " in PEM form"
        raise ConfigError(key_setting, f"{key} contains no private key{remedy}")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(cert, key, password=_refuse_passphrase)
    except _HasPassphrase:
        raise ConfigError(
            key_setting,
            f"{key} is protected by a passphrase, which the server cannot ask for; write it to a "
            "file that only you can read: openssl pkey -in KEY -out KEY-WITHOUT",
        ) from None
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise ConfigError(key_setting, f"{key} is not the key of {cert}") from None
        why = (error.reason or "damaged").lower().replace("_", " ")
        raise ConfigError("tls_cert", f"{cert} and its key {key} cannot be used: {why}") from None
    _check_dates(context, cert, chain[0])
    return context


def _text(setting: str, file: Path) -> str:
    try:
        return read_bounded(file, _LARGEST_BYTES).decode("latin-1")
    except OSError as error:
        raise ConfigError(setting, f"{file} cannot be read: {os_cause(error)}") from None


def _refuse_passphrase() -> NoReturn:
    raise _HasPassphrase


def _check_dates(server: ssl.SSLContext, cert: Path, first: str) -> None:
    """Refuse a certificate that is expired or not valid yet, by a handshake with ourselves."""
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    # Only the certificate itself is checked, not who signed it.
    client.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
    try:
        client.load_verify_locations(cadata=first)
        _shake_hands(client, server)
    except ssl.SSLCertVerificationError as error:
        if error.verify_code == _EXPIRED:
            raise ConfigError("tls_cert", f"{cert} has expired; renew it") from None
        if error.verify_code == _NOT_YET_VALID:
            raise ConfigError(
                "tls_cert", f"{cert} is not valid yet; is this computer's clock right?"
            ) from None
        # Any other problem depends on which authorities the client trusts.
    except ssl.SSLError as error:
        why = (error.reason or "damaged").lower().replace("_", " ")
        raise ConfigError("tls_cert", f"{cert} cannot be used: {why}") from None


def _shake_hands(client: ssl.SSLContext, server: ssl.SSLContext) -> None:
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        client.wrap_bio(to_client, to_server),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    for _ in range(_TURNS):
        for side in list(sides):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            sides.remove(side)
        if not sides:
            return


# Removes secrets from the headers, query strings and bodies of requests that are shown.

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
    """Return headers with the values of those that carry keys replaced."""
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

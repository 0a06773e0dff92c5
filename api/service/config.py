"""Where and how a server listens: addresses, and settings that are checked when they are made.

Pure values; knows no web framework. Any thread.
"""

import ipaddress
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from engine.stopping.repetition import RepetitionDetection

GREETING = "Fullstop is running\n"
"""The answer to ``GET /``, which needs no key: commands recognise a server by it."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server listens; a host is a name or an address, IPv6 without brackets."""

    host: str
    port: int
    is_encrypted: bool = False

    @property
    def url(self) -> str:
        """The URL that clients on this computer use, without a trailing slash."""
        scheme, address = "https" if self.is_encrypted else "http", _parse_address(self.host)
        host = self.host
        if address is not None and address.is_unspecified:
            host = "::1" if ":" in host else "127.0.0.1"
        return (
            f"{scheme}://[{host}]:{self.port}" if ":" in host else f"{scheme}://{host}:{self.port}"
        )


def is_loopback(host: str) -> bool:
    """Whether a name or address can only mean this computer."""
    address = _parse_address(host)
    if address is not None:
        return address.is_loopback
    name = host.rstrip(".").lower()
    return name == "localhost" or name.endswith(".localhost")


def same_host(one: str, other: str) -> bool:
    """Whether two hosts are the same name or the same address, however they are spelled."""
    first, second = _parse_address(one), _parse_address(other)
    if first is None or second is None:
        return one.rstrip(".").lower() == other.rstrip(".").lower()
    return first == second


def _parse_address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


# The rule for pictures that a model cannot see: the request is refused; only if the picture
# is in its last message, otherwise a note replaces the picture; or always a note.
ImageRule = Literal["refuse", "refuse-new", "note"]
# The header of a request with a rule of its own.
IMAGES_HEADER = "x-fullstop-images"


class ConfigError(ValueError):
    """A setting has an invalid value; the message names the setting and the remedy."""

    def __init__(self, setting: str, reason: str) -> None:
        super().__init__(f"{setting}: {reason}")
        self.setting = setting


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """How to serve. The program's options explain these settings, and bound the numbers.

    Attributes:
        port: TCP port; 0 picks a free one.
        is_open_here: Whether programs on this computer may call without the key.
        allowed_origins: Web origins whose pages may call us, besides those of this computer and of
            desktop apps; ``*`` allows every page, ``chrome-extension://*`` a whole scheme.
        product: Name and version for the ``Server`` header.
        keepalive_s: Seconds of silence after which a stream gets a keepalive message; what HTTP
            calls keep-alive, how long an idle connection remains open, is ``idle_timeout_s``.
        kept_responses_folder: Of stored answers, used by this server only; None keeps them in
            memory.
        keeps_prompts: Whether the engine may keep the prompt caches of requests on disk. They
            contain the prompts of everybody who uses the server.
        are_models_chosen: Whether requests may choose among the models that the engine offers; else
            the default one answers all. Called at each request, on the server's loop.
    """

    product: str = "Fullstop"
    host: str = "127.0.0.1"
    port: int = 0
    api_key: str | None = None
    is_open_here: bool = False
    allowed_origins: tuple[str, ...] = ()
    allowed_hosts: tuple[str, ...] = ()
    tls_cert: Path | None = None
    tls_key: Path | None = None
    strict: bool = False
    images: ImageRule = "refuse-new"
    ignore_template_eos: bool = False
    thinking_budget: int | None = None
    repetition: RepetitionDetection | None = None
    task_max_tokens: int = 1_000
    max_body_bytes: int = 32 * 1024 * 1024
    max_connections: int = 512
    keepalive_s: float = 5.0
    header_timeout_s: float = 30.0
    body_timeout_s: float = 60.0
    idle_timeout_s: float = 75.0
    write_timeout_s: float = 60.0
    stop_grace_s: float = 2.0
    kept_responses_bytes: int = 64 * 1024 * 1024
    kept_responses_s: float = 86_400.0
    kept_responses_folder: Path | None = None
    keeps_prompts: bool = False
    are_models_chosen: Callable[[], bool] = lambda: True

    def __post_init__(self) -> None:
        if not self.host.strip():
            raise ConfigError("host", "must be a name or an address, such as 127.0.0.1")
        if self.api_key is not None and not self.api_key.strip():
            raise ConfigError("api_key", "must not be empty; leave it out to serve without a key")
        if self.api_key is None and not is_loopback(self.host):
            raise ConfigError(
                "api_key",
                f"is required to listen on {self.host}, which other computers can reach; "
                "set one, or listen on 127.0.0.1",
            )
        if self.tls_key is not None and self.tls_cert is None:
            raise ConfigError("tls_key", "needs a certificate; set tls_cert as well")
        for origin in self.allowed_origins:
            if origin != "*" and not _is_origin(origin):
                raise ConfigError(
                    "allowed_origins",
                    f"{origin!r} is not an origin; write scheme and host, such as "
                    "https://example.org, or chrome-extension://* for a whole scheme",
                )

    @property
    def is_encrypted(self) -> bool:
        return self.tls_cert is not None

    @property
    def is_readable_on_the_way(self) -> bool:
        """Whether the key, prompts and answers cross a network unencrypted."""
        return not self.is_encrypted and not is_loopback(self.host)


def _is_origin(text: str) -> bool:
    scheme, separator, host = text.partition("://")
    if host == "*":
        # Everybody can use a scheme of the web; a desktop app's own scheme belongs to that app.
        return bool(scheme) and scheme.lower() not in ("http", "https", "ws", "wss")
    return bool(separator and scheme and host) and not set(host) & set("/?#@ *")

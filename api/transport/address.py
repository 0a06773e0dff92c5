"""Network addresses: where a server listens, and which names mean this computer.

Pure values; knows no web framework. Any thread.
"""

import ipaddress
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server listens.

    Attributes:
        host: A name or an address, IPv6 without brackets.
        port: The TCP port, never 0.
        is_encrypted: Whether clients must use HTTPS.
    """

    host: str
    port: int
    is_encrypted: bool = False

    @property
    def url(self) -> str:
        """The URL that clients use, without a trailing slash."""
        scheme = "https" if self.is_encrypted else "http"
        return f"{scheme}://{bracketed(reachable_host(self.host))}:{self.port}"


def bracketed(host: str) -> str:
    """Return a host as written in a URL: IPv6 addresses in brackets."""
    return f"[{host}]" if ":" in host else host


def reachable_host(host: str) -> str:
    """Return a host that a client on this computer can connect to."""
    if is_wildcard(host):
        return "::1" if ":" in host else "127.0.0.1"
    return host


def is_wildcard(host: str) -> bool:
    """Whether listening on this address means listening on every interface."""
    address = _parsed(host)
    return address is not None and address.is_unspecified


def is_loopback(host: str) -> bool:
    """Whether a name or address can only mean this computer."""
    address = _parsed(host)
    if address is not None:
        return address.is_loopback
    name = host.rstrip(".").lower()
    return name == "localhost" or name.endswith(".localhost")


def same_host(one: str, other: str) -> bool:
    """Whether two hosts are the same name or the same address, however they are spelled."""
    first, second = _parsed(one), _parsed(other)
    if first is None or second is None:
        return one.rstrip(".").lower() == other.rstrip(".").lower()
    return first == second


def _parsed(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address

"""The settings of the server, checked when they are made.

Pure values; knows no web framework. Any thread.
"""

import math
from dataclasses import dataclass
from pathlib import Path

from api.transport.address import is_loopback

_ABOVE_ZERO = (
    "max_body_bytes",
    "max_connections",
    "keepalive_s",
    "header_timeout_s",
    "body_timeout_s",
    "idle_timeout_s",
    "write_timeout_s",
)


class ConfigError(ValueError):
    """A setting that cannot be; the message names it and says what would be right.

    Attributes:
        setting: The name of the setting.
    """

    def __init__(self, setting: str, reason: str) -> None:
        super().__init__(f"{setting}: {reason}")
        self.setting = setting


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """How to serve.

    Attributes:
        host: Name or address to listen on; beyond loopback an API key is required.
        port: TCP port; 0 picks a free one.
        api_key: What clients must present, or None for no key.
        allowed_origins: Web origins whose pages may call us (``https://example.org``); ``*``
            allows every page, and a scheme of desktop apps with a star (``app://*``,
            ``tauri://*``, ``vscode-webview://*``) every one of that scheme.
        allowed_hosts: Names under which other computers reach us, beside the address itself.
        tls_cert: PEM file of the certificate with which connections are encrypted; None leaves
            them in clear.
        tls_key: PEM file of its private key; None if that is in the certificate's file.
        strict: Refuse what the hosted APIs refuse: other model names, more than four stops in
            Chat, stops of white space only in Messages.
        thinking_budget: Most tokens of reasoning of a request that says nothing about it; None for
            any number.
        max_body_bytes: Largest request body.
        max_connections: Open connections; more are answered with an error and closed.
        keepalive_s: After so many seconds of silence a stream gets a keepalive message.
        header_timeout_s: How long a new connection may take to send its request's headers.
        body_timeout_s: How long a request's body may take after its headers.
        idle_timeout_s: How long a connection may rest between two requests.
        write_timeout_s: How long a client may leave a stream unread before it counts as gone.
        stop_grace_s: How long running answers may go on when the server is stopped.
        kept_responses_bytes: Memory for answers of the Responses API that later requests can go on
            from; 0 keeps none.
        kept_responses_s: How long each is kept after it was last used.
        kept_responses_folder: Where they are kept on disk as well, within the same bounds, for this
            server alone; None for nowhere.
        keeps_prompts: Whether the engine may keep the caches of requests on disk, if it has a
            place for them: the prompts of everybody who uses the server would lie there.
    """

    host: str = "127.0.0.1"
    port: int = 0
    api_key: str | None = None
    allowed_origins: tuple[str, ...] = ()
    allowed_hosts: tuple[str, ...] = ()
    tls_cert: Path | None = None
    tls_key: Path | None = None
    strict: bool = False
    thinking_budget: int | None = None
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

    def __post_init__(self) -> None:
        if not self.host.strip():
            raise ConfigError("host", "must be a name or an address, such as 127.0.0.1")
        if not 0 <= self.port <= 65535:
            raise ConfigError("port", f"must be between 0 and 65535, not {self.port}")
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
                    "https://example.org, or app://* for desktop apps",
                )
        for name in _ABOVE_ZERO:
            if not 0 < getattr(self, name) < math.inf:
                raise ConfigError(name, "must be greater than 0")
        if self.thinking_budget is not None and self.thinking_budget < 0:
            raise ConfigError("thinking_budget", "must not be negative")
        if not 0 <= self.stop_grace_s < math.inf:
            raise ConfigError("stop_grace_s", "must not be negative")

    @property
    def is_encrypted(self) -> bool:
        """Whether connections are encrypted."""
        return self.tls_cert is not None

    @property
    def is_readable_on_the_way(self) -> bool:
        """Whether the key, prompts and answers cross a network in clear."""
        return not self.is_encrypted and not is_loopback(self.host)


def _is_origin(text: str) -> bool:
    scheme, separator, rest = text.partition("://")
    if rest == "*":
        # On the web a scheme is everybody's; a desktop app's own scheme is not.
        return bool(scheme) and scheme.lower() not in ("http", "https", "ws", "wss")
    return bool(separator and scheme and rest) and not set(rest) & set("/?#@ *")

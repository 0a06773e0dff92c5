"""The window's server: runs on its own thread, started and stopped on demand.

Fits ``ui.server.server_switch.ServerControl`` and ``RequestReplay``. Called on the window's loop,
which it never blocks; imports the web framework when the server is first started.
"""

import asyncio
import errno
import http.client
import os
import socket
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from app import __version__
from app.settings.serve_options import DEFAULT_HOST
from ui.preferences.groups import ServerPreferences
from ui.server.requests import RequestEntry

if TYPE_CHECKING:
    from api.server.telemetry.recording import Telemetry
    from api.server.thread import ServerThread
    from api.transport.config import ServerConfig
    from api.transport.observing import RequestObserver
    from api.transport.served_engine import ServedEngine

NETWORK_HOST = "0.0.0.0"
_REPLAY_TIMEOUT_S = 600.0
_NOT_SENT_AGAIN = frozenset(
    {"host", "content-length", "connection", "transfer-encoding", "accept-encoding", "user-agent"}
)
_KEY_HEADERS = frozenset({"authorization", "x-api-key"})


async def _no_key() -> str | None:
    return None


class LocalServer:
    """Serves the window's engine to other programs."""

    def __init__(
        self,
        engine: "ServedEngine",
        port: int | None = None,
        preferences: Callable[[], ServerPreferences] = ServerPreferences,
        key: Callable[[], Awaitable[str | None]] = _no_key,
        observer: "Callable[[], RequestObserver] | None" = None,
    ) -> None:
        self._engine = engine
        self._port = port
        self._preferences = preferences
        self._ask_for_key = key
        self._observer = observer
        self._thread: ServerThread | None = None
        self._telemetry: Telemetry | None = None
        self._key: str | None = None
        self._url = ""

    async def start(self) -> str:
        """Start serving and return the address."""
        wanted = self._preferences()
        needs_key = wanted.is_on_network or wanted.is_key_required
        key = await self._ask_for_key() if needs_key else None
        if needs_key and key is None:
            raise OSError("This needs an API key. Create one below, then turn the server on.")
        self._url = await asyncio.to_thread(self._start, wanted, key)
        self._key = key
        return self._url

    async def stop(self) -> None:
        """Stop serving; running answers get a short time to finish."""
        thread, self._thread = self._thread, None
        self._url = ""
        if thread is not None:
            await asyncio.to_thread(thread.stop)
        telemetry, self._telemetry = self._telemetry, None
        if telemetry is not None:
            await asyncio.to_thread(telemetry.close)

    async def replay(self, entry: RequestEntry) -> None:
        """Send a request of the log again, with the current key."""
        if not self._url:
            raise OSError("The server is off. Turn it on to send the request again.")
        if not entry.asked.is_whole:
            raise OSError("The request was too long to keep, so it cannot be sent again.")
        await asyncio.to_thread(self._send, entry, self._url, self._key)

    def _start(self, wanted: ServerPreferences, key: str | None) -> str:
        from api.server.observed import Observers
        from api.server.server import PortTaken
        from api.server.telemetry.starting import telemetry_for
        from api.server.thread import ServerThread
        from api.transport.config import ConfigError

        try:
            config = self._config(wanted, key)
        except ConfigError as error:
            raise OSError(str(error)) from error
        telemetry = telemetry_for(os.environ, __version__, key)
        observer = None if self._observer is None else self._observer()
        told = [one for one in (observer, telemetry) if one is not None]
        thread = ServerThread(self._engine, config, Observers(told) if told else None)
        try:
            address = thread.start()
        except BaseException as error:
            if telemetry is not None:
                telemetry.close()
            if not isinstance(error, PortTaken):
                raise
            taken = OSError(f"Port {config.port} is taken by another program. Choose another one.")
            taken.errno = errno.EADDRINUSE
            raise taken from error
        self._thread, self._telemetry = thread, telemetry
        if wanted.is_on_network:
            return f"http://{own_address()}:{address.port}"
        return address.url

    def _config(self, wanted: ServerPreferences, key: str | None) -> "ServerConfig":
        from api.transport.config import ServerConfig

        return ServerConfig(
            host=NETWORK_HOST if wanted.is_on_network else DEFAULT_HOST,
            port=wanted.port if self._port is None else self._port,
            api_key=key,
            is_open_here=not wanted.is_key_required,
            allowed_origins=wanted.allowed_origins,
        )

    @staticmethod
    def _send(entry: RequestEntry, url: str, key: str | None) -> None:
        place = urlsplit(url)
        headers = {"user-agent": f"Fullstop/{__version__} (sent again)"}
        for name, value in entry.headers:
            if name.lower() not in _NOT_SENT_AGAIN | _KEY_HEADERS:
                headers[name] = value
        if key is not None:
            headers["x-api-key"] = key
        connection = http.client.HTTPConnection(
            str(place.hostname), place.port, timeout=_REPLAY_TIMEOUT_S
        )
        try:
            body = entry.asked.text.encode() or None
            connection.request(entry.method, entry.path, body, headers)
            connection.getresponse().read()
        except http.client.HTTPException as error:
            raise OSError(f"The server gave no answer ({type(error).__name__}).") from error
        finally:
            connection.close()


def own_address() -> str:
    """Return this computer's address on its network, or the loopback address without one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            # Connecting a datagram socket sends nothing; it only selects the network interface.
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return DEFAULT_HOST
        return str(probe.getsockname()[0])

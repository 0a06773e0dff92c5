"""The window's server: on its own thread, started and stopped on demand."""

import asyncio
import errno
import http.client
import os
import socket
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from api.service.config import Address, ConfigError, ServerConfig
from api.service.record import RequestObserver
from app import __version__
from app.settings.keychain import KeyStore
from app.settings.serve import DEFAULT_HOST
from engine import Engine
from ui.preferences_state import PreferencesState
from ui.server.requests import RequestEntry
from ui.server.server_switch import AddressRefused

if TYPE_CHECKING:
    from api.server.server import ServerThread
    from api.server.telemetry import Telemetry

NETWORK_HOST = "0.0.0.0"
_NOT_SENT_AGAIN = frozenset(
    {"host", "content-length", "connection", "transfer-encoding", "accept-encoding", "user-agent"}
)
_KEY_HEADERS = frozenset({"authorization", "x-api-key"})


class LocalServer:
    """Serves the window's engine to other programs."""

    def __init__(
        self,
        engine: Engine,
        preferences: PreferencesState,
        key: KeyStore,
        observer: RequestObserver | None = None,
    ) -> None:
        self._engine = engine
        self._preferences = preferences
        self._key_store = key
        self._observer = observer
        self._thread: ServerThread | None = None
        self._telemetry: Telemetry | None = None
        self._key: str | None = None
        self._url = ""

    async def start(self) -> str:
        config = await self._config()
        self._note(config, await asyncio.to_thread(self._start, config))
        return self._url

    async def apply(self) -> str:
        """Serve with the preferences and the key of now; running answers continue."""
        thread = self._thread
        if thread is None:
            raise OSError("The server is off.")
        config = await self._config()
        if self._telemetry is not None:
            self._telemetry.secret = config.api_key
        try:
            self._note(config, await asyncio.to_thread(thread.apply, config))
        except ConfigError as error:
            raise OSError(str(error)) from error
        except OSError as error:
            problem = _port_taken_error(error, config)
            if thread.address is None:
                raise problem from None
            self._key = config.api_key
            raise AddressRefused(str(problem)) from error
        return self._url

    async def stop(self) -> None:
        thread, self._thread = self._thread, None
        self._url = ""
        if thread is not None:
            await asyncio.to_thread(thread.stop)
        telemetry, self._telemetry = self._telemetry, None
        if telemetry is not None:
            await asyncio.to_thread(telemetry.close)

    async def replay(self, entry: RequestEntry) -> None:
        if not self._url:
            raise OSError("The server is off. Turn it on to send the request again.")
        if (body := entry.whole_body) is None:
            raise OSError("The request’s body was not kept whole, so it cannot be sent again.")
        await asyncio.to_thread(self._send, entry, body, self._url, self._key)

    def _start(self, config: ServerConfig) -> Address:
        from api.server.server import ServerThread
        from api.server.telemetry import telemetry_for

        telemetry = telemetry_for(os.environ, __version__, config.api_key)
        observers = [each for each in (self._observer, telemetry) if each is not None]
        thread = ServerThread(self._engine, config, observers)
        try:
            address = thread.start()
        except BaseException as error:
            if telemetry is not None:
                telemetry.close()
            if isinstance(error, OSError):
                raise _port_taken_error(error, config) from None
            raise
        self._thread, self._telemetry = thread, telemetry
        return address

    async def _config(self) -> ServerConfig:
        """Return the configuration that the preferences ask for; ``OSError`` if it cannot be."""
        preferences = self._preferences.now.server
        needs_key = preferences.is_on_network or preferences.is_key_required
        key = await self._key_store.key() if needs_key else None
        if needs_key and key is None:
            raise OSError("An API key is required. Create one in Settings, Server.")
        try:
            return ServerConfig(
                product=f"Fullstop/{__version__}",
                host=NETWORK_HOST if preferences.is_on_network else DEFAULT_HOST,
                port=preferences.port,
                api_key=key,
                is_open_here=not preferences.is_key_required,
                allowed_origins=preferences.allowed_origins,
                allowed_hosts=preferences.allowed_hosts,
                task_max_tokens=preferences.task_max_tokens,
                are_models_chosen=self._are_models_chosen,
            )
        except ConfigError as error:
            raise OSError(str(error)) from error

    def _note(self, config: ServerConfig, address: Address) -> None:
        is_on_network = config.host == NETWORK_HOST
        self._url = f"http://{own_address()}:{address.port}" if is_on_network else address.url
        self._key = config.api_key

    def _are_models_chosen(self) -> bool:
        """Whether requests choose a model by its name: a single one answers to every name."""
        return self._preferences.now.server.is_model_chosen and len(self._engine.models) > 1

    @staticmethod
    def _send(entry: RequestEntry, body: str, url: str, key: str | None) -> None:
        address = urlsplit(url)
        headers = {"user-agent": f"Fullstop/{__version__} (sent again)"}
        for name, value in entry.headers:
            if name.lower() not in _NOT_SENT_AGAIN | _KEY_HEADERS:
                headers[name] = value
        if key is not None:
            headers["x-api-key"] = key
        connection = http.client.HTTPConnection(str(address.hostname), address.port, timeout=600.0)
        try:
            connection.request(entry.method, entry.path, body.encode() or None, headers)
            connection.getresponse().read()
        except http.client.HTTPException as error:
            raise OSError(f"The server gave no answer ({type(error).__name__}).") from error
        finally:
            connection.close()


def _port_taken_error(error: OSError, config: ServerConfig) -> OSError:
    if error.errno != errno.EADDRINUSE:
        return error
    taken = OSError(f"Port {config.port} is taken by another program.")
    taken.errno = error.errno
    return taken


def own_address() -> str:
    """Return this computer's address on its network, or the loopback address without one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            # Connecting a datagram socket sends nothing; it only selects the network interface.
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return DEFAULT_HOST
        return str(probe.getsockname()[0])

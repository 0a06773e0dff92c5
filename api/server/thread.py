"""The HTTP server on its own thread and loop, so that a busy window never stalls a stream.

Usable from any thread; knows no GUI toolkit.
"""

import asyncio
import threading
from concurrent.futures import Future

from api.server.server import ApiServer
from api.transport.address import Address
from api.transport.config import ServerConfig
from api.transport.observing import RequestObserver
from api.transport.served_engine import ServedEngine


class ServerThread:
    """An ``ApiServer`` for a program that cannot run the server on a loop of its own."""

    def __init__(
        self,
        engine: ServedEngine,
        config: ServerConfig | None = None,
        observer: RequestObserver | None = None,
    ) -> None:
        self.config = config if config is not None else ServerConfig()
        self._engine = engine
        self._observer = observer
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop_wanted: asyncio.Event | None = None
        self._address: Address | None = None

    @property
    def address(self) -> Address | None:
        """Where it listens; None while it does not."""
        return self._address

    def start(self) -> Address:
        """Start to listen; return the address. Blocks until it listens.

        Raises:
            PortTaken: The port is in use.
            CannotListen: The host is not an address of this computer, or the port
                cannot be used.
        """
        if self._address is not None:
            return self._address
        started: Future[Address] = Future()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._serve(started)), name="api", daemon=True
        )
        self._thread.start()
        try:
            self._address = started.result()
        except BaseException:
            self._thread.join()
            self._thread = None
            raise
        return self._address

    def stop(self) -> None:
        """Stop gracefully and end the thread. Blocks while running answers get time to finish."""
        thread, self._thread, self._address = self._thread, None, None
        if thread is None or self._loop is None or self._stop_wanted is None:
            return
        if thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop_wanted.set)
        thread.join()

    async def _serve(self, started: Future[Address]) -> None:
        server = ApiServer(self._engine, self.config, self._observer)
        self._loop = asyncio.get_running_loop()
        self._stop_wanted = asyncio.Event()
        try:
            address = await server.start()
        except BaseException as error:
            started.set_exception(error)
            return
        started.set_result(address)
        try:
            await self._stop_wanted.wait()
        finally:
            await server.stop()

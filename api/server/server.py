"""The HTTP server, on a running loop or on its own thread: start it, stop it gracefully."""

import asyncio
import errno
import itertools
import logging
import socket
import ssl
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

from aiohttp import web

from api.server.answering import SERVICE
from api.server.application import build
from api.server.connection import Connection, connection_factory
from api.server.tls import context_of
from api.service.config import Address, ServerConfig
from api.service.metrics import Metrics
from api.service.record import RequestObserver
from engine import Engine
from engine.files.causes import os_cause

_CLOSE_TIMEOUT_S = 1.0

_log = logging.getLogger(__name__)


class CannotListen(OSError):
    """The server cannot listen at its address; the message says why and what to do."""

    def __str__(self) -> str:
        return str(self.strerror)


class ApiServer:
    """Serves one engine to other programs; ``address`` is None while it does not listen."""

    def __init__(
        self,
        engine: Engine,
        config: ServerConfig | None = None,
        observers: Sequence[RequestObserver] = (),
    ) -> None:
        self.config = config if config is not None else ServerConfig()
        self.address: Address | None = None
        self._engine = engine
        self._observers = observers
        self._runner: web.AppRunner | None = None
        self._listening: asyncio.Server | None = None
        self._connect: Callable[[], Connection] | None = None
        self._encryption: ssl.SSLContext | None = None

    @property
    def metrics(self) -> Metrics | None:
        return None if self._runner is None else self._runner.app[SERVICE].metrics

    async def start(self) -> Address:
        """Start to listen; return the address.

        Raises:
            CannotListen: The host is not an address of this computer, or the port cannot be used.
            ConfigError: The certificate, its key, or the folder of kept answers cannot be used.
        """
        if self.address is not None:
            return self.address
        self._encryption = context_of(self.config)
        listener = await self._listener()
        asyncio.get_running_loop().set_exception_handler(_loop_exception_handler())
        async with AsyncExitStack() as on_failure:
            on_failure.callback(listener.close)
            # Without handler_cancellation a client that leaves during prefill goes unnoticed.
            runner = web.AppRunner(
                build(self._engine, self.config, self._observers),
                handler_cancellation=True,
                shutdown_timeout=_CLOSE_TIMEOUT_S,
            )
            on_failure.push_async_callback(runner.cleanup)
            await runner.setup()
            self._connect = connection_factory(runner, self.config)
            address = await self._listen(listener)
            on_failure.pop_all()
        self._runner = runner
        return address

    async def apply(self, config: ServerConfig) -> Address:
        """Serve with other settings from the next request on; running answers go on.

        The certificate, the limits of bodies and connections, and the storage of responses stay
        as they were at the start. Clients connect anew where the address is another one, which is
        returned.

        Raises:
            CannotListen: The server cannot listen there. It goes on where it was, with the other
                settings; ``address`` is None if it cannot do that either.
            ConfigError: It cannot go on where it was with the other settings.
        """
        runner, listening, address = self._runner, self._listening, self.address
        assert runner is not None, "it has been started"
        assert listening is not None, "it has been started"
        assert address is not None, "it has been started"
        before, self.config = self.config, config
        service = runner.app[SERVICE]
        if (config.host, config.port) == (before.host, before.port):
            service.config = config
            return address
        self.address = None
        await _stop_accepting(listening)
        service.config = config
        assert runner.server is not None, "the runner has been set up"
        # Who was let in at the earlier address may not be let in at the new one.
        runner.server.pre_shutdown()
        try:
            return await self._listen(await self._listener())
        except CannotListen:
            self.config = replace(config, host=address.host, port=address.port)
            service.config = self.config
            await self._listen(await self._listener())
            raise

    async def stop(self) -> None:
        """Accept no more requests, give running answers a short time to finish, then end them.

        A client whose answer is ended this way receives an error, never a normal end.
        """
        runner, listening = self._runner, self._listening
        self._runner = self._listening = self.address = None
        if runner is None or listening is None:
            return
        await _stop_accepting(listening)
        service = runner.app[SERVICE]
        ends = [asyncio.create_task(generation.ended()) for generation in service.running]
        if ends:
            await asyncio.wait(ends, timeout=self.config.stop_grace_s)
        for generation in service.running:
            generation.cancel()
        await runner.cleanup()
        await asyncio.to_thread(service.responses.close)

    async def _listen(self, listener: socket.socket) -> Address:
        encryption = self._encryption
        assert self._connect is not None, "it has been started"
        self._listening = await asyncio.get_running_loop().create_server(
            self._connect,
            sock=listener,
            backlog=512,
            ssl=encryption,
            # A client whose TLS handshake is not complete has not sent its headers either.
            ssl_handshake_timeout=self.config.header_timeout_s if encryption else None,
            ssl_shutdown_timeout=_CLOSE_TIMEOUT_S if encryption else None,
        )
        port = listener.getsockname()[1]
        self.address = Address(self.config.host, port, encryption is not None)
        return self.address

    async def _listener(self) -> socket.socket:
        """Return a bound socket. One socket, so that port 0 means one port for all names."""
        host, port = self.config.host, self.config.port
        loop = asyncio.get_running_loop()
        try:
            addresses = await loop.getaddrinfo(
                host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )
        except socket.gaierror as error:
            raise CannotListen(error.errno, f"{host} is not an address of this computer") from error
        # localhost may be IPv4 and IPv6; clients that try ::1 first fall back to 127.0.0.1.
        family, _, _, _, address = min(addresses, key=lambda found: found[0] != socket.AF_INET)
        try:
            return socket.create_server(address, family=family, backlog=512)
        except OSError as error:
            reason = f"cannot listen on {host} port {port}: {os_cause(error)}"
            if error.errno == errno.EADDRINUSE:
                reason = (
                    f"port {port} on {host} is taken by another program; choose another port, or 0 "
                    "for any"
                )
            raise CannotListen(error.errno, reason) from error


async def _stop_accepting(listening: asyncio.Server) -> None:
    """Close a listener once its accepted connections are set up: 3.11 would never close others."""
    for listener in listening.sockets:
        asyncio.get_running_loop().remove_reader(listener.fileno())
    for _ in range(3):  # turns of the loop that setting up takes
        await asyncio.sleep(0)
    listening.close()


def _loop_exception_handler() -> Callable[[asyncio.AbstractEventLoop, dict[str, Any]], None]:
    """Return a handler that counts failed accepts: asyncio logs hundreds of tracebacks a second."""
    counts = itertools.count(1)

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if context["message"] != "socket.accept() out of system resource":
            loop.default_exception_handler(context)
        elif (count := next(counts)).bit_count() == 1:  # 1, 2, 4, 8 …
            reason = os_cause(context["exception"])
            _log.error("connections cannot be accepted (%d failed attempts): %s", count, reason)

    return handle


class ServerThread:
    """An ``ApiServer`` on its own thread and loop, so that a busy window never stalls a stream.

    Usable from any thread.
    """

    def __init__(
        self,
        engine: Engine,
        config: ServerConfig | None = None,
        observers: Sequence[RequestObserver] = (),
    ) -> None:
        self._server = ApiServer(engine, config, observers)
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None

    @property
    def address(self) -> Address | None:
        return self._server.address

    def start(self) -> Address:
        if self.address is not None:
            return self.address
        started: Future[Address] = Future()
        self._thread = threading.Thread(target=self._run, args=(started,), name="api", daemon=True)
        self._thread.start()
        try:
            return started.result()
        except BaseException:
            self._thread.join()
            self._thread = None
            raise

    def apply(self, config: ServerConfig) -> Address:
        """Serve with other settings, as ``ApiServer.apply`` does. Blocks until they hold."""
        assert self._loop is not None, "it has been started"
        return asyncio.run_coroutine_threadsafe(self._server.apply(config), self._loop).result()

    def stop(self) -> None:
        thread, self._thread = self._thread, None
        if thread is None or self._loop is None or self._stopping is None:
            return
        if thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopping.set)
        thread.join()

    def _run(self, started: Future[Address]) -> None:
        try:
            # The loop itself cannot be created without file descriptors.
            with asyncio.Runner() as runner:
                runner.run(self._serve(started))
        except BaseException as error:
            if started.done():
                raise
            started.set_exception(error)

    async def _serve(self, started: Future[Address]) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        started.set_result(await self._server.start())
        try:
            await self._stopping.wait()
        finally:
            await self._server.stop()

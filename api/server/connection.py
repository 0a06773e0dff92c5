"""A client's connection: limits their number and their time, and answers malformed requests.

aiohttp limits the size of headers but not the time that a client takes to send them, and it answers
malformed requests in plain text. This module adds the time limit and the error format. Runs on the
server's loop.
"""

import asyncio
import errno
import logging
import time
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from api.server.answering import REQUEST_ID_HEADERS, failure_response
from api.server.routes import dialect_of
from api.transport.errors import ApiError, ErrorKind
from api.transport.service import new_id

# Logs once a minute at most that the server cannot accept connections.
#
# asyncio reports every failed ``accept`` with a traceback, once for each connection in its
# backlog: 500 times a second. It keeps trying even after the listener has been closed.

_log = logging.getLogger(__name__)
_OUT_OF_RESOURCES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_QUIET_S = 60.0


class AcceptFailures:
    """Handles failed ``accept`` calls; passes on the loop's other exceptions."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._before = loop.get_exception_handler()
        self._told_at_s: float | None = None
        self._has_ended = False

    def watch(self) -> None:
        """Handle the loop's exceptions from now on."""
        self._loop.set_exception_handler(self._handle)

    def end(self) -> None:
        """Note that the listener is closed, so that attempts still scheduled may fail."""
        self._has_ended = True

    def _handle(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        is_accept = "socket" in context
        if is_accept and isinstance(error, OSError) and error.errno in _OUT_OF_RESOURCES:
            self._tell(error)
        elif self._has_ended and "_start_serving" in str(context.get("message")):
            return
        elif self._before is not None:
            self._before(loop, context)
        else:
            loop.default_exception_handler(context)

    def _tell(self, error: OSError) -> None:
        now_s = time.monotonic()
        if self._told_at_s is None or now_s - self._told_at_s >= _QUIET_S:
            self._told_at_s = now_s
            _log.warning(
                "new connections wait: %s. Close some, or allow more open files (ulimit -n).",
                error.strerror,
            )


# Beyond this multiple of the limit, connections are closed without an answer.
_TOLD = 2
# Enough bytes of a request to find its path and the headers that tell its dialect.
_HEAD_BYTES = 4096


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """The limits of a server's connections."""

    max_connections: int
    header_timeout_s: float
    idle_timeout_s: float


class Connection(web.RequestHandler):
    """aiohttp's protocol with limits, and with errors in the format of the client's vendor."""

    __slots__ = (
        "_head",
        "_header_timer",
        "_limits",
        "_server",
        "is_surplus",
    )

    def __init__(self, server: web.Server, limits: ConnectionLimits, **options: Any) -> None:
        super().__init__(
            server,
            loop=asyncio.get_running_loop(),
            keepalive_timeout=limits.idle_timeout_s,
            # Bodies are unpacked by ``api.transport.bodies``, within bounds.
            auto_decompress=False,
            **options,
        )
        self.is_surplus = False
        self._server = server
        self._limits = limits
        self._head = b""
        self._header_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the timer, or close the connection at once if there are far too many."""
        super().connection_made(transport)
        count = len(self._server.connections)
        self.is_surplus = count > self._limits.max_connections
        if count > _TOLD * self._limits.max_connections and isinstance(
            transport, asyncio.Transport
        ):
            transport.abort()
            return
        self._header_timer = asyncio.get_running_loop().call_later(
            self._limits.header_timeout_s, self.force_close
        )

    def connection_lost(self, exc: BaseException | None) -> None:
        """Stop the timer."""
        self._stop_clock()
        super().connection_lost(exc)

    def close(self) -> None:
        """Take no more requests; where none is being answered, close at once.

        aiohttp leaves the client of an idle connection waiting until the server ends.
        """
        is_idle = self._waiter is not None
        super().close()
        if is_idle and self.transport is not None:
            self.transport.close()

    def data_received(self, data: bytes) -> None:
        """Keep the first bytes of a request until its headers are parsed: an error needs them."""
        if self._header_timer is not None:
            self._head = (self._head + data[:_HEAD_BYTES])[:_HEAD_BYTES]
        super().data_received(data)

    def request_began(self) -> None:
        """Note that the headers of a request have arrived."""
        self._stop_clock()
        self._head = b""

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer a malformed request in the error format of the dialect that it was meant for."""
        self._stop_clock()
        plain = super().handle_error(request, status, exc, message)
        path, headers = _path_and_headers(self._head)
        kind = ErrorKind.INVALID_REQUEST if plain.status < 500 else ErrorKind.INTERNAL
        # The error is general, because aiohttp's details quote the bytes that were sent.
        error = ApiError(kind, _parse_error_text(exc) if plain.status < 500 else "internal error")
        request_id = new_id("req_")
        response = failure_response(
            dialect_of(path, headers), error, request_id, status=plain.status
        )
        for name in REQUEST_ID_HEADERS:
            response.headers[name] = request_id
        response.force_close()
        return response

    def _stop_clock(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None


def _parse_error_text(error: BaseException | None) -> str:
    kind = type(error).__name__ if error is not None else "malformed"
    if kind == "LineTooLong":
        return "the request line or a header is too long"
    return f"the request is not valid HTTP ({kind})"


def _path_and_headers(head: bytes) -> tuple[str, dict[str, str]]:
    """Return the path and the header names of a malformed request, as far as they are readable."""
    lines = head.decode("latin-1").split("\r\n")
    words = lines[0].split(" ")
    path = words[1].partition("?")[0] if len(words) > 1 else "/"
    return path, {line.partition(":")[0].strip().lower(): "" for line in lines[1:]}

"""A client's connection: limits their number and their time, and answers malformed requests.

aiohttp limits the size of headers but not the time that a client takes to send them, and it answers
malformed requests in plain text. This module adds the time limit and the error format, and is the
only one that depends on aiohttp's internals. Runs on the server's loop.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from aiohttp import web
from aiohttp.http import RawRequestMessage
from aiohttp.http_exceptions import LineTooLong

from api.dialects.openai.chat import CHAT
from api.server.access import REQUEST_ID_HEADERS
from api.server.answering import failure_response
from api.server.routes import route_path
from api.service.config import ServerConfig
from api.service.errors import ApiError, ErrorKind
from api.service.service import new_id

_log = logging.getLogger(__name__)


class Connection(web.RequestHandler):
    """aiohttp's protocol with limits, and with errors in JSON.

    The requests of a surplus connection are refused, so that clients learn why (load shedding).
    """

    __slots__ = ("_config", "_header_timer", "_server", "is_surplus")

    def __init__(self, server: web.Server, config: ServerConfig, **options: Any) -> None:
        super().__init__(
            server,
            loop=asyncio.get_running_loop(),
            keepalive_timeout=config.idle_timeout_s,
            # ``api.server.receiving`` decompresses bodies, within limits.
            auto_decompress=False,
            **options,
        )
        self.is_surplus = False
        self._server = server
        self._config = config
        self._header_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the timer against slow headers (Slowloris); close far too many connections."""
        super().connection_made(transport)
        count, limit = len(self._server.connections), self._config.max_connections
        self.is_surplus = count > limit
        if count > 2 * limit and isinstance(transport, asyncio.Transport):
            transport.abort()
            return
        self._header_timer = asyncio.get_running_loop().call_later(
            self._config.header_timeout_s, self.force_close
        )

    def connection_lost(self, exc: BaseException | None) -> None:
        self.stop_header_timer()
        super().connection_lost(exc)

    def close(self) -> None:
        """Take no more requests; where none is being answered, close at once.

        aiohttp leaves the client of an idle connection waiting until the server ends.
        """
        is_idle = self._waiter is not None
        super().close()
        if is_idle and self.transport is not None:
            self.transport.close()

    def stop_header_timer(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None

    def log_exception(self, *args: Any, **options: Any) -> None:
        """Log no traceback: those of malformed requests quote their bytes, which may be a key."""
        self.logger.debug(*args)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer a malformed request, whose path is unknown, as Chat Completions does."""
        self.stop_header_timer()
        # The error is general, because aiohttp's details quote the bytes that were sent.
        text = f"the request is not valid HTTP ({type(exc).__name__})"
        if isinstance(exc, LineTooLong):
            text = "the request line or a header is too long"
        error = ApiError(ErrorKind.INVALID_REQUEST, text)
        if status >= 500:
            _log.error("a request failed", exc_info=exc)
            error = ApiError(ErrorKind.INTERNAL, "internal error")
        if request.writer.output_size > 0:
            raise ConnectionError("a part of the answer has been sent")
        request_id = new_id("req_")
        response = failure_response(CHAT, error, request_id, status=status)
        for name in REQUEST_ID_HEADERS:
            response.headers[name] = request_id
        response.force_close()
        return response


def connection_factory(runner: web.AppRunner, config: ServerConfig) -> Callable[[], Connection]:
    """Return the function that makes connections; their requests have the paths of routes."""
    server = runner.server
    assert server is not None, "the runner has been set up"
    make_request = server.request_factory

    def make_routed(message: RawRequestMessage, *parts: Any) -> web.BaseRequest:
        path = route_path(message.url.raw_path)
        if path != message.url.raw_path:
            # Its host remains, which is checked where the request line has one.
            url = message.url.with_path(path, encoded=True, keep_query=True)
            message = message._replace(path=str(url), url=url)
        return make_request(message, *parts)

    server.request_factory = make_routed
    return lambda: Connection(server, config, access_log=None)

"""The routes for machines: metrics and the OpenAPI document. Runs on the server's loop."""

import asyncio

from aiohttp import web

from api.transport.context import service_of
from api.transport.errors import ApiError, ErrorKind
from engine.processes.helper_process import (
    HelperClosed,
    HelperDied,
    HelperNotStarted,
    HelperProcess,
)

_MAKER = "api.server.openapi"
_PATIENCE_S = 120.0
_QUESTION = b"\n"


class OpenApiText:
    """The OpenAPI document, made by another process when it is first asked for.

    Making it takes some 200 ms; in this process it would stall the server's loop and every stream.
    Loop's thread.
    """

    def __init__(self) -> None:
        self._process = HelperProcess(_MAKER)
        self._making: asyncio.Task[str] | None = None

    async def text(self) -> str:
        """Return the document as JSON."""
        if self._making is None or (self._making.done() and self._making.exception()):
            self._making = asyncio.create_task(asyncio.to_thread(self._made))
        # Other requests wait for it, too.
        return await asyncio.shield(self._making)

    def close(self) -> None:
        """End the process, if it is running."""
        self._process.close()

    def _made(self) -> str:
        self._process.start()
        text = self._process.ask(len(_QUESTION), [_QUESTION], _PATIENCE_S)
        self._process.rest()
        return text.decode()


# Set by the application.
OPENAPI = web.AppKey("openapi", OpenApiText)


async def metrics(request: web.Request) -> web.StreamResponse:
    """Answer ``GET /metrics`` in Prometheus' text format."""
    from api.transport.metrics import exposition  # many servers never need it

    service = service_of(request)
    body = exposition.text(service.metrics, service.engine.status)
    return web.Response(body=body, headers={"Content-Type": exposition.CONTENT_TYPE})


async def openapi(request: web.Request) -> web.StreamResponse:
    """Answer ``GET /openapi.json``."""
    try:
        text = await request.app[OPENAPI].text()
    except HelperClosed as error:
        raise ApiError(ErrorKind.UNAVAILABLE, "the server is shutting down") from error
    except (HelperNotStarted, HelperDied) as error:
        why = "the document could not be made; try again"
        raise ApiError(ErrorKind.UNAVAILABLE, why) from error
    return web.Response(text=text, content_type="application/json")

"""The routes for machines: metrics and the OpenAPI document. Runs on the server's loop."""

from collections.abc import Callable
from dataclasses import dataclass

from aiohttp import web

from api.transport.context import service_of


@dataclass(frozen=True, slots=True)
class Document:
    """A text that is made when it is first asked for.

    Attributes:
        text: Makes it.
    """

    text: Callable[[], str]


# Set by the application, which knows the routes.
OPENAPI = web.AppKey("openapi", Document)


async def metrics(request: web.Request) -> web.StreamResponse:
    """Answer ``GET /metrics`` in Prometheus' text format."""
    from api.transport.metrics import exposition  # many servers are never asked

    service = service_of(request)
    body = exposition.text(service.metrics, service.engine.status)
    return web.Response(body=body, headers={"Content-Type": exposition.CONTENT_TYPE})


async def openapi(request: web.Request) -> web.StreamResponse:
    """Answer ``GET /openapi.json``."""
    return web.Response(text=request.app[OPENAPI].text(), content_type="application/json")

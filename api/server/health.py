"""The routes for health and presence. Runs on the server's loop."""

from typing import Literal

from aiohttp import web
from typing_extensions import TypedDict

from api.transport.context import service_of
from api.transport.json_text import json_text

_Word = Literal["ok", "no_model", "loading", "failed"]
_WORDS: dict[str, _Word] = {
    "ready": "ok",
    "none": "no_model",
    "loading": "loading",
    "failed": "failed",
}


class Health(TypedDict):
    """``GET /health``."""

    status: _Word
    running: int
    waiting: int


async def health(request: web.Request) -> web.StreamResponse:
    """Answer ``GET /health``: 200 once requests are answered, 503 until then."""
    service = service_of(request)
    status, models = service.engine.status, service.engine.models
    if status.state == "failed":
        # Clients that wait for a healthy server send no request that would load the model: start
        # loading now.
        service.try_again()
    # With several models, each is loaded when it is needed, and one that failed fails alone.
    can_load = status.state == "none" and service.engine.is_choosing and bool(models)
    goes_on = status.state == "failed" and any(
        one.state == "ready" or (one.state == "unloaded" and one.info is not None) for one in models
    )
    word = "ok" if can_load or goes_on else _WORDS[status.state]
    body: Health = {
        "status": word,
        "running": sum(one.running for one in models) if models else status.running,
        "waiting": sum(one.waiting for one in models) if models else status.waiting,
    }
    return web.json_response(body, status=200 if word == "ok" else 503, dumps=json_text)


async def root(request: web.Request) -> web.StreamResponse:
    """Answer ``GET /`` and ``HEAD /``, which clients use to check that a server is running."""
    return web.Response(text="Fullstop is running\n")

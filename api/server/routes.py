"""The table of routes: those of the dialects, and the server's own. Runs on the server's loop.

To add a dialect, add it to ``DIALECTS``.
"""

import asyncio
import re
from collections.abc import Mapping
from functools import cache

from aiohttp import web

from api.dialects.anthropic.dialect import MESSAGES
from api.dialects.lmstudio import LM_STUDIO
from api.dialects.ollama.dialect import OLLAMA
from api.dialects.openai.chat import CHAT
from api.dialects.openai.completions import COMPLETIONS
from api.dialects.rerank import RERANK
from api.dialects.responses.dialect import RESPONSES
from api.dialects.sglang.dialect import GENERATE
from api.dialects.shared.dialect import AnyRoute, Dialect, ParsedRequest, query
from api.dialects.shared.encoding import json_text
from api.server.answering import make_handler
from api.server.handlers import get_health, get_metrics, get_models, get_root, retrieve_model

_SLASHES = re.compile(r"/{2,}")

DIALECTS: tuple[Dialect, ...] = (
    MESSAGES,
    CHAT,
    COMPLETIONS,
    RESPONSES,
    GENERATE,
    LM_STUDIO,
    OLLAMA,
    RERANK,
)


@query("GET", "/openapi.json", media_type="application/json")
async def get_openapi(request: ParsedRequest[None]) -> str:
    """These routes as an OpenAPI 3.1 document."""
    return await asyncio.to_thread(_openapi_text)


@cache
def _openapi_text() -> str:
    from api.server.openapi import document  # which takes memory that no other request needs

    return json_text(document(TABLE))


# Each route, with the dialect of its requests and errors; the server's own have none.
TABLE: tuple[tuple[Dialect | None, AnyRoute], ...] = (
    *((dialect, route) for dialect in DIALECTS for route in dialect.routes),
    *(
        (None, route)
        for route in (get_models, retrieve_model, get_health, get_metrics, get_openapi, get_root)
    ),
)
ROUTES: tuple[AnyRoute, ...] = tuple(route for _, route in TABLE)
_BY_HANDLER = {make_handler(dialect, route): (dialect, route) for dialect, route in TABLE}


def add_to(app: web.Application) -> None:
    """Register every route; HEAD where there is a safe GET (RFC 9110, section 9.3.2)."""
    for handler, (_, route) in _BY_HANDLER.items():
        # A model's name may contain slashes.
        path = route.path.replace("{id}", "{id:.+}")
        has_head = route.method == "GET" and route.is_safe
        for method in (route.method, "HEAD") if has_head else (route.method,):
            app.router.add_route(method, path, handler)


def route_of(request: web.Request) -> tuple[Dialect | None, AnyRoute | None]:
    """Return the route that answers a request, with its dialect."""
    return _BY_HANDLER.get(request.match_info.handler, (None, None))


def route_path(path: str) -> str:
    """Return the path of a route for one with doubled slashes or one at its end.

    Clients join a base URL that ends with a slash and a path that begins with one. A redirect would
    lose the body of a POST.
    """
    if not path.startswith("/") or ("//" not in path and not path.endswith("/")):
        return path
    return _SLASHES.sub("/", path).rstrip("/") or "/"


def dialect_of(path: str, headers: Mapping[str, str]) -> Dialect:
    """Return the dialect of a request's errors, for known and unknown paths."""
    for dialect, route in TABLE:
        if dialect and (path == route.path or path.startswith(f"{route.path}/")):
            return dialect
    for dialect in DIALECTS:
        if dialect.prefix and path.startswith(dialect.prefix):
            return dialect
    return MESSAGES if "anthropic-version" in headers else CHAT

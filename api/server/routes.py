"""The table of routes: those of the dialects, and the server's own. Runs on the server's loop.

To add a dialect, add its class to ``DIALECTS``.
"""

import re
from collections.abc import Mapping

from aiohttp import web

from api.dialects.anthropic.dialect import Messages
from api.dialects.ollama.dialect import Ollama
from api.dialects.openai.chat import CHAT
from api.dialects.openai.completions import Completions
from api.dialects.responses.dialect import Responses
from api.dialects.sglang.dialect import Generate
from api.dialects.shared.dialect import Dialect
from api.server.answering import Route, routes_of
from api.server.handlers import get_health, get_metrics, get_root, list_models, retrieve_model
from api.server.openapi import TABLE, get_openapi

_SLASHES = re.compile(r"/{2,}")

_MESSAGES = Messages()
DIALECTS: tuple[Dialect, ...] = (
    _MESSAGES,
    CHAT,
    Completions(),
    Responses(),
    Generate(),
    Ollama(),
)
ROUTES: tuple[Route, ...] = (
    *(route for dialect in DIALECTS for route in routes_of(dialect)),
    list_models,
    retrieve_model,
    get_health,
    get_metrics,
    get_openapi,
    get_root,
)
_DIALECTS = {route.path: route.dialect for route in ROUTES if route.dialect is not None}
_BY_HANDLER = {(route.method, route.handler): route for route in ROUTES}


def add_to(app: web.Application) -> None:
    """Register every route; HEAD where there is a safe GET (RFC 9110, section 9.3.2)."""
    app[TABLE] = ROUTES
    for route in ROUTES:
        # A model's name may contain slashes.
        path = route.path.replace("{id}", "{id:.+}")
        has_head = route.method == "GET" and route.is_safe
        for method in (route.method, "HEAD") if has_head else (route.method,):
            app.router.add_route(method, path, route.handler)


def route_of(request: web.Request) -> Route | None:
    """Return the route that answers a request, or None."""
    method = "GET" if request.method == "HEAD" else request.method
    return _BY_HANDLER.get((method, request.match_info.handler))


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
    for known, dialect in _DIALECTS.items():
        if path == known or path.startswith(f"{known}/"):
            return dialect
    for dialect in DIALECTS:
        if dialect.prefix and path.startswith(dialect.prefix):
            return dialect
    return _MESSAGES if "anthropic-version" in headers else CHAT

"""The table of routes: those of the dialects, and the server's own. Runs on no thread of its own.

To add a dialect, add one entry to ``DIALECTS``.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from api.dialects.anthropic.dialect import DIALECT as MESSAGES
from api.dialects.chat.dialect import DIALECT as CHAT
from api.dialects.completions.dialect import DIALECT as COMPLETIONS
from api.dialects.ollama.dialect import DIALECT as OLLAMA
from api.dialects.responses.dialect import DIALECT as RESPONSES
from api.dialects.sglang.dialect import DIALECT as GENERATE
from api.dialects.shared.body import WireModel
from api.dialects.shared.dialect import Dialect
from api.server import documents, health, models
from api.server.answering import Handler, answering, replying

DIALECTS: tuple[Dialect, ...] = (MESSAGES, CHAT, COMPLETIONS, RESPONSES, GENERATE, OLLAMA)


@dataclass(frozen=True, slots=True)
class Route:
    """One route."""

    method: str
    path: str
    handler: Handler
    description: str
    dialect: Dialect | None = None
    needs_key: bool = True
    request: type[WireModel] | None = None
    answer: Any = None
    media_type: str | None = "application/json"
    other_answers: Mapping[int, Any] = field(default_factory=dict)
    stream: str | None = None
    event: Any = None
    operation: str = ""


def _routes_of(dialect: Dialect) -> Iterator[Route]:
    for answer in dialect.answers:
        yield Route(
            "POST",
            answer.path,
            answering(dialect, answer),
            answer.summary,
            dialect,
            request=answer.request,
            answer=answer.answer,
            stream=answer.media_type.partition(";")[0],
            event=answer.event,
            operation=answer.operation,
        )
    for query in dialect.queries:
        yield Route(
            query.method,
            query.path,
            replying(dialect, query),
            query.summary,
            dialect,
            request=query.request,
            answer=query.answer,
            media_type=None,
            operation=query.operation,
        )


ROUTES: tuple[Route, ...] = (
    *(route for dialect in DIALECTS for route in _routes_of(dialect)),
    Route(
        "GET",
        "/v1/models",
        models.list_models,
        "The models that requests may name, for clients of Anthropic and OpenAI",
        answer=models.ModelList,
    ),
    Route(
        "GET",
        "/v1/models/{id}",
        models.retrieve_model,
        "One model by its name",
        answer=models.ModelObject,
    ),
    Route(
        "GET",
        "/health",
        health.health,
        "Whether a model is ready, and how much is running",
        needs_key=False,
        answer=health.Health,
        other_answers={503: health.Health},
    ),
    Route("GET", "/metrics", documents.metrics, "Metrics for Prometheus", media_type="text/plain"),
    Route("GET", "/openapi.json", documents.openapi, "These routes as an OpenAPI 3.1 document"),
    Route(
        "GET",
        "/",
        health.root,
        "Whether a server is running",
        needs_key=False,
        media_type="text/plain",
    ),
    Route(
        "HEAD", "/", health.root, "Whether a server is running", needs_key=False, media_type=None
    ),
)

_DIALECTS = {route.path: route.dialect for route in ROUTES if route.dialect is not None}
_BY_HANDLER = {(route.method, route.handler): route for route in ROUTES}


def add_to(app: web.Application) -> None:
    """Register every route."""
    for route in ROUTES:
        # A model's name may contain slashes.
        app.router.add_route(route.method, route.path.replace("{id}", "{id:.+}"), route.handler)


def route_of(request: web.Request) -> Route | None:
    """Return the route that answers a request, or None."""
    return _BY_HANDLER.get((request.method, request.match_info.handler))


def dialect_of(path: str, headers: Mapping[str, str]) -> Dialect:
    """Return the dialect of a request's errors, for known and unknown paths."""
    exact = _DIALECTS.get(path)
    if exact is not None:
        return exact
    for known, dialect in _DIALECTS.items():
        if path.startswith(f"{known}/"):
            return dialect
    for dialect in DIALECTS:
        if dialect.prefix and path.startswith(dialect.prefix):
            return dialect
    return MESSAGES if "anthropic-version" in headers else CHAT

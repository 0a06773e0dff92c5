"""The table of routes: those of the dialects, and the server's own. Runs on the server's loop.

To add a dialect, add its class to ``DIALECTS``.
"""

import asyncio
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Annotated, Literal

from aiohttp import web
from pydantic import Field
from typing_extensions import TypedDict

from api.dialects.anthropic.dialect import Messages
from api.dialects.ollama.dialect import Ollama
from api.dialects.openai.chat import ChatCompletions
from api.dialects.openai.completions import Completions
from api.dialects.responses.dialect import Responses
from api.dialects.sglang.dialect import Generate
from api.dialects.shared.dialect import Dialect
from api.server.answering import SERVICE, Route, answering, replying
from api.server.openapi import document
from api.transport.answer_text import json_text
from api.transport.errors import ApiError, ErrorKind, shown
from api.transport.metrics import CONTENT_TYPE
from api.transport.models import ListedModel, listed_model, listed_models

_HealthStatus = Literal["ok", "no_model", "loading", "failed"]
_HEALTH: dict[str, _HealthStatus] = {
    "ready": "ok",
    "unloaded": "ok",
    "loading": "loading",
    "failed": "failed",
}
_MODEL_PATHS = re.compile(r"/api/(create|copy|push|delete|blobs/.*)")
_SLASHES = re.compile(r"/{2,}")


class Health(TypedDict):
    """``GET /health``."""

    status: _HealthStatus
    running: int
    waiting: int


async def get_health(request: web.Request) -> web.StreamResponse:
    """Answer ``GET /health``: 200 once requests are answered, 503 until then."""
    service = request.app[SERVICE]
    status, models = service.engine.status, service.models
    if status.state == "failed":
        # Clients that wait for a healthy server send no request that would load the model: start
        # loading now.
        service.restart_engine()
    # Several models are loaded when they are needed, and fail independently.
    is_empty = status.state == "unloaded" and status.info is None
    can_load = is_empty and service.is_choosing and bool(models)
    has_others = status.state == "failed" and any(
        model.is_loaded or model.is_unloaded for model in models
    )
    health: _HealthStatus = "no_model" if is_empty else _HEALTH[status.state]
    if can_load or has_others:
        health = "ok"
    body: Health = {
        "status": health,
        "running": sum(model.running for model in models) if models else status.running,
        "waiting": sum(model.waiting for model in models) if models else status.waiting,
    }
    return web.json_response(body, status=200 if health == "ok" else 503, dumps=json_text)


async def root(request: web.Request) -> web.StreamResponse:
    """Answer ``GET /`` and ``HEAD /``, which clients use to check that a server is running."""
    return web.Response(text="Fullstop is running\n")


# The routes that list the models, in one object for both vendors. Server's loop.


class ModelObject(TypedDict):
    """``GET /v1/models/{id}``: a model that requests may name."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    type: Literal["model"]
    display_name: str
    created_at: str
    lifecycle: Literal["active"]
    max_input_tokens: int
    max_tokens: int
    max_model_len: int
    context_length: int
    draft_model: Annotated[
        str | None, Field(description="the draft model that is loaded beside it")
    ]
    loaded: Annotated[
        bool, Field(description="whether it is in memory; if not, the first request loads it")
    ]
    size_bytes: Annotated[int, Field(description="size of its weight files")]


class ModelList(TypedDict):
    """``GET /v1/models``: the models that requests may name."""

    object: Literal["list"]
    data: list[ModelObject]
    has_more: bool
    first_id: str | None
    last_id: str | None


def model_to_wire(model: ListedModel) -> ModelObject:
    """Return a model with the fields that clients of both vendors and of open servers read."""
    return {
        "id": model.id,
        # OpenAI's
        "object": "model",
        "created": model.since,
        "owned_by": "fullstop",
        # Anthropic's
        "type": "model",
        "display_name": model.id,
        "created_at": datetime.fromtimestamp(model.since, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "lifecycle": "active",
        "max_input_tokens": model.context_length,
        "max_tokens": model.context_length,
        # Open servers'
        "max_model_len": model.context_length,
        "context_length": model.context_length,
        # Ours
        "draft_model": model.draft,
        "loaded": model.is_loaded,
        "size_bytes": model.size_bytes,
    }


async def list_models(request: web.Request) -> web.StreamResponse:
    """Answer ``GET /v1/models``."""
    data = [model_to_wire(model) for model in listed_models(request.app[SERVICE])]
    body: ModelList = {
        "object": "list",
        "data": data,
        "has_more": False,
        "first_id": data[0]["id"] if data else None,
        "last_id": data[-1]["id"] if data else None,
    }
    return web.json_response(body, dumps=json_text)


async def retrieve_model(request: web.Request) -> web.StreamResponse:
    """Answer ``GET /v1/models/{id}``."""
    name = request.match_info["id"]
    model = listed_model(request.app[SERVICE], name)
    if model is None:
        raise ApiError(
            ErrorKind.NOT_FOUND,
            f"no model named {shown(name)} is loaded; GET /v1/models lists what is",
            code="model_not_found",
        )
    return web.json_response(model_to_wire(model), dumps=json_text)


# The routes for machines: metrics and the OpenAPI document.


async def metrics(request: web.Request) -> web.StreamResponse:
    """Answer ``GET /metrics`` in Prometheus' text format."""
    service = request.app[SERVICE]
    statuses = service.models or (service.engine.status,)
    body = service.metrics.exposition(statuses, service.engine.limits.prompt_cache_bytes)
    return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE})


@cache
def openapi_text() -> str:
    """Return the document of this program's routes as JSON."""
    return json_text(document(ROUTES))


async def get_openapi(request: web.Request) -> web.StreamResponse:
    """Answer ``GET /openapi.json``."""
    text = await asyncio.to_thread(openapi_text)
    return web.Response(text=text, content_type="application/json")


MESSAGES, CHAT = Messages(), ChatCompletions()
DIALECTS: tuple[Dialect, ...] = (
    MESSAGES,
    CHAT,
    Completions(),
    Responses(),
    Generate(),
    Ollama(),
)


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
            stream=query.media_type and query.media_type.partition(";")[0],
            operation=query.operation,
        )


ROUTES: tuple[Route, ...] = (
    *(route for dialect in DIALECTS for route in _routes_of(dialect)),
    Route(
        "GET",
        "/v1/models",
        list_models,
        "The models that requests may name, for clients of Anthropic and OpenAI",
        answer=ModelList,
    ),
    Route(
        "GET",
        "/v1/models/{id}",
        retrieve_model,
        "One model by its name",
        answer=ModelObject,
    ),
    Route(
        "GET",
        "/health",
        get_health,
        "Whether a model is ready, and how much is running",
        needs_key=False,
        answer=Health,
        other_answers={503: Health},
    ),
    Route("GET", "/metrics", metrics, "Metrics for Prometheus", media_type="text/plain"),
    Route("GET", "/openapi.json", get_openapi, "These routes as an OpenAPI 3.1 document"),
    Route(
        "GET",
        "/",
        root,
        "Whether a server is running",
        needs_key=False,
        media_type="text/plain",
    ),
)

_DIALECTS = {route.path: route.dialect for route in ROUTES if route.dialect is not None}
_BY_HANDLER = {(route.method, route.handler): route for route in ROUTES}


def add_to(app: web.Application) -> None:
    """Register every route; HEAD where there is GET (RFC 9110, section 9.3.2)."""
    for route in ROUTES:
        # A model's name may contain slashes.
        path = route.path.replace("{id}", "{id:.+}")
        for method in ("GET", "HEAD") if route.method == "GET" else (route.method,):
            app.router.add_route(method, path, route.handler)


def route_of(request: web.Request) -> Route | None:
    """Return the route that answers a request, or None."""
    method = "GET" if request.method == "HEAD" else request.method
    return _BY_HANDLER.get((method, request.match_info.handler))


def missing_route(method: str, path: str) -> str:
    """Return the message about a route that does not exist."""
    if _MODEL_PATHS.fullmatch(path):
        return (
            f"there is no route {method} {path}: requests do not change the models of this "
            "computer; use fullstop models there"
        )
    return f"there is no route {method} {path}"


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

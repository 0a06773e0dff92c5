"""The one table of what the server answers. Knows the dialects; runs on no thread of its own."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from aiohttp import web

from api import health, models
from api.anthropic import handlers as anthropic
from api.anthropic.errors import MESSAGES
from api.errors import Dialect
from api.openai import handlers as openai
from api.openai.errors import CHAT

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class Route:
    """One route.

    Attributes:
        method: The HTTP method.
        path: The path, parameters in braces.
        handler: Who answers.
        description: What it is for, in a few words.
        dialect: Whose words its errors are in; None leaves it to the request's headers.
        needs_key: Whether it asks for the API key, where there is one.
    """

    method: str
    path: str
    handler: Handler
    description: str
    dialect: Dialect | None = None
    needs_key: bool = True


ROUTES: tuple[Route, ...] = (
    Route("POST", "/v1/messages", anthropic.create_message, "Anthropic Messages", MESSAGES),
    Route(
        "POST",
        "/v1/messages/count_tokens",
        anthropic.count_tokens,
        "Tokens of a Messages prompt",
        MESSAGES,
    ),
    Route(
        "POST",
        "/v1/chat/completions",
        openai.create_chat_completion,
        "OpenAI Chat Completions",
        CHAT,
    ),
    Route("GET", "/v1/models", models.list_models, "The loaded model, for both vendors' clients"),
    Route("GET", "/v1/models/{id}", models.retrieve_model, "One model by its name"),
    Route("GET", "/health", health.health, "Readiness and load", needs_key=False),
    Route("GET", "/", health.root, "Whether anybody is there", needs_key=False),
    Route("HEAD", "/", health.root, "Whether anybody is there", needs_key=False),
)

_BY_HANDLER = {(route.method, route.handler): route for route in ROUTES}


def add_to(app: web.Application) -> None:
    """Register every route."""
    for route in ROUTES:
        # A model's name may hold slashes.
        app.router.add_route(route.method, route.path.replace("{id}", "{id:.+}"), route.handler)


def route_of(request: web.Request) -> Route | None:
    """Return the route that answers a request, or None where there is none."""
    return _BY_HANDLER.get((request.method, request.match_info.handler))


def dialect_of(path: str, headers: Mapping[str, str]) -> Dialect:
    """Return whose words an error is in, for known paths and for unknown ones."""
    for route in ROUTES:
        if route.dialect is not None and _is_below(path, route.path):
            return route.dialect
    return MESSAGES if "anthropic-version" in headers else CHAT


def _is_below(path: str, prefix: str) -> bool:
    return path == prefix or path.startswith(f"{prefix}/")

"""The one table of what the server answers. Knows the dialects; runs on no thread of its own."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from aiohttp import web
from pydantic import BaseModel

from api.dialects.anthropic import handlers as anthropic
from api.dialects.anthropic.answers import MessageAnswer, MessageEvent, TokenCount
from api.dialects.anthropic.errors import MESSAGES
from api.dialects.anthropic.wire import CountTokensParams, MessageCreateParams
from api.dialects.chat import handlers as chat
from api.dialects.chat.answers import ChatCompletion, ChatEvent
from api.dialects.chat.wire import ChatCompletionParams
from api.dialects.completions import handlers as completions
from api.dialects.completions.answers import Completion, CompletionEvent
from api.dialects.completions.wire import CompletionParams
from api.dialects.ollama import handlers as ollama
from api.dialects.ollama import wire as ollama_wire
from api.dialects.ollama.errors import OLLAMA
from api.dialects.openai.errors import CHAT, COMPLETIONS, RESPONSES
from api.dialects.responses import handlers as responses
from api.dialects.responses.answers import ResponseAnswer, ResponseEvent
from api.dialects.responses.wire import ResponseParams
from api.dialects.sglang import handlers as sglang
from api.dialects.sglang import wire as sglang_wire
from api.dialects.sglang.errors import GENERATE
from api.server import documents, health, models
from api.transport.errors import Dialect

_EVENTS = "text/event-stream"
_LINES = "application/x-ndjson"

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
        request: The type of its request's body.
        answer: The type of its answer, where that is JSON of a known shape.
        media_type: What its answer is, where no type describes it.
        other_answers: The types of its answers of other statuses that are no errors.
        stream: What its answer is if it is streamed; None where it never is.
        event: The type of one event of that stream, or of one line.
    """

    method: str
    path: str
    handler: Handler
    description: str
    dialect: Dialect | None = None
    needs_key: bool = True
    request: type[BaseModel] | None = None
    answer: type[BaseModel] | None = None
    media_type: str | None = "application/json"
    other_answers: Mapping[int, type[BaseModel]] = field(default_factory=dict)
    stream: str | None = None
    event: type[BaseModel] | None = None


ROUTES: tuple[Route, ...] = (
    Route(
        "POST",
        "/v1/messages",
        anthropic.create_message,
        "Anthropic Messages",
        MESSAGES,
        request=MessageCreateParams,
        answer=MessageAnswer,
        stream=_EVENTS,
        event=MessageEvent,
    ),
    Route(
        "POST",
        "/v1/messages/count_tokens",
        anthropic.count_tokens,
        "Tokens of a Messages prompt",
        MESSAGES,
        request=CountTokensParams,
        answer=TokenCount,
    ),
    Route(
        "POST",
        "/v1/chat/completions",
        chat.create_chat_completion,
        "OpenAI Chat Completions",
        CHAT,
        request=ChatCompletionParams,
        answer=ChatCompletion,
        stream=_EVENTS,
        event=ChatEvent,
    ),
    Route(
        "POST",
        "/v1/completions",
        completions.create_completion,
        "OpenAI Completions",
        COMPLETIONS,
        request=CompletionParams,
        answer=Completion,
        stream=_EVENTS,
        event=CompletionEvent,
    ),
    Route(
        "POST",
        "/v1/responses",
        responses.create_response,
        "OpenAI Responses",
        RESPONSES,
        request=ResponseParams,
        answer=ResponseAnswer,
        stream=_EVENTS,
        event=ResponseEvent,
    ),
    Route(
        "POST",
        "/generate",
        sglang.generate,
        "SGLang's native API: raw prompts",
        GENERATE,
        request=sglang_wire.GenerateParams,
        answer=sglang_wire.GenerateAnswers,
        stream=_EVENTS,
        event=sglang_wire.GenerateEvent,
    ),
    Route(
        "GET",
        "/get_model_info",
        sglang.get_model_info,
        "The loaded model, for SGLang's clients",
        GENERATE,
        answer=sglang_wire.SglangModel,
    ),
    Route(
        "GET",
        "/health_generate",
        sglang.health_generate,
        "Whether a token can be sampled",
        GENERATE,
        media_type=None,
    ),
    Route(
        "POST",
        "/api/chat",
        ollama.chat,
        "Ollama's chat",
        OLLAMA,
        request=ollama_wire.ChatParams,
        answer=ollama_wire.OllamaChatAnswer,
        stream=_LINES,
        event=ollama_wire.OllamaChatLine,
    ),
    Route(
        "POST",
        "/api/generate",
        ollama.generate,
        "Ollama's single prompts",
        OLLAMA,
        request=ollama_wire.GenerateParams,
        answer=ollama_wire.OllamaGenerateAnswer,
        stream=_LINES,
        event=ollama_wire.OllamaGenerateLine,
    ),
    Route(
        "POST",
        "/api/show",
        ollama.show,
        "What the loaded model can do, for Ollama's clients",
        OLLAMA,
        request=ollama_wire.ShowParams,
        answer=ollama_wire.OllamaModel,
    ),
    Route(
        "GET",
        "/api/tags",
        ollama.list_tags,
        "The loaded model, for Ollama's clients",
        OLLAMA,
        answer=ollama_wire.OllamaModels,
    ),
    Route(
        "HEAD",
        "/api/tags",
        ollama.list_tags,
        "Whether the list of models is there",
        OLLAMA,
        media_type=None,
    ),
    Route(
        "GET",
        "/api/ps",
        ollama.list_running,
        "The loaded model and its size in memory, for Ollama's clients",
        OLLAMA,
        answer=ollama_wire.OllamaModels,
    ),
    Route(
        "GET",
        "/api/version",
        ollama.version,
        "The version of Ollama's API that is spoken",
        OLLAMA,
        answer=ollama_wire.OllamaVersion,
    ),
    Route(
        "HEAD",
        "/api/version",
        ollama.version,
        "Whether Ollama's API is there",
        OLLAMA,
        media_type=None,
    ),
    Route(
        "GET",
        "/v1/models",
        models.list_models,
        "The loaded model, for both vendors' clients",
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
        "Readiness and load",
        needs_key=False,
        answer=health.Health,
        other_answers={503: health.Health},
    ),
    Route("GET", "/metrics", documents.metrics, "Numbers for Prometheus", media_type="text/plain"),
    Route("GET", "/openapi.json", documents.openapi, "This table as an OpenAPI 3.1 document"),
    Route(
        "GET",
        "/",
        health.root,
        "Whether anybody is there",
        needs_key=False,
        media_type="text/plain",
    ),
    Route("HEAD", "/", health.root, "Whether anybody is there", needs_key=False, media_type=None),
)

_DIALECTS = {route.path: route.dialect for route in ROUTES if route.dialect is not None}
_OLLAMA_PREFIX = "/api/"
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
    exact = _DIALECTS.get(path)
    if exact is not None:
        return exact
    for prefix, dialect in _DIALECTS.items():
        if path.startswith(f"{prefix}/"):
            return dialect
    if path.startswith(_OLLAMA_PREFIX):
        return OLLAMA
    return MESSAGES if "anthropic-version" in headers else CHAT

"""Ollama's routes: read, convert, run, write. Runs on the server's loop."""

from datetime import UTC, datetime
from typing import Any

from aiohttp import web

from api.body import parsed
from api.context import Service, check_model, loaded_model, service_of
from api.errors import ApiError, ErrorKind, invalid
from api.extension import is_report_wanted
from api.json_text import json_text
from api.ollama import models
from api.ollama.convert import chat_from_wire, generate_from_wire
from api.ollama.stream import AnswerEncoder
from api.ollama.wire import AnswerParams, ChatParams, GenerateParams, ShowParams
from api.running import batches_of, collected, running
from api.sse import stream
from engine.models import ModelInfo
from engine.request import GenerationRequest

_LINES = "application/x-ndjson"


async def chat(request: web.Request) -> web.StreamResponse:
    """Answer ``POST /api/chat``."""
    params = parsed(await request.read(), ChatParams)
    wanted = chat_from_wire(params) if params.messages else None
    return await _answered(request, params, wanted, is_chat=True)


async def generate(request: web.Request) -> web.StreamResponse:
    """Answer ``POST /api/generate``."""
    params = parsed(await request.read(), GenerateParams)
    wanted = generate_from_wire(params)
    return await _answered(request, params, wanted if params.prompt else None, is_chat=False)


async def _answered(
    request: web.Request, params: AnswerParams, wanted: GenerationRequest | None, *, is_chat: bool
) -> web.StreamResponse:
    service = service_of(request)
    model = await _model_for(service, params)
    encoder = AnswerEncoder(
        model=params.model if models.is_named(params.model, model) else models.tagged(model.id),
        created_at=models.time_text(datetime.now(UTC)),
        is_chat=is_chat,
        reports=is_report_wanted(params.fullstop),
    )
    if wanted is None:
        return _json(encoder.loaded())
    async with running(service, [wanted]) as generations:
        # Unlike everywhere else, silence means a stream here.
        if params.stream is not False:
            return await stream(
                request,
                batches_of(generations),
                encoder,
                sign_of_life=encoder.sign_of_life().frame(),
                silence_s=service.config.keepalive_s,
                content_type=_LINES,
            )
        events, finished = await collected(generations[0])
    return _json(encoder.whole(events, finished))


async def _model_for(service: Service, params: AnswerParams) -> ModelInfo:
    model = await loaded_model(service)
    asked = model.id if models.is_named(params.model, model) else params.model
    check_model(service, asked)
    if params.think and not model.can_think:
        raise invalid(("think",), f"{models.tagged(model.id)} does not support thinking")
    return model


async def list_tags(request: web.Request) -> web.StreamResponse:
    """Answer ``GET /api/tags``."""
    model = service_of(request).engine.model
    return _json({"models": [] if model is None else [models.listed(model)]})


async def list_running(request: web.Request) -> web.StreamResponse:
    """Answer ``GET /api/ps``."""
    model = service_of(request).engine.model
    return _json({"models": [] if model is None else [models.running(model)]})


async def show(request: web.Request) -> web.StreamResponse:
    """Answer ``POST /api/show``."""
    params = parsed(await request.read(), ShowParams)
    asked = params.model or params.name
    if not asked:
        raise invalid(("model",), "Field required")
    model = await loaded_model(service_of(request))
    if not models.is_named(asked, model):
        raise ApiError(
            ErrorKind.NOT_FOUND, f"model '{asked}' not found; GET /api/tags lists what is loaded"
        )
    return _json(models.shown(model))


async def version(request: web.Request) -> web.StreamResponse:
    """Answer ``GET /api/version``."""
    return _json({"version": models.API_VERSION})


def _json(body: dict[str, Any]) -> web.Response:
    return web.json_response(body, dumps=json_text)

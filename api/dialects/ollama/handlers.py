"""Ollama's routes: read, convert, run, write. Runs on the server's loop."""

from datetime import UTC, datetime
from typing import Any, Literal

from aiohttp import web

from api.dialects.ollama import models
from api.dialects.ollama.read import (
    chat_from_wire,
    generate_from_wire,
    is_unloading,
    wants_thinking,
)
from api.dialects.ollama.wire import AnswerParams, ChatParams, GenerateParams, ShowParams
from api.dialects.ollama.write import AnswerEncoder
from api.dialects.shared.extension import is_report_wanted
from api.dialects.shared.reading import read
from api.transport.context import Service, check_model, loaded_model, service_of
from api.transport.errors import invalid
from api.transport.json_text import json_text
from api.transport.request_body import body_of
from api.transport.running import batches_of, collected, running
from api.transport.sse import stream
from engine import GenerationRequest, ModelInfo

_LINES = "application/x-ndjson"


async def chat(request: web.Request) -> web.StreamResponse:
    """Answer ``POST /api/chat``."""
    params = await read(body_of(request), ChatParams)
    wanted = chat_from_wire(params) if params.messages else None
    return await _answered(request, params, wanted, is_chat=True)


async def generate(request: web.Request) -> web.StreamResponse:
    """Answer ``POST /api/generate``."""
    params = await read(body_of(request), GenerateParams)
    wanted = generate_from_wire(params)
    return await _answered(request, params, wanted if params.prompt else None, is_chat=False)


async def _answered(
    request: web.Request, params: AnswerParams, wanted: GenerationRequest | None, *, is_chat: bool
) -> web.StreamResponse:
    service = service_of(request)
    await _check(service, params)
    encoder = AnswerEncoder(
        # The name that was asked for, as the reference answers.
        model=params.model,
        created_at=models.time_text(datetime.now(UTC)),
        is_chat=is_chat,
        reports=is_report_wanted(params.fullstop),
    )
    if wanted is None:
        return _json(encoder.unanswered(await _loaded_or_not(service, params)))
    async with running(service, [wanted]) as generations:
        if is_unloading(params):
            # It has been taken by now, so that the memory is freed once it has ended.
            service.engine.rest_now()
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


async def _loaded_or_not(service: Service, params: AnswerParams) -> Literal["load", "unload"]:
    """Bring the model into memory or free its memory, as a request without a question asks."""
    if is_unloading(params):
        service.engine.rest_now()
        return "unload"
    await service.engine.tokenize("")  # wakes a model whose memory is free
    return "load"


async def _check(service: Service, params: AnswerParams) -> None:
    model = await _model_for(service, params.model)
    if wants_thinking(params) and not model.can_think:
        raise invalid(("think",), f"{models.tagged(model.id)} does not support thinking")


async def _model_for(service: Service, asked: str) -> ModelInfo:
    """Return the loaded model, which answers to any name where the settings are not strict."""
    model = await loaded_model(service)
    check_model(service, model.id if models.is_named(asked, model) else asked)
    return model


async def list_tags(request: web.Request) -> web.StreamResponse:
    """Answer ``GET /api/tags``."""
    model = service_of(request).engine.model
    return _json({"models": [] if model is None else [models.listed(model)]})


async def list_running(request: web.Request) -> web.StreamResponse:
    """Answer ``GET /api/ps``: the models that are in memory."""
    status = service_of(request).engine.status
    model = None if status.is_resting else status.model
    return _json({"models": [] if model is None else [models.running(model)]})


async def show(request: web.Request) -> web.StreamResponse:
    """Answer ``POST /api/show``."""
    params = await read(body_of(request), ShowParams)
    asked = params.model or params.name
    if not asked:
        raise invalid(("model",), "Field required")
    return _json(models.shown(await _model_for(service_of(request), asked)))


async def version(request: web.Request) -> web.StreamResponse:
    """Answer ``GET /api/version``."""
    return _json({"version": models.API_VERSION})


def _json(body: dict[str, Any]) -> web.Response:
    return web.json_response(body, dumps=json_text)

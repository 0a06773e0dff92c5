"""Answers the requests of every dialect: read, run, write. Runs on the server's loop."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from aiohttp import web

from api.dialects.shared.dialect import EVENTS, Addressed, AnswerRoute, Dialect, Head, QueryRoute
from api.dialects.shared.parameters.tools import left_out_tools
from api.dialects.shared.reading import read, read_as_asked
from api.dialects.shared.requested import Asked
from api.transport.bodies.request_body import body_of
from api.transport.config import ImageRule
from api.transport.context import (
    IMAGES_HEADER,
    LEFT_OUT,
    Service,
    addressed,
    loaded_model,
    model_name,
    new_id,
    request_id_of,
    service_of,
)
from api.transport.errors import ApiError, ErrorKind, from_engine
from api.transport.json_text import json_text, long_json_text
from api.transport.listing import takes_tools
from api.transport.observing import AnswerForm, note_form, note_wanted
from api.transport.running import batches_of, collected, running
from api.transport.served_engine import ServedAnswer
from api.transport.sse import Begun, stream
from engine import EngineError, Event, GenerationRequest, PromptScores

# The deltas of an answer are merged, so many events mean an answer with traced tokens.
_FEW_EVENTS = 200

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def answering(dialect: Dialect, route: AnswerRoute[Any]) -> Handler:
    """Return the handler of a route whose answers the model generates."""

    async def answer(request: web.Request) -> web.StreamResponse:
        asked = await _asked(request, route)

        def refused(refusal: EngineError) -> ApiError:
            return from_engine(refusal, {**dialect.field_names, **route.own_names(asked.params)})

        try:
            return await _answered(request, route, asked, refused)
        except EngineError as refusal:
            raise refused(refusal) from None

    return answer


def replying(dialect: Dialect, route: QueryRoute) -> Handler:
    """Return the handler of a route whose answers are made without generating."""

    async def reply(request: web.Request) -> web.StreamResponse:
        service = service_of(request)
        params: object = None
        if "{" in route.path:
            params = Addressed(dict(request.match_info), dict(request.query))
        elif route.read is not None:
            params = await _asked(request, route)
        elif route.request is not None:
            params = await read(body_of(request), route.request)
        try:
            body = await route.reply(service, params)
        except EngineError as refusal:
            raise from_engine(refusal, {**dialect.field_names, **route.own_names}) from None
        if isinstance(body, str):  # JSON already
            return web.json_response(text=body)
        if isinstance(body, list):  # the events of a stream
            text = "".join(event.frame() for event in body)
            headers = {"Content-Type": EVENTS, "Cache-Control": "no-cache"}
            return web.Response(body=text.encode(), headers=headers)
        return web.Response() if body is None else _json(body)

    return reply


async def _asked(request: web.Request, route: AnswerRoute[Any] | QueryRoute) -> Asked[Any]:
    """Return what a request asks the engine for."""
    assert route.request is not None
    assert route.read is not None
    service, body = service_of(request), body_of(request)
    if body.is_large and body.model is None and not service.engine.is_choosing:
        # The model's context limits the prompt, so wait for a model that is still being loaded.
        body.model = await loaded_model(service)
    asked = await read_as_asked(
        body,
        route.request,
        route.read,
        strict=service.config.strict,
        images=_image_rule(request, service),
        recall=partial(route.recall, service),
    )
    request[LEFT_OUT] = left_out_tools(asked.params)
    return asked


def _image_rule(request: web.Request, service: Service) -> ImageRule:
    """Return what becomes of images: agents that cannot send a field of ours send a header."""
    match request.headers.get(IMAGES_HEADER):
        case None:
            return service.config.images
        case "refuse" | "refuse-new" | "note" as rule:
            return rule
        case _:
            raise ApiError(
                ErrorKind.INVALID_REQUEST,
                f"the header {IMAGES_HEADER} must be refuse, refuse-new or note",
            )


async def _answered(
    request: web.Request,
    route: AnswerRoute[Any],
    asked: Asked[Any],
    refused: Callable[[EngineError], ApiError],
) -> web.StreamResponse:
    service, params, requests = service_of(request), asked.params, asked.requests()
    note_wanted(requests, route.model_of(params), wants_stream=route.wants_stream(params))
    await route.admit(service, params)
    wanted = addressed(service, requests, route.model_of(params))
    head = Head(
        new_id(""),
        time.time(),
        _model(service, route, params),
        request_id_of(request),
        keep=route.keeper(service, params),
    )
    note_form(
        AnswerForm(route.answer_id(params, head), route.call_prefix, route.has_instructions(params))
    )
    if any(one.tools for one in wanted) and not await takes_tools(service, wanted[0].model):
        request[LEFT_OUT] = (*request[LEFT_OUT], "function")
    if not wanted:
        return _json(await route.reply_without_question(service, params, head))
    if route.wants_stream(params):
        return await stream(
            request,
            partial(_begun, service, route, params, wanted, head),
            route.encoder(params, head),
            refused,
            silence_s=service.config.keepalive_s,
            content_type=route.media_type,
        )
    async with running(service, wanted) as generations:
        route.on_accepted(service, params)
        head = _with_model(service, route, params, head, generations)
        answers = await asyncio.gather(*(collected(one) for one in generations))
    if sum(_weight(events) for events, _ in answers) <= _FEW_EVENTS:
        return _json(route.write_whole(answers, params, head))
    # An answer with logprobs can be megabytes: encode it in a thread, so that no stream waits.
    text = await asyncio.to_thread(lambda: long_json_text(route.write_whole(answers, params, head)))
    return web.json_response(text=text)


def _weight(events: Sequence[Event]) -> int:
    """Return the number of token and delta events of an answer."""
    return sum(len(one) if isinstance(one, PromptScores) else 1 for one in events)


@asynccontextmanager
async def _begun(
    service: Service,
    route: AnswerRoute[Any],
    params: Any,
    wanted: Sequence[GenerationRequest],
    head: Head,
) -> AsyncIterator[Begun]:
    """Start the generations of a stream; whichever still runs afterwards is cancelled."""
    async with running(service, wanted) as generations:
        route.on_accepted(service, params)
        head = _with_model(service, route, params, head, generations)
        yield Begun(batches_of(generations), route.encoder(params, head))


def _with_model(
    service: Service,
    route: AnswerRoute[Any],
    params: Any,
    head: Head,
    generations: Sequence[ServedAnswer],
) -> Head:
    """Return the head of an answer with its model, which may have been loaded meanwhile."""
    model = _model(service, route, params)
    return replace(head, model=model, vocabulary=generations[0].vocabulary)


def _model(service: Service, route: AnswerRoute[Any], params: Any) -> str:
    """Return the model's name as the answer reports it."""
    return model_name(service, route.model_of(params))


def _json(body: object) -> web.Response:
    return web.json_response(body, dumps=json_text)

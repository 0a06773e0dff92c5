"""Answers the requests of every dialect: read, run, write. Runs on the server's loop."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from aiohttp import web

from api.dialects.shared.dialect import AnswerRoute, Dialect, Head, QueryRoute
from api.dialects.shared.reading import read, read_as_asked
from api.dialects.shared.requested import Asked
from api.transport.context import (
    Service,
    loaded_model,
    model_name,
    new_id,
    request_id_of,
    service_of,
)
from api.transport.errors import from_engine
from api.transport.json_text import json_text, long_json_text
from api.transport.request_body import body_of
from api.transport.running import batches_of, collected, running
from api.transport.sse import stream
from engine import EngineError

# Deltas of an answer are merged, so that many events are the tokens of a traced answer.
_FEW_EVENTS = 200

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def answering(dialect: Dialect, route: AnswerRoute[Any]) -> Handler:
    """Return the handler of a route whose answers the model generates."""

    async def answer(request: web.Request) -> web.StreamResponse:
        asked = await _asked(request, route)
        try:
            return await _answered(request, route, asked)
        except EngineError as refusal:
            names = {**dialect.field_names, **route.own_names(asked.params)}
            raise from_engine(refusal, names) from None

    return answer


def replying(route: QueryRoute) -> Handler:
    """Return the handler of a route that tells something."""

    async def reply(request: web.Request) -> web.StreamResponse:
        service = service_of(request)
        params: object = None
        if route.read is not None:
            params = await _asked(request, route)
        elif route.request is not None:
            params = await read(body_of(request), route.request)
        body = await route.reply(service, params)
        return web.Response() if body is None else _json(body)

    return reply


async def _asked(request: web.Request, route: AnswerRoute[Any] | QueryRoute) -> Asked[Any]:
    """Return what a request asks the engine for."""
    assert route.request is not None
    assert route.read is not None
    service, body = service_of(request), body_of(request)
    if body.is_large and body.model is None:
        # The model says how long a prompt may be. One that is being loaded is waited for.
        body.model = await loaded_model(service)
    return await read_as_asked(body, route.request, route.read, strict=service.config.strict)


async def _answered(
    request: web.Request, route: AnswerRoute[Any], asked: Asked[Any]
) -> web.StreamResponse:
    service, params, wanted = service_of(request), asked.params, asked.requests()
    await route.admit(service, params)
    head = Head(new_id(""), time.time(), _model(service, params), request_id_of(request))
    if not wanted:
        return _json(await route.reply_without_question(service, params, head))
    async with running(service, wanted) as generations:
        route.on_accepted(service, params)
        # A model that was still being loaded is there by now.
        head = replace(head, model=_model(service, params), vocabulary=generations[0].vocabulary)
        if route.wants_stream(params):
            return await stream(
                request,
                batches_of(generations),
                route.encoder(params, head),
                silence_s=service.config.keepalive_s,
                content_type=route.media_type,
            )
        answers = await asyncio.gather(*(collected(one) for one in generations))
    if sum(len(events) for events, _ in answers) <= _FEW_EVENTS:
        return _json(route.write_whole(answers, params, head))
    # Megabytes, if it tells how likely each token was: no stream waits for them to be written.
    text = await asyncio.to_thread(lambda: long_json_text(route.write_whole(answers, params, head)))
    return web.json_response(text=text)


def _model(service: Service, params: Any) -> str:
    """Return the name under which an answer is sent; not every dialect's requests have one."""
    return model_name(service, getattr(params, "model", ""))


def _json(body: object) -> web.Response:
    return web.json_response(body, dumps=json_text)

"""The Messages routes: read, convert, run, write. Runs on the server's loop."""

from aiohttp import web

from api.dialects.anthropic.read import prompt_from_wire, request_from_wire, response_to_wire
from api.dialects.anthropic.wire import CountTokensParams, MessageCreateParams
from api.dialects.anthropic.write import PING, MessageEncoder
from api.dialects.shared.reading import read
from api.transport.context import check_model, model_name, new_id, request_id_of, service_of
from api.transport.json_text import json_text
from api.transport.request_body import body_of
from api.transport.running import batches_of, collected, running
from api.transport.sse import stream


async def create_message(request: web.Request) -> web.StreamResponse:
    """Answer ``POST /v1/messages``."""
    service = service_of(request)
    params = await read(body_of(request), MessageCreateParams)
    check_model(service, params.model)
    wanted = request_from_wire(params, strict=service.config.strict)
    message_id = new_id("msg_")
    async with running(service, [wanted]) as generations:
        model = model_name(service, params.model)
        if params.stream:
            encoder = MessageEncoder(
                message_id=message_id,
                model=model,
                params=params,
                request_id=request_id_of(request),
            )
            return await stream(
                request,
                batches_of(generations),
                encoder,
                sign_of_life=PING.frame(),
                silence_s=service.config.keepalive_s,
            )
        events, finished = await collected(generations[0])
    body = response_to_wire(
        events, message_id=message_id, model=model, params=params, finished=finished
    )
    return web.json_response(body, dumps=json_text)


async def count_tokens(request: web.Request) -> web.StreamResponse:
    """Answer ``POST /v1/messages/count_tokens``."""
    service = service_of(request)
    params = await read(body_of(request), CountTokensParams)
    check_model(service, params.model)
    count = await service.engine.count_tokens(prompt_from_wire(params))
    return web.json_response({"input_tokens": count}, dumps=json_text)

"""The Responses route: read, convert, run, write. Runs on the server's loop."""

import time

from aiohttp import web

from api.dialects.openai.output_format import naming_form
from api.dialects.responses.read import request_from_wire
from api.dialects.responses.stream import ResponseEncoder
from api.dialects.responses.wire import ResponseParams
from api.dialects.responses.write import ResponseHead, response_to_wire
from api.dialects.shared.reading import read
from api.transport.context import check_model, model_name, new_id, service_of
from api.transport.json_text import json_text
from api.transport.request_body import body_of
from api.transport.running import batches_of, collected, running
from api.transport.sse import stream


async def create_response(request: web.Request) -> web.StreamResponse:
    """Answer ``POST /v1/responses``."""
    params = await read(body_of(request), ResponseParams)
    with naming_form(params):
        return await _answered(request, params)


async def _answered(request: web.Request, params: ResponseParams) -> web.StreamResponse:
    service = service_of(request)
    check_model(service, params.model)
    wanted = request_from_wire(params, strict=service.config.strict)
    async with running(service, [wanted]) as generations:
        head = ResponseHead(
            response_id=new_id("resp_"),
            created=int(time.time()),
            model=model_name(service, params.model),
            params=params,
        )
        texts = generations[0].vocabulary
        if params.stream:
            return await stream(
                request,
                batches_of(generations),
                ResponseEncoder(head, texts),
                silence_s=service.config.keepalive_s,
            )
        events, finished = await collected(generations[0])
    body = response_to_wire(head, events, finished, texts)
    return web.json_response(body, dumps=json_text)

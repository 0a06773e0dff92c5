"""The Chat Completions route: read, convert, run, write. Runs on the server's loop."""

import asyncio
import time

from aiohttp import web

from api.body import parsed
from api.context import check_model, model_name, new_id, service_of
from api.json_text import json_text
from api.openai.chat.convert import requests_from_wire, response_to_wire
from api.openai.chat.stream import ChatEncoder
from api.openai.chat.wire import ChatCompletionParams
from api.running import batches_of, collected, running
from api.sse import stream


async def create_chat_completion(request: web.Request) -> web.StreamResponse:
    """Answer ``POST /v1/chat/completions``."""
    service = service_of(request)
    params = parsed(await request.read(), ChatCompletionParams)
    check_model(service, params.model)
    wanted = requests_from_wire(params, strict=service.config.strict)
    completion_id = new_id("chatcmpl-")
    created = int(time.time())
    async with running(service, wanted) as generations:
        model = model_name(service, params.model)
        texts = generations[0].vocabulary
        if params.stream:
            encoder = ChatEncoder(
                completion_id=completion_id,
                created=created,
                model=model,
                params=params,
                texts=texts,
            )
            return await stream(
                request,
                batches_of(generations),
                encoder,
                silence_s=service.config.keepalive_s,
            )
        answers = await asyncio.gather(*(collected(one) for one in generations))
    body = response_to_wire(
        answers,
        completion_id=completion_id,
        created=created,
        model=model,
        params=params,
        texts=texts,
    )
    return web.json_response(body, dumps=json_text)

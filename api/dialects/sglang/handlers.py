"""The routes of SGLang's clients: read, convert, run, write. Runs on the server's loop."""

import asyncio

from aiohttp import web

from api.dialects.sglang.errors import GENERATE
from api.dialects.sglang.read import is_batch, prompt_field, requests_from_wire
from api.dialects.sglang.stream import GenerateEncoder
from api.dialects.sglang.wire import GenerateParams
from api.dialects.sglang.write import Output
from api.dialects.shared.extension import is_report_wanted
from api.dialects.shared.reading import read
from api.transport.context import Service, loaded_model, new_id, service_of
from api.transport.errors import failure_of, from_engine
from api.transport.json_text import json_text
from api.transport.request_body import body_of
from api.transport.running import batches_of, running
from api.transport.sse import stream
from engine import Generation, GenerationRequest, InvalidRequest, StopRules


async def generate(request: web.Request) -> web.StreamResponse:
    """Answer ``POST /generate``."""
    service = service_of(request)
    params = await read(body_of(request), GenerateParams)
    try:
        return await _generated(request, service, params)
    except InvalidRequest as refusal:
        names = {**GENERATE.field_names, "prompt": prompt_field(params)}
        raise from_engine(refusal, names) from None


async def _generated(
    request: web.Request, service: Service, params: GenerateParams
) -> web.StreamResponse:
    wanted = requests_from_wire(params)
    outputs = [
        Output(
            _answer_id(params.rid, index, len(wanted)),
            has_logprobs=bool(params.return_logprob),
            reports=is_report_wanted(params.fullstop),
        )
        for index in range(len(wanted))
    ]
    async with running(service, wanted) as generations:
        if params.stream:
            return await stream(
                request,
                batches_of(generations),
                GenerateEncoder(outputs, is_batch=is_batch(params)),
                silence_s=service.config.keepalive_s,
            )
        await asyncio.gather(
            *(_read(one, output) for one, output in zip(generations, outputs, strict=True))
        )
    answers = [output.to_wire() for output in outputs]
    return web.json_response(answers if is_batch(params) else answers[0], dumps=json_text)


async def _read(generation: Generation, output: Output) -> None:
    async for batch in generation.batches():
        output.add(batch)
    failure = failure_of(output.finished) if output.finished is not None else None
    if failure is not None:
        raise failure


def _answer_id(asked: str | list[str] | None, index: int, count: int) -> str:
    if isinstance(asked, list) and index < len(asked):
        return asked[index]
    if isinstance(asked, str):
        return asked if count == 1 else f"{asked}_{index}"
    return new_id("")


async def get_model_info(request: web.Request) -> web.StreamResponse:
    """Answer ``GET /get_model_info``; no path of this computer is told."""
    model = await loaded_model(service_of(request))
    body = {
        "model_path": model.id,
        "tokenizer_path": model.id,
        "is_generation": True,
        "preferred_sampling_params": None,
        "max_context_length": model.context_length,
        "vocab_size": model.vocabulary_size,
        "model_type": model.architecture,
    }
    return web.json_response(body, dumps=json_text)


async def health_generate(request: web.Request) -> web.StreamResponse:
    """Answer ``GET /health_generate``: 200 once the model has sampled a token."""
    service = service_of(request)
    model = await loaded_model(service)
    probe = GenerationRequest(
        prompt=(model.eos[0].token_id if model.eos else 0,),
        stops=StopRules(ignore_eos=True),
        max_tokens=1,
    )
    async with running(service, [probe]) as [generation]:
        await _read(generation, Output(""))
    return web.Response()

"""Answers the requests of every dialect: read, run, write. Runs on the server's loop."""

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing, nullcontext
from dataclasses import dataclass, replace
from typing import Any, cast, get_args

from aiohttp import web

from api.dialects.shared.dialect import (
    EVENTS,
    AnswerRoute,
    AnyRoute,
    Dialect,
    Head,
    ParsedRequest,
    QueryRoute,
)
from api.dialects.shared.encoding import json_text
from api.dialects.shared.parameters import ReadContext, given_names
from api.dialects.shared.parsing import parse_body
from api.dialects.shared.requests import left_out_tools, read_generations
from api.server.receiving import BodyReceiver, decompress, is_compressed
from api.server.streams import StreamWriter
from api.service.config import IMAGES_HEADER, ImageRule
from api.service.errors import (
    ApiError,
    ErrorKind,
    from_engine,
    invalid,
    rename_field,
)
from api.service.generations import batches_of, collect_events, run_generations
from api.service.models import adapted_model, address_requests, can_render_tools, model_name
from api.service.record import RequestRecord
from api.service.service import Service, new_id
from engine import Generation
from engine.errors import EngineError
from engine.values.events import Finished
from engine.values.request import GenerationRequest
from engine.wording import counted

_log = logging.getLogger(__name__)

SERVICE = web.AppKey("service", Service)
BODIES = web.AppKey("bodies", BodyReceiver)
RECORD = web.RequestKey("record", RequestRecord)
# Larger bodies are parsed on a thread, so that streams continue meanwhile: calls and their results,
# thousands of each, take seconds to match.
_ON_LOOP_BYTES = 1 << 17

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def failure_response(
    dialect: Dialect, error: ApiError, request_id: str, *, status: int | None = None
) -> web.Response:
    """Return the answer to a request that failed.

    Its headers tell clients whether a retry can succeed, and when.
    """
    default_status, body = dialect.render_error(error, request_id)
    response = web.json_response(body, status=status or default_status, dumps=json_text)
    if error.retry_after_s is not None:
        response.headers["Retry-After"] = str(math.ceil(error.retry_after_s))
    if 400 <= response.status < 500 and response.status not in (408, 409, 429):
        # The vendors' clients follow it: https://github.com/openai/openai-python (_should_retry).
        response.headers["x-should-retry"] = "false"
    return response


def api_error(error: Exception, record: RequestRecord) -> ApiError:
    """Map an exception to the error that answers the request; a fault of ours is logged."""
    match error:
        case ApiError():
            return error
        case EngineError():
            return from_engine(error, record.field_names)
        case _:
            _log.error("request %s failed", record.request_id, exc_info=error)
            text = "internal error; the server's log has the cause"
            return ApiError(ErrorKind.INTERNAL, text)


async def receive_request(
    request: web.Request, dialect: Dialect | None, route: AnyRoute
) -> ParsedRequest[Any]:
    """Return a request with its body as a wire model, and the generations that it asks for."""
    service, record, receiver = request.app[SERVICE], request[RECORD], request.app[BODIES]
    url = {**request.query, **request.match_info}
    if route.request is None or dialect is None:
        is_anthropic = "anthropic-version" in request.headers
        return ParsedRequest(service, record, None, url=url, is_anthropic=is_anthropic)
    model = route.request
    context = ReadContext(
        service.config.strict, _image_rule(request, service), service.config.repetition
    )
    is_packed = is_compressed(request)

    def parse() -> Any:
        whole = decompress(raw, service.config.max_body_bytes) if is_packed and raw else raw
        if record.observers:
            record.request_body.add(whole)
        params, record.not_applied = parse_body(whole, model)
        return params

    def read() -> Sequence[GenerationRequest]:
        generations: Sequence[GenerationRequest] = ()
        if route.read is not None:
            generations = read_generations(params, context, route.read, record.not_applied)
        record.tools_left_out = left_out_tools(params)
        return generations

    async with receiver.receive(request) as raw:
        is_on_loop = len(raw) <= _ON_LOOP_BYTES and not is_packed
        async with nullcontext() if is_on_loop else receiver.parsing:
            params = parse() if is_on_loop else await asyncio.to_thread(parse)
        if dialect.recall is not None and params.needs_recall:
            # The stored items may be many times larger than the body.
            is_on_loop = False
            async with receiver.parsing:
                params = await asyncio.to_thread(dialect.recall, service, record, params)
        for field in ("adapters", "lora_path"):
            if name := getattr(params, field, None):
                has_model = "model" in type(params).model_fields
                base = params.model if has_model else ""
                chosen = adapted_model(service, name, base, field)
                params = params.model_copy(update={"model" if has_model else field: chosen})
        record.field_names = {
            **dialect.field_names,
            **given_names(params),
            **route.field_names(params),
        }
        generations = read() if is_on_loop else await asyncio.to_thread(read)
    if generations:
        record.not_applied = generations[0].not_applied
    return ParsedRequest(service, record, params, generations, url)


def _image_rule(request: web.Request, service: Service) -> ImageRule:
    """Return the rule for images; agents that cannot send a field of ours send a header."""
    rule = request.headers.get(IMAGES_HEADER, service.config.images)
    if rule not in get_args(ImageRule):
        raise invalid((), f"the header {IMAGES_HEADER} must be refuse, refuse-new or note")
    return cast(ImageRule, rule)


@dataclass(slots=True)
class _Answer:
    """One answer of the model, from the parsed request to the last byte."""

    request: web.Request
    route: AnswerRoute[Any]
    params: Any
    requests: Sequence[GenerationRequest]
    head: Head

    async def answer_whole(self) -> web.Response:
        """Return the whole answer once all its generations have ended."""
        service, record = self.request.app[SERVICE], self.request[RECORD]
        async with run_generations(service, record, self.requests) as generations:
            self._accept(generations)
            answers = await asyncio.gather(*map(collect_events, generations))

        def write() -> str:
            return json_text(self.route.write_whole(answers, self.params, self.head))

        # An answer with logprobs can be megabytes: streams go on meanwhile.
        return web.json_response(text=await asyncio.to_thread(write))

    async def answer_stream(self) -> web.StreamResponse:
        """Write the events of the generations as they arrive; return the response.

        Keepalives are also sent while the generations wait to be accepted, for example for a model
        that is being loaded. A refusal or failure before the first byte has its own status.
        """
        service, record = self.request.app[SERVICE], self.request[RECORD]
        encoder = self.route.encoder(self.params, self.head)
        async with StreamWriter(
            self.request, record, service.config, self.route.media_type, encoder
        ) as writer:
            try:
                async with (
                    run_generations(service, record, self.requests) as generations,
                    aclosing(batches_of(generations)) as batches,
                ):
                    self._accept(generations)
                    encoder = self.route.encoder(self.params, self.head)
                    writer.encoder = encoder
                    async for choice, batch in batches:
                        frames = encoder.encode(batch, choice)
                        if encoder.failure is not None and not writer.response.prepared:
                            raise encoder.failure
                        is_last = any(isinstance(event, Finished) for event in batch)
                        if self.head.store is not None and is_last:
                            # A client may continue the answer as soon as it has its end.
                            await asyncio.to_thread(encoder.store)
                        await writer.write(frames)
                        if encoder.failure is not None:
                            record.failure = encoder.failure.kind
                            writer.response.force_close()
                            break
            except ConnectionError:
                raise
            except Exception as error:
                if not writer.response.prepared:
                    raise
                failure = api_error(error, record)
                record.failure = failure.kind
                await writer.write(encoder.fail(failure))
                del failure  # its traceback keeps this frame alive
                writer.response.force_close()
            await writer.finish()
        return writer.response

    def _accept(self, generations: Sequence[Generation]) -> None:
        """Complete the head and the headers, after the engine has accepted the generations."""
        service, first = self.request.app[SERVICE], generations[0]
        self.route.on_accepted(service, self.params)
        # The reader has named the first parts, and the engine the others.
        record, read = self.request[RECORD], first.request.not_applied
        engines = [
            rename_field(name, record.field_names)
            for name in first.not_applied[len(read) :]
            # Reasoning may be off by an API's own default.
            if "thinking" in record.field_names or not name.startswith("thinking (")
        ]
        record.not_applied = (*read, *engines)
        self.head = replace(
            self.head,
            no_effect=record.no_effect,
            # The model may have been loaded meanwhile.
            model=model_name(service, self.route.model_of(self.params)),
            vocabulary=first.vocabulary,
            is_accepted=True,
        )


def make_handler(dialect: Dialect | None, route: AnyRoute) -> Handler:
    """Return the handler of a route; those of the server itself have no dialect."""

    async def handle(request: web.Request) -> web.StreamResponse:
        parsed = await receive_request(request, dialect, route)
        if isinstance(route, AnswerRoute):
            return await _generate(request, route, parsed)
        return await _reply(request, route, parsed)

    return handle


async def _generate(
    request: web.Request, route: AnswerRoute[Any], parsed: ParsedRequest[Any]
) -> web.StreamResponse:
    service, record, params = parsed.service, parsed.record, parsed.params
    model = route.model_of(params)
    record.requests, record.requested_model = parsed.generations, model
    record.wants_stream = route.wants_stream(params)
    record.advance()
    await route.admit(service, params)
    requests = address_requests(
        service, parsed.generations, model, request.headers.get("User-Agent", "")
    )
    _note_task_limit(record, requests)
    unique, name = new_id(""), model_name(service, model)
    record.answer_id = answer_id = route.answer_id(params, unique)
    store = route.storage(parsed)
    head = Head(
        unique,
        time.time(),
        name,
        record.request_id,
        is_strict=service.config.strict,
        store=store,
        answer_id=answer_id,
    )
    if not requests:
        return _json(await route.reply_without_prompt(service, params, head))
    await _note_unrendered_tools(service, record, requests)
    making = _Answer(request, route, params, requests, head)
    return await (making.answer_stream() if record.wants_stream else making.answer_whole())


async def _reply(
    request: web.Request, route: QueryRoute, parsed: ParsedRequest[Any]
) -> web.StreamResponse:
    body = await route.reply(parsed)
    match body:
        case web.StreamResponse():
            return body
        case None:
            return web.Response()
        case str():  # JSON already
            return web.json_response(text=body)
        case list():  # the events of a stream
            async with StreamWriter(
                request, parsed.record, parsed.service.config, route.media_type or EVENTS
            ) as writer:
                await writer.write(body)
                await writer.finish()
            return writer.response
        case _:
            return _json(body)


def _note_task_limit(record: RequestRecord, requests: Sequence[GenerationRequest]) -> None:
    """Record the limit of a background task that sets none."""
    limit = requests[0].max_tokens if requests else None
    if limit is None or record.requests[0].max_tokens is not None:
        return
    record.task_limit = limit
    _log.info(
        "request %s is a background task without a limit: at most %s (--task-max-tokens)",
        record.request_id,
        counted(limit, "token"),
    )


async def _note_unrendered_tools(
    service: Service, record: RequestRecord, requests: Sequence[GenerationRequest]
) -> None:
    """Record that the template renders no tools; a required call is described in the prompt."""
    forces = any(request.tool_choice.mode == "required" for request in requests)
    has_tools = any(request.tools for request in requests)
    if has_tools and not forces and not await can_render_tools(service, requests[0].model or ""):
        record.tools_left_out = (*record.tools_left_out, "function")


def _json(body: object) -> web.Response:
    return web.json_response(body, dumps=json_text)

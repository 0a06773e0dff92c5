"""Answers the requests of every dialect: read, run, write. Runs on the server's loop."""

import asyncio
import logging
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import Any, Self

from aiohttp import web

from api.dialects.shared.body_reader import read_body, read_request
from api.dialects.shared.dialect import (
    EVENTS,
    LINES,
    AnswerRoute,
    Dialect,
    Head,
    QueryRoute,
    UrlParameters,
)
from api.dialects.shared.requests import ParsedRequest, left_out_tools
from api.transport.answer_text import StreamFrame, json_text, long_json_text
from api.transport.bodies import (
    FREE_BYTES,
    BodyRoom,
    SentBody,
    encoding_of,
    too_large,
)
from api.transport.config import ImageRule, ServerConfig
from api.transport.errors import ApiError, ErrorKind, from_engine, is_permanent, renamed_parts
from api.transport.observation import (
    ServedAnswer,
    note,
    note_stream_delivered,
    note_streamed,
)
from api.transport.service import (
    Service,
    addressed,
    batches_of,
    collected,
    model_name,
    new_id,
    running,
    takes_tools,
)
from engine import EngineError, Event, GenerationRequest, PromptScores, counted

_log = logging.getLogger(__name__)

SERVICE = web.AppKey("service", Service)
# Anthropic's name and OpenAI's.
REQUEST_ID_HEADERS = ("request-id", "x-request-id")
REQUEST_ID = web.RequestKey("request_id", str)
# The types of the tools that a request was read without, and the header that names them.
LEFT_OUT = web.RequestKey("left_out", tuple)
IMAGES_HEADER = "x-fullstop-images"
LEFT_OUT_HEADER = "x-fullstop-tools-left-out"
# The parts of a request without effect on the answer, and the header that names them.
NOT_APPLIED = web.RequestKey("not_applied", tuple)
NOT_APPLIED_HEADER = "x-fullstop-not-applied"
# The limit of a background task that sets none, and the header that has it.
TASK_LIMIT = web.RequestKey("task_limit", int)
TASK_LIMIT_HEADER = "x-fullstop-task-max-tokens"
# Set once the end of a stream has been written: a client that disconnects then has the whole
# answer.
DELIVERED = web.RequestKey("delivered", bool)


# The longest value of a header that lists parts of a request; proxies refuse long headers.
_MAX_HEADER_CHARACTERS = 2_000


def header_list(parts: Sequence[str]) -> str:
    """Return parts of a request as one header value: printable ASCII, of bounded length."""
    text = ", ".join(dict.fromkeys(parts)).encode("ascii", "backslashreplace").decode()
    text = "".join(char if char.isprintable() else " " for char in text)
    return text if len(text) <= _MAX_HEADER_CHARACTERS else f"{text[:_MAX_HEADER_CHARACTERS]}..."


def service_of(request: web.Request) -> Service:
    """Return the service of the request's server."""
    return request.app[SERVICE]


def request_id_of(request: web.Request) -> str:
    """Return the id under which this request is answered and logged."""
    return request[REQUEST_ID]


# How many of the largest bodies may be held at the same time.
_AT_ONCE = 3


class BodyReader:
    """Receives the bodies of one server's requests.

    Args:
        config: The limits.
    """

    def __init__(self, config: ServerConfig) -> None:
        self._config = config
        self._large_turn = asyncio.Lock()
        self._room = BodyRoom(_AT_ONCE * config.max_body_bytes, config.max_body_bytes)

    @asynccontextmanager
    async def received(self, request: web.Request) -> AsyncIterator[None]:
        """Wait for the whole body, or give up; handlers then get the body from ``body_of``.

        Raises:
            ApiError: It is too large or too slow.
        """
        encoding = encoding_of(",".join(request.headers.getall("Content-Encoding", ())))
        max_bytes = self._config.max_body_bytes
        if (request.content_length or 0) > max_bytes:
            request.protocol.close()  # refuse it before the rest arrives
            raise too_large(max_bytes)
        body = request[_BODY] = SentBody(encoding, max_bytes, self._large_turn)
        try:
            await self._receive(request, body)
            yield
        finally:
            body.drop()

    async def _receive(self, request: web.Request, body: SentBody) -> None:
        timeout_s = self._config.body_timeout_s
        try:
            async with asyncio.timeout(timeout_s):
                await self._receive_parts(request, body)
        except TimeoutError:
            request.protocol.close()
            raise ApiError(
                ErrorKind.TIMEOUT, f"the body did not arrive within {timeout_s:g} seconds"
            ) from None
        except web.RequestPayloadError:
            request.protocol.close()
            raise ApiError(ErrorKind.INVALID_REQUEST, "the body is not valid HTTP") from None
        except ApiError:
            request.protocol.close()
            raise

    async def _receive_parts(self, request: web.Request, body: SentBody) -> None:
        """Receive a body as long as there is room for it.

        Its beginning is not counted, so that ordinary requests always find room.
        """
        client, held = request.remote or "", 0

        def leave() -> None:
            nonlocal held
            self._room.leave(client, held)
            held = 0

        body.on_drop = leave
        while part := await request.content.readany():
            body.add(part)
            if body.size_bytes > body.max_bytes:
                raise too_large(body.max_bytes)
            counted = body.size_bytes - FREE_BYTES - held
            if counted > 0:
                self._room.take(client, counted)
                held += counted


BODIES = web.AppKey("bodies", BodyReader)
_BODY = web.RequestKey("body", SentBody)


def body_of(request: web.Request) -> SentBody:
    """Return the body of a request; an empty body if it has none."""
    body: SentBody | None = request.get(_BODY)
    return body or SentBody()


# The vendors' clients follow this header: https://github.com/openai/openai-python
# (``_should_retry``).
SHOULD_RETRY = "x-should-retry"


def failure_response(
    dialect: Dialect, error: ApiError, request_id: str, *, status: int | None = None
) -> web.Response:
    """Return the answer to a request that failed.

    Its headers tell clients whether a retry can succeed, and when.
    """
    usual, body = dialect.render_error(error, request_id)
    response = web.json_response(body, status=status or usual, dumps=json_text)
    if error.retry_after_s is not None:
        response.headers["Retry-After"] = str(math.ceil(error.retry_after_s))
    if is_permanent(response.status):
        response.headers[SHOULD_RETRY] = "false"
    return response


class StreamWriter:
    """One open stream. The response's headers are sent with the first bytes.

    These may be a keepalive. Until then a failure can still be answered with its own status.
    """

    def __init__(
        self, request: web.Request, keepalive: Callable[[], str], content_type: str
    ) -> None:
        self.response = web.StreamResponse(
            headers={
                "Content-Type": content_type,
                "Cache-Control": "no-cache",
                "X-Accel-Buffering": "no",
            }
        )
        self._request = request
        # Makes the text that is sent during silence.
        self.keepalive = keepalive
        # Some clients of line streams parse each piece that arrives as one object.
        self._writes_apart = content_type == LINES
        config = service_of(request).config
        self._silence_s, self._patience_s = config.keepalive_s, config.write_timeout_s
        self._loop = asyncio.get_running_loop()
        self._begun_at = self._written_at = self._loop.time()
        self._lock = asyncio.Lock()
        self._clock: asyncio.Task[None] | None = None

    @property
    def has_started(self) -> bool:
        """Whether the headers have been sent."""
        return self.response.prepared

    async def __aenter__(self) -> Self:
        self._clock = asyncio.create_task(self._keep_alive())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._clock is not None:
            self._clock.cancel()
            await asyncio.wait((self._clock,))

    async def write(self, events: Sequence[StreamFrame]) -> None:
        """Write some events together, lines one by one; waits while the client reads slowly."""
        frames = [event.frame() for event in events]
        for data in frames if self._writes_apart else filter(None, ["".join(frames)]):
            await self._write(data.encode())

    async def finish(self) -> None:
        """End the stream."""
        async with self._lock:
            self._begun_at = self._loop.time()
            await self.response.write_eof()
            self._request[DELIVERED] = True
            note_stream_delivered()

    async def _write(self, data: bytes) -> None:
        async with self._lock:
            self._begun_at = self._loop.time()
            if not self.response.prepared:
                await self.response.prepare(self._request)
            # Returns at once while the client has less than some 64 kB unread.
            await self.response.write(data)
            self._written_at = self._loop.time()
            note_streamed(data)

    async def _keep_alive(self) -> None:
        """Send keepalives, and give up a client that has stopped reading.

        One task watches, because a timer for each write would cost more than the write.
        """
        with suppress(ConnectionError, TimeoutError):
            while True:
                now = self._loop.time()
                if self._lock.locked():
                    # The client is slow, not the server: it has unread bytes.
                    if now - self._begun_at >= self._patience_s:
                        break
                    await asyncio.sleep(min(self._silence_s, self._patience_s))
                elif now - self._written_at < self._silence_s:
                    left_s = self._silence_s - (now - self._written_at)
                    await asyncio.sleep(min(left_s, self._patience_s))
                else:
                    async with asyncio.timeout(self._patience_s):
                        await self._write(self.keepalive().encode())
        if self._request.transport is not None:
            self._request.transport.abort()


# The deltas of an answer are merged, so many events mean an answer with traced tokens.
_FEW_EVENTS = 200

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def answering(dialect: Dialect, route: AnswerRoute[Any]) -> Handler:
    """Return the handler of a route whose answers the model generates."""

    async def answer(request: web.Request) -> web.StreamResponse:
        asked = await _asked(request, route)

        names = {**dialect.field_names, **route.own_names(asked.params)}
        try:
            service, params, requests = service_of(request), asked.params, asked.requests()
            named, wants_stream = route.model_of(params), route.wants_stream(params)
            note(wanted=requests, asked_model=named, wants_stream=wants_stream)
            await route.admit(service, params)
            wanted = addressed(service, requests, named)
            limit = wanted[0].max_tokens if wanted else None
            if limit is not None and requests[0].max_tokens is None:
                request[TASK_LIMIT] = limit
                _log.info(
                    "request %s is a background task without a limit: at most %s "
                    "(--task-max-tokens)",
                    request_id_of(request),
                    counted(limit, "token"),
                )
            head = Head(
                new_id(""),
                time.time(),
                model_name(service, named),
                request_id_of(request),
                keep=route.keeper(service, params),
            )
            note(answer_id=route.answer_id(params, head))
            # A required call is asked for in words where the template has no place for tools.
            forces = any(choice.tool_choice.mode == "required" for choice in wanted)
            has_tools = any(choice.tools for choice in wanted)
            if has_tools and not forces and not await takes_tools(service, wanted[0].model):
                request[LEFT_OUT] = (*request[LEFT_OUT], "function")
            if not wanted:
                return _json(await route.reply_without_question(service, params, head))
            if wants_stream:
                return await _streamed(request, route, params, wanted, head, names)
            return await _whole(request, route, params, wanted, head, names)
        except EngineError as refusal:
            raise from_engine(refusal, names) from None

    return answer


def replying(dialect: Dialect, route: QueryRoute) -> Handler:
    """Return the handler of a route whose answers are made without generating."""

    async def reply(request: web.Request) -> web.StreamResponse:
        service = service_of(request)
        params: object = None
        if "{" in route.path:
            params = UrlParameters(dict(request.match_info), dict(request.query))
        elif route.read is not None:
            params = asked = await _asked(request, route)
            if asked.wanted:
                request[NOT_APPLIED] = asked.wanted[0].not_applied
        elif route.request is not None:
            params, request[NOT_APPLIED] = await read_body(body_of(request), route.request)
        try:
            body = await route.reply(service, params)
        except EngineError as refusal:
            raise from_engine(refusal, {**dialect.field_names, **route.own_names}) from None
        if isinstance(body, str):  # JSON already
            return web.json_response(text=body)
        if isinstance(body, list):  # the events of a stream
            async with StreamWriter(request, str, route.media_type or EVENTS) as writer:
                await writer.write(body)
                await writer.finish()
            return writer.response
        return web.Response() if body is None else _json(body)

    return reply


async def _asked(request: web.Request, route: AnswerRoute[Any] | QueryRoute) -> ParsedRequest[Any]:
    """Return what a request asks the engine for."""
    assert route.request is not None
    assert route.read is not None
    service = service_of(request)
    asked = await read_request(
        body_of(request),
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


async def _whole(
    request: web.Request,
    route: AnswerRoute[Any],
    params: Any,
    wanted: Sequence[GenerationRequest],
    head: Head,
    names: Mapping[str, str],
) -> web.Response:
    """Return the whole answer once all its generations have ended."""
    service = service_of(request)
    async with running(service, wanted) as generations:
        route.on_accepted(service, params)
        request[NOT_APPLIED] = _not_applied(generations[0], names)
        head = _accepted(service, route, params, head, generations)
        answers = await asyncio.gather(*(collected(generation) for generation in generations))
    if sum(_weight(events) for events, _ in answers) <= _FEW_EVENTS:
        return _json(route.write_whole(answers, params, head))
    # An answer with logprobs can be megabytes: encode it in a thread, so that no stream waits.
    text = await asyncio.to_thread(lambda: long_json_text(route.write_whole(answers, params, head)))
    return web.json_response(text=text)


def _not_applied(generation: ServedAnswer, names: Mapping[str, str]) -> tuple[str, ...]:
    """Return the parts of a request without effect; its reader has named the first of them."""
    read = generation.request.not_applied
    return (*read, *renamed_parts(generation.not_applied[len(read) :], names))


def _weight(events: Sequence[Event]) -> int:
    """Return the number of token and delta events of an answer."""
    return sum(len(event) if isinstance(event, PromptScores) else 1 for event in events)


def _accepted(
    service: Service,
    route: AnswerRoute[Any],
    params: Any,
    head: Head,
    generations: Sequence[ServedAnswer],
) -> Head:
    """Return the head of an answer with its model, which may have been loaded meanwhile."""
    model = model_name(service, route.model_of(params))
    return replace(head, model=model, vocabulary=generations[0].vocabulary, is_accepted=True)


async def _streamed(
    request: web.Request,
    route: AnswerRoute[Any],
    params: Any,
    wanted: Sequence[GenerationRequest],
    head: Head,
    names: Mapping[str, str],
) -> web.StreamResponse:
    """Write the events of generations as they arrive; return the response.

    Keepalives are also sent while the generations wait to be accepted, for example for a model that
    is being loaded. A refusal before the first keepalive has its own status.

    Raises:
        EngineError: The generations were refused, and nothing has been written yet.
        ApiError: The first event was a failure, and nothing has been written yet.
    """
    service, encoder = service_of(request), route.encoder(params, head)
    async with StreamWriter(request, encoder.keepalive, route.media_type) as writer:
        try:
            async with (
                running(service, wanted) as generations,
                aclosing(batches_of(generations)) as source,
            ):
                route.on_accepted(service, params)
                request[NOT_APPLIED] = _not_applied(generations[0], names)
                head = _accepted(service, route, params, head, generations)
                encoder = route.encoder(params, head)
                writer.keepalive = encoder.keepalive
                async for choice, batch in source:
                    frames = encoder.encode(batch, choice)
                    if encoder.failure is not None and not writer.has_started:
                        raise encoder.failure
                    await writer.write(frames)
                    if encoder.failure is not None:
                        note(failure=encoder.failure.kind)
                        writer.response.force_close()
                        break
        except ConnectionError:
            raise
        except Exception as error:
            if not writer.has_started:
                raise
            failure = _failure(error, names)
            note(failure=failure.kind)
            await writer.write(encoder.fail(failure))
            del failure  # its traceback keeps this frame alive
            writer.response.force_close()
        await writer.finish()
    return writer.response


def _failure(error: Exception, names: Mapping[str, str]) -> ApiError:
    """Return the error that a client receives after its stream has begun."""
    match error:
        case ApiError():
            return error
        case EngineError():
            return from_engine(error, names)
        case _:
            _log.error("a stream broke off", exc_info=error)
            return ApiError(ErrorKind.INTERNAL, "internal error")


def _json(body: object) -> web.Response:
    return web.json_response(body, dumps=json_text)

"""The web application: every request is identified, checked, answered, logged and observed here.

Runs on the server's loop. Logs hold no bodies, no keys and no query strings.
"""

import asyncio
import functools
import logging
import re
import time
from collections.abc import Callable

from aiohttp import HttpVersion11, web
from aiohttp.typedefs import Middleware

from api.server import openapi
from api.server.access import (
    check_host,
    check_key,
    check_origin,
    check_site,
    cors_headers,
    is_allowed,
    is_from_here,
    preflight_headers,
    safe_body,
    safe_headers,
    safe_path,
)
from api.server.answering import (
    BODIES,
    DELIVERED,
    LEFT_OUT,
    LEFT_OUT_HEADER,
    NOT_APPLIED,
    NOT_APPLIED_HEADER,
    REQUEST_ID,
    REQUEST_ID_HEADERS,
    SERVICE,
    TASK_LIMIT,
    TASK_LIMIT_HEADER,
    BodyReader,
    Handler,
    body_of,
    failure_response,
    header_list,
    request_id_of,
)
from api.server.connection import Connection
from api.server.routes import OPENAPI, add_to, dialect_of, missing_route, route_of
from api.transport.config import ServerConfig
from api.transport.errors import ApiError, ErrorKind, from_engine
from api.transport.observation import (
    KEPT_BYTES,
    Content,
    Observation,
    RequestBegan,
    RequestEnded,
    RequestObserver,
    note,
    observe,
)
from api.transport.service import ServedEngine, Service, new_id, set_client
from engine import EngineError, Finished, counted

_CLIENT_GONE = 499
# Generations whose client has left end within a step; a stopping server waits no longer than this.
_LAST_ENDS_S = 5.0
_OBSERVATION = web.RequestKey("observation", Observation)


_log = logging.getLogger(__name__)
_access = logging.getLogger("api.access")


def build(
    engine: ServedEngine, config: ServerConfig, observer: RequestObserver | None = None
) -> web.Application:
    """Return the application that serves an engine."""
    middlewares: list[Middleware] = [_logged, _enveloped, _checked]
    pending = PendingReports()
    if observer is not None:
        observed = _observed(observer, pending)
        middlewares = [_logged, observed, _enveloped, _checked, _with_body]
    app = web.Application(middlewares=middlewares, client_max_size=config.max_body_bytes)
    app[SERVICE] = Service(engine, config)
    app[BODIES] = BodyReader(config)
    app[OPENAPI] = functools.partial(openapi.text)
    app.on_response_prepare.append(_add_headers)
    app.on_cleanup.append(pending.wait)
    add_to(app)
    return app


@web.middleware
async def _logged(request: web.Request, handler: Handler) -> web.StreamResponse:
    request_id = request[REQUEST_ID] = new_id("req_")
    started_at = time.monotonic()
    status = 500
    metrics = request.app[SERVICE].metrics
    metrics.request_began()
    if isinstance(request.protocol, Connection):
        request.protocol.request_began()
    try:
        response = await handler(request)
        status = response.status
    except (asyncio.CancelledError, ConnectionError):
        status = 200 if request.get(DELIVERED, False) else _CLIENT_GONE
        raise
    finally:
        took_s = time.monotonic() - started_at
        route = route_of(request)
        # The path as the table of routes spells it: a path that a client made up must not become a
        # label.
        metrics.request_ended(
            "none" if route is None or route.dialect is None else route.dialect.name,
            "unknown" if route is None else f"{request.method} {route.path}",
            status,
            took_s,
        )
        if _access.isEnabledFor(logging.INFO):
            _log_request(request, status, took_s, request_id)
    return response


def _log_request(request: web.Request, status: int, took_s: float, request_id: str) -> None:
    path = _printable(safe_path(request.path, request.app[SERVICE].config.api_key))
    _access.info(
        "%s %s %s %d %.0f ms %s",
        request.remote,
        request.method,
        path,
        status,
        took_s * 1000,
        request_id,
        # For logs that are JSON.
        extra={
            "fields": {
                "remote": request.remote,
                "method": request.method,
                "path": path,
                "status": status,
                "took_ms": round(took_s * 1000, 1),
                "request_id": request_id,
            }
        },
    )


@web.middleware
async def _enveloped(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer every failure in the error format of the client's vendor."""
    dialect = dialect_of(request.path, request.headers)
    allowed_methods: str | None = None
    try:
        return await handler(request)
    except ApiError as caught:
        error = caught
    except EngineError as refusal:
        error = from_engine(refusal, dialect.field_names)
    except web.HTTPException as caught_http:
        error = _from_http(request, caught_http)
        allowed_methods = caught_http.headers.get("Allow")
    except ConnectionError:
        raise
    except Exception:
        _log.exception("request %s failed", request[REQUEST_ID])
        error = ApiError(ErrorKind.INTERNAL, "internal error; the server's log has the cause")
    note(failure=error.kind)
    response = failure_response(dialect, error, request[REQUEST_ID])
    # Its traceback keeps this frame, and with it the whole request, alive until the garbage
    # collector runs.
    del error
    if allowed_methods is not None:
        response.headers["Allow"] = allowed_methods
    return response


def _from_http(request: web.Request, error: web.HTTPException) -> ApiError:
    where = f"{request.method} {_printable(request.path)}"
    match error.status:
        case 404:
            message = missing_route(request.method, _printable(request.path))
            return ApiError(ErrorKind.NOT_FOUND, message)
        case 405:
            return ApiError(
                ErrorKind.METHOD_NOT_ALLOWED,
                f"{where} is not allowed; use {error.headers.get('Allow', 'another method')}",
            )
        case 413:
            limit = request.app[SERVICE].config.max_body_bytes
            return ApiError(
                ErrorKind.TOO_LARGE, f"the body exceeds the limit of {counted(limit, 'byte')}"
            )
        case status if status < 500:
            return ApiError(ErrorKind.INVALID_REQUEST, error.text or error.reason)
        case _:
            return ApiError(ErrorKind.INTERNAL, "internal error")


@web.middleware
async def _checked(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Refuse requests with a foreign ``Host``, from a foreign page, or without the key."""
    config = request.app[SERVICE].config
    headers = request.headers
    _check_place(request)
    local_host = _local_host(request)
    is_local = is_from_here(headers, _peer_host(request), local_host)
    # HTTP/1.0 has no Host, and no browser speaks it.
    if not (is_local and request.version < HttpVersion11 and "Host" not in headers):
        check_host(headers.get("Host"), config, local_host)
    # The request line may name a host, too, and that one counts (RFC 9112).
    _, is_absolute, rest = request.raw_path.partition("://")
    if is_absolute and not request.raw_path.startswith("/"):
        check_host(re.split(r"[/?#]", rest)[0].rpartition("@")[2], config, local_host)
    origin = headers.get("Origin")
    check_origin(origin, headers.get("Host"), config, local_host)
    check_site(headers.get("Sec-Fetch-Site"), origin, config)
    if (
        request.method == "OPTIONS"
        and origin is not None
        and is_allowed(origin, config)
        and "Access-Control-Request-Method" in headers
    ):
        return web.Response(status=204, headers=preflight_headers(headers))
    route = route_of(request)
    if route is None or route.needs_key:
        is_free = config.is_open_here and is_local
        set_client(check_key(headers, None if is_free else config.api_key))
    if route is not None and request.body_exists:
        async with request.app[BODIES].received(request):
            return await handler(request)
    return await handler(request)


def _check_place(request: web.Request) -> None:
    """Refuse a connection beyond the limit."""
    if isinstance(request.protocol, Connection) and request.protocol.is_surplus:
        request.protocol.close()
        raise ApiError(ErrorKind.RATE_LIMITED, "too many connections are open", retry_after_s=1.0)


async def _add_headers(request: web.Request, response: web.StreamResponse) -> None:
    request_id = request.get(REQUEST_ID)
    if request_id is not None:
        for name in REQUEST_ID_HEADERS:
            response.headers[name] = request_id
    if left_out := request.get(LEFT_OUT):
        response.headers[LEFT_OUT_HEADER] = ", ".join(left_out)
    if not_applied := request.get(NOT_APPLIED):
        response.headers[NOT_APPLIED_HEADER] = header_list(not_applied)
    if limit := request.get(TASK_LIMIT):
        response.headers[TASK_LIMIT_HEADER] = str(limit)
    config = request.app[SERVICE].config
    response.headers.update(cors_headers(request.headers.get("Origin"), config))


def _local_host(request: web.Request) -> str | None:
    return _host_at(request, "sockname")


def _peer_host(request: web.Request) -> str | None:
    return _host_at(request, "peername")


def _host_at(request: web.Request, end: str) -> str | None:
    name = request.transport.get_extra_info(end) if request.transport else None
    return str(name[0]).partition("%")[0] if isinstance(name, tuple) else None


def _printable(text: str) -> str:
    """Return a path for a log line, with unprintable characters escaped."""
    return re.sub(r"[^\x21-\x7e]", lambda match: f"%{ord(match[0]):02X}", text)[:200]


class PendingReports:
    """Delays the report of a request's end until its generations have ended."""

    def __init__(self) -> None:
        self._waiting: set[asyncio.Future[list[Finished | BaseException]]] = set()

    def add(self, observation: Observation, report: Callable[[object], None]) -> None:
        """Report an end now, or once the generations that a client left running have ended."""
        unfinished = [run.generation.ended() for run in observation.runs if run.finished is None]
        if not unfinished:
            report(None)
            return
        waiting = asyncio.gather(*unfinished, return_exceptions=True)
        self._waiting.add(waiting)
        # Even if the loop ends first, each request that began is reported to end exactly once.
        waiting.add_done_callback(report)
        waiting.add_done_callback(self._waiting.discard)

    async def wait(self, _: web.Application) -> None:
        """Wait briefly until all are reported, because the observer may close with the server."""
        if self._waiting:
            await asyncio.wait(self._waiting, timeout=_LAST_ENDS_S)


def _observed(observer: RequestObserver, pending: PendingReports) -> Middleware:
    """Return the middleware that reports the beginning and the end of each request."""

    @web.middleware
    async def observed(request: web.Request, handler: Handler) -> web.StreamResponse:
        observation = request[_OBSERVATION] = Observation(
            observer.requested_trace(), observer.requested_content()
        )
        observe(observation)
        config = request.app[SERVICE].config
        began = _began(request, config)
        began_s = time.monotonic()
        observer.request_began(began)
        observation.tell_advanced = lambda: observer.request_advanced(observation.advanced(began))
        status, response = 500, None
        try:
            response = await handler(request)
            status = response.status
        except (asyncio.CancelledError, ConnectionError):
            status = 200 if observation.is_delivered else _CLIENT_GONE
            raise
        finally:
            took_s = time.monotonic() - began_s
            if (
                Content.BODIES in observation.content
                and isinstance(response, web.Response)
                and isinstance(response.body, bytes)
            ):
                observation.answered.add(response.body)
            headers = () if response is None else tuple(response.headers.items())

            def report(_: object) -> None:
                observer.request_ended(
                    _ended(
                        observation,
                        began,
                        config.api_key,
                        took_s=took_s,
                        status=status,
                        headers=headers,
                    )
                )

            pending.add(observation, report)
        return response

    return observed


@web.middleware
async def _with_body(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Keep the beginning of the body of an accepted request."""
    if not request.body_exists or Content.BODIES not in request[_OBSERVATION].content:
        return await handler(request)
    body, asked = body_of(request), request[_OBSERVATION].asked
    asked.add(body.beginning(KEPT_BYTES))
    try:
        return await handler(request)
    finally:
        # The full size of a compressed body is known only after it has been read.
        asked.size_bytes = max(asked.size_bytes, body.size_bytes)


def _ended(
    observation: Observation,
    began: RequestBegan,
    secret: str | None,
    *,
    took_s: float,
    status: int,
    headers: tuple[tuple[str, str], ...],
) -> RequestEnded:
    clean = functools.partial(safe_body, secret=secret)
    return RequestEnded(
        began=began,
        took_s=took_s,
        status=status,
        asked=observation.asked.body(clean),
        answered=observation.answered.body(clean),
        answer_headers=safe_headers(headers, secret),
        runs=tuple(run for run in observation.runs if run.finished is not None),
        **observation.facts,
    )


def _began(request: web.Request, config: ServerConfig) -> RequestBegan:
    route = route_of(request)
    return RequestBegan(
        request_id=request_id_of(request),
        began_at=time.time(),
        client=request.remote or "",
        method=request.method,
        path=safe_path(request.path_qs, config.api_key),
        dialect="" if route is None or route.dialect is None else route.dialect.name,
        headers=safe_headers(request.headers.items(), config.api_key),
        route="" if route is None else route.path,
        operation="" if route is None else route.operation,
        server=_place(request),
    )


def _place(request: web.Request) -> tuple[str, int] | None:
    """Return the address and the port at which a request arrived."""
    name = request.transport.get_extra_info("sockname") if request.transport else None
    return (str(name[0]), int(name[1])) if isinstance(name, tuple) else None

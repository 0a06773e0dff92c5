"""The web application: every request is identified, checked, answered, logged and observed here.

Runs on the server's loop. Logs hold no bodies, no keys and no query strings.
"""

import asyncio
import logging
import re
import time
from collections.abc import Sequence

from aiohttp import HttpVersion11, web

from api.server.access import (
    NOT_APPLIED_HEADER,
    REQUEST_ID_HEADERS,
    TASK_LIMIT_HEADER,
    TOOLS_LEFT_OUT_HEADER,
    check_host,
    check_key,
    check_origin,
    check_site,
    cors_headers,
    is_allowed,
    is_from_here,
    preflight_headers,
)
from api.server.answering import BODIES, RECORD, SERVICE, Handler, api_error, failure_response
from api.server.connection import Connection
from api.server.receiving import BodyReceiver, too_large
from api.server.routes import add_to, dialect_of, route_of
from api.service.config import ServerConfig
from api.service.errors import ApiError, ErrorKind
from api.service.record import (
    CLIENT_DISCONNECTED,
    RecordedBody,
    RequestObserver,
    RequestRecord,
)
from api.service.redaction import safe_headers, safe_path
from api.service.service import Service, client_id_of, new_id
from engine import Engine
from engine.values.figures import describe_difference
from engine.values.request import TraceLevel

# The longest value of a header that lists parts of a request; proxies refuse long headers.
_MAX_HEADER_CHARS = 2_000

# Ollama's routes that we have not.
_CHANGES_OF_MODELS = tuple(f"/api/{name}" for name in ("blobs", "copy", "create", "delete", "push"))
_OBSERVERS: web.AppKey[Sequence[RequestObserver]] = web.AppKey("observers", Sequence)

_log = logging.getLogger(__name__)
_access = logging.getLogger("api.access")


def build(
    engine: Engine, config: ServerConfig, observers: Sequence[RequestObserver] = ()
) -> web.Application:
    """Return the application that serves an engine."""
    app = web.Application(
        middlewares=[_record_request, _render_errors, _check_access],
        client_max_size=config.max_body_bytes,
    )
    app[SERVICE] = Service(engine, config)
    app[BODIES] = BodyReceiver(config)
    app[_OBSERVERS] = observers
    app.on_response_prepare.append(_add_headers)
    add_to(app)
    return app


@web.middleware
async def _record_request(request: web.Request, handler: Handler) -> web.StreamResponse:
    metrics, record = request.app[SERVICE].metrics, _record_of(request)
    request[RECORD] = record
    metrics.request_began()
    if isinstance(request.protocol, Connection):
        request.protocol.stop_header_timer()
    for observer in record.observers:
        observer.request_began(record)
    started_at, response = time.monotonic(), None
    try:
        response = await handler(request)
        record.status = response.status
    except (asyncio.CancelledError, ConnectionError):
        record.status = 200 if record.is_delivered else CLIENT_DISCONNECTED
        raise
    finally:
        record.took_s = time.monotonic() - started_at
        # A path that a client made up must not become a label.
        route = f"{request.method} {record.route}" if record.route else "unknown"
        metrics.request_ended(record.dialect or "none", route, record.status, record.took_s)
        if _access.isEnabledFor(logging.INFO):
            _log_request(request, record)
        if record.observers:
            _report_end(request, record, response)
    return response


def _record_of(request: web.Request) -> RequestRecord:
    (dialect, route), observers = route_of(request), request.app[_OBSERVERS]
    record = RequestRecord(
        request_id=new_id("req_"),
        began_at=time.time(),
        client=request.remote or "",
        method=request.method,
        dialect="" if dialect is None else dialect.name,
        route="" if route is None else route.path,
        operation="" if route is None else route.operation,
        field_names={} if dialect is None else dialect.field_names,
    )
    if not observers:
        return record
    key = request.app[SERVICE].config.api_key
    record.path = safe_path(request.path_qs, key)
    record.headers = safe_headers(request.headers.items(), key)
    record.server = _address_at(request, "sockname")
    record.observers = observers
    levels = list(TraceLevel)
    record.trace = max(
        (observer.requested_trace() for observer in observers),
        key=lambda trace: (levels.index(trace[0]), trace[1]),
    )
    record.request_body = RecordedBody(secret=key)
    record.response_body = RecordedBody(secret=key)
    return record


def _address_at(request: web.Request, end: str) -> tuple[str, int] | None:
    """Return the address and the port at one end of a connection: "sockname" is ours."""
    name = request.transport.get_extra_info(end) if request.transport else None
    return (str(name[0]).partition("%")[0], int(name[1])) if isinstance(name, tuple) else None


def _log_request(request: web.Request, record: RequestRecord) -> None:
    fields = {
        "remote": request.remote,
        "method": record.method,
        "path": _printable(safe_path(request.path, request.app[SERVICE].config.api_key)),
        "status": record.status,
        "took_ms": round(record.took_s * 1000, 1),
        "request_id": record.request_id,
    }
    line = "%(remote)s %(method)s %(path)s %(status)d %(took_ms).0f ms %(request_id)s"
    if (difference := record.prompt_difference) is not None:
        fields["read_again"] = describe_difference(difference)  # not its texts: they are prompts
        line += " %(read_again)s"
    _access.info(line, fields, extra={"fields": fields})  # the fields are for logs in JSON


def _report_end(
    request: web.Request, record: RequestRecord, response: web.StreamResponse | None
) -> None:
    if response is not None:
        key = request.app[SERVICE].config.api_key
        record.response_headers = safe_headers(response.headers.items(), key)
    if isinstance(response, web.Response) and isinstance(response.body, bytes):
        record.response_body.add(response.body)
    for observer in record.observers:
        observer.request_ended(record)


@web.middleware
async def _render_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer every failure in the error format of the client's vendor."""
    dialect = dialect_of(request.path, request.headers)
    allowed_methods: str | None = None
    try:
        return await handler(request)
    except web.HTTPException as caught_http:
        error = _from_http(request, caught_http)
        allowed_methods = caught_http.headers.get("Allow")
    except ConnectionError:
        raise
    except Exception as caught:
        error = api_error(caught, request[RECORD])
    request[RECORD].failure = error.kind
    response = failure_response(dialect, error, request[RECORD].request_id)
    # Its traceback keeps this frame, and with it the whole request, alive until the garbage
    # collector runs.
    del error
    if allowed_methods is not None:
        response.headers["Allow"] = allowed_methods
    return response


def _from_http(request: web.Request, error: web.HTTPException) -> ApiError:
    path = _printable(request.path)
    match error.status:
        case 404:
            text = f"there is no route {request.method} {path}"
            if path.startswith(_CHANGES_OF_MODELS):
                text += ": requests do not change the models of this computer; use fullstop models"
            return ApiError(ErrorKind.NOT_FOUND, text)
        case 405:
            return ApiError(
                ErrorKind.METHOD_NOT_ALLOWED,
                f"{request.method} {path} is not allowed; use "
                f"{error.headers.get('Allow', 'another method')}",
            )
        case 413:
            return too_large(request.app[SERVICE].config.max_body_bytes)
        case status if status < 500:
            return ApiError(ErrorKind.INVALID_REQUEST, error.text or error.reason)
        case _:
            return ApiError(ErrorKind.INTERNAL, "internal error")


@web.middleware
async def _check_access(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Refuse requests with a foreign ``Host``, from a foreign page, or without the key."""
    config = request.app[SERVICE].config
    headers = request.headers
    if isinstance(request.protocol, Connection) and request.protocol.is_surplus:
        request.protocol.close()
        raise ApiError(ErrorKind.RATE_LIMITED, "too many connections are open", retry_after_s=1.0)
    ours, peer = _address_at(request, "sockname"), _address_at(request, "peername")
    local_host = ours and ours[0]
    is_local = is_from_here(headers, peer and peer[0], local_host)
    # HTTP/1.0 has no Host, and no browser speaks it.
    if not (is_local and request.version < HttpVersion11 and "Host" not in headers):
        check_host(headers.get("Host"), config, local_host)
    # The request line may name a host, too, and that one counts (RFC 9112).
    _, is_absolute, target = request.raw_path.partition("://")
    if is_absolute and not request.raw_path.startswith("/"):
        check_host(re.split(r"[/?#]", target)[0].rpartition("@")[2], config, local_host)
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
    _, route = route_of(request)
    if route is None or route.needs_key:
        is_free = config.is_open_here and is_local
        key = check_key(headers, None if is_free else config.api_key)
        request[RECORD].client_id = client_id_of(key)
    return await handler(request)


async def _add_headers(request: web.Request, response: web.StreamResponse) -> None:
    record = request.get(RECORD)
    if record is not None:
        for name in REQUEST_ID_HEADERS:
            response.headers[name] = record.request_id
        if record.tools_left_out:
            response.headers[TOOLS_LEFT_OUT_HEADER] = _header_list(record.tools_left_out)
        if record.not_applied:
            response.headers[NOT_APPLIED_HEADER] = _header_list(record.not_applied)
        if record.task_limit is not None:
            response.headers[TASK_LIMIT_HEADER] = str(record.task_limit)
    config = request.app[SERVICE].config
    response.headers["Server"] = config.product
    response.headers.update(cors_headers(request.headers.get("Origin"), config))


def _header_list(parts: Sequence[str]) -> str:
    text = ", ".join(dict.fromkeys(parts)).encode("ascii", "backslashreplace").decode()
    text = "".join(char if char.isprintable() else " " for char in text)
    return text if len(text) <= _MAX_HEADER_CHARS else f"{text[:_MAX_HEADER_CHARS]}..."


def _printable(text: str) -> str:
    """Return a path for a log line, with unprintable characters escaped."""
    return re.sub(r"[^\x21-\x7e]", lambda match: f"%{ord(match[0]):02X}", text)[:200]

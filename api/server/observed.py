"""The middlewares that show requests to an observer; an application without one has none of them.

Runs on the server's loop.
"""

import asyncio
import functools
import time

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from api.server.redaction import safe_body, safe_headers, safe_path
from api.server.routes import route_of
from api.transport.bodies.request_body import body_of
from api.transport.config import ServerConfig
from api.transport.context import request_id_of
from api.transport.observing import (
    KEPT_BYTES,
    Observation,
    RequestBegan,
    RequestEnded,
    RequestObserver,
    observe,
)

_CLIENT_GONE = 499
_OBSERVATION = web.RequestKey("observation", Observation)


def outer(observer: RequestObserver, config: ServerConfig) -> Middleware:
    """Return the middleware that tells of beginning and end, whatever the answer was."""

    @web.middleware
    async def told(request: web.Request, handler: Handler) -> web.StreamResponse:
        observation = request[_OBSERVATION] = Observation(observer.wanted_trace())
        observe(observation)
        began = _began(request, config)
        began_s = time.monotonic()
        observer.request_began(began)
        status, response = 500, None
        try:
            response = await handler(request)
            status = response.status
        except (asyncio.CancelledError, ConnectionError):
            status = 200 if observation.is_delivered else _CLIENT_GONE
            raise
        finally:
            took_s = time.monotonic() - began_s
            if isinstance(response, web.Response) and isinstance(response.body, bytes):
                observation.answered.add(response.body)
            headers = () if response is None else tuple(response.headers.items())
            end = _Ending(observer, config, observation, began, took_s, status, headers)
            end.tell()
        return response

    return told


@web.middleware
async def with_body(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Keep the beginning of the body of a request that was let in."""
    if not request.body_exists:
        return await handler(request)
    body, asked = body_of(request), request[_OBSERVATION].asked
    asked.add(body.beginning(KEPT_BYTES))
    try:
        return await handler(request)
    finally:
        # Of a packed body the whole size is known once it has been read.
        asked.size_bytes = max(asked.size_bytes, body.size_bytes)


class _Ending:
    """The end of a request, told once its generations have ended too."""

    def __init__(
        self,
        observer: RequestObserver,
        config: ServerConfig,
        observation: Observation,
        began: RequestBegan,
        took_s: float,
        status: int,
        headers: tuple[tuple[str, str], ...],
    ) -> None:
        self._observer = observer
        self._secret = config.api_key
        self._observation = observation
        self._began = began
        self._took_s = took_s
        self._status = status
        self._headers = headers

    def tell(self) -> None:
        """Tell it, now or as soon as what a client left running has ended, within a step."""
        unfinished = [run for run in self._observation.runs if run.finished is None]
        if unfinished:
            waiting = asyncio.gather(
                *(run.generation.ended() for run in unfinished), return_exceptions=True
            )
            # Also where the loop ends first: each request that began ends once.
            waiting.add_done_callback(lambda _: self._tell_now())
        else:
            self._tell_now()

    def _tell_now(self) -> None:
        runs = self._observation.runs
        clean = functools.partial(safe_body, secret=self._secret)
        self._observer.request_ended(
            RequestEnded(
                began=self._began,
                took_s=self._took_s,
                status=self._status,
                is_stream=self._observation.is_stream,
                model=self._observation.model,
                asked=self._observation.asked.body(clean),
                answered=self._observation.answered.body(clean),
                answer_headers=safe_headers(self._headers, self._secret),
                runs=tuple(run for run in runs if run.finished is not None),
            )
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
    )

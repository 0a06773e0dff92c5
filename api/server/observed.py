"""The middlewares that report requests to an observer, if the application has one.

Runs on the server's loop.
"""

import asyncio
import functools
import time
from collections.abc import Sequence

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from api.server.redaction import safe_body, safe_headers, safe_path
from api.server.routes import route_of
from api.transport.bodies.kept_bodies import KEPT_BYTES
from api.transport.bodies.request_body import body_of
from api.transport.config import ServerConfig
from api.transport.context import request_id_of
from api.transport.observing import (
    Content,
    Observation,
    RequestBegan,
    RequestEnded,
    RequestObserver,
    observe,
)
from engine import Finished, TraceLevel

_CLIENT_GONE = 499
# Generations whose client has left end within a step; a stopping server waits no longer than this.
_LAST_ENDS_S = 5.0
_OBSERVATION = web.RequestKey("observation", Observation)


class Observers:
    """Several observers that are told as one.

    Args:
        observers: The observers; each receives whatever any of them asked for.
    """

    def __init__(self, observers: Sequence[RequestObserver]) -> None:
        self._observers = tuple(observers)

    def wanted_trace(self) -> tuple[TraceLevel, int]:
        """Return the most detailed token trace that any of them wants."""
        levels = list(TraceLevel)
        return max(
            (one.wanted_trace() for one in self._observers),
            key=lambda wanted: (levels.index(wanted[0]), wanted[1]),
            default=(TraceLevel.OFF, 0),
        )

    def wanted_content(self) -> Content:
        """Return the content that any of them wants to have kept."""
        found = Content.NONE
        for one in self._observers:
            found |= one.wanted_content()
        return found

    def request_began(self, began: RequestBegan) -> None:
        """Tell all of them."""
        for one in self._observers:
            one.request_began(began)

    def request_ended(self, ended: RequestEnded) -> None:
        """Tell all of them."""
        for one in self._observers:
            one.request_ended(ended)


class Untold:
    """Ends of requests that wait to be reported until the request's generations have ended."""

    def __init__(self) -> None:
        self._waiting: set[asyncio.Future[list[Finished | BaseException]]] = set()

    def add(self, waiting: "asyncio.Future[list[Finished | BaseException]]") -> None:
        """Keep the end of a request until it has been reported."""
        self._waiting.add(waiting)
        waiting.add_done_callback(self._waiting.discard)

    async def told(self, _: web.Application) -> None:
        """Wait briefly until all are reported, because the observer may close with the server."""
        if self._waiting:
            await asyncio.wait(self._waiting, timeout=_LAST_ENDS_S)


def outer(observer: RequestObserver, config: ServerConfig, untold: Untold) -> Middleware:
    """Return the middleware that reports the beginning and the end of each request."""

    @web.middleware
    async def told(request: web.Request, handler: Handler) -> web.StreamResponse:
        observation = request[_OBSERVATION] = Observation(
            observer.wanted_trace(), observer.wanted_content()
        )
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
            if (
                Content.BODIES in observation.content
                and isinstance(response, web.Response)
                and isinstance(response.body, bytes)
            ):
                observation.answered.add(response.body)
            headers = () if response is None else tuple(response.headers.items())
            end = _Ending(observer, config, observation, began, took_s, status, headers)
            end.tell(untold)
        return response

    return told


@web.middleware
async def with_body(request: web.Request, handler: Handler) -> web.StreamResponse:
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


class _Ending:
    """The end of a request, reported once its generations have ended too."""

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

    def tell(self, untold: Untold) -> None:
        """Report it now, or once the generations that a client left running have ended."""
        unfinished = [run for run in self._observation.runs if run.finished is None]
        if unfinished:
            waiting = asyncio.gather(
                *(run.generation.ended() for run in unfinished), return_exceptions=True
            )
            # Even if the loop ends first, each request that began is reported to end exactly once.
            waiting.add_done_callback(lambda _: self._tell_now())
            untold.add(waiting)
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
                asked_model=self._observation.asked_model,
                wants_stream=self._observation.wants_stream,
                wanted=self._observation.wanted,
                failure=self._observation.failure,
                form=self._observation.form,
                embedding=self._observation.embedding,
                encoding=self._observation.encoding,
                embedded_tokens=self._observation.embedded_tokens,
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
        route="" if route is None else route.path,
        operation="" if route is None else route.operation,
        server=_place(request),
    )


def _place(request: web.Request) -> tuple[str, int] | None:
    """Return the address and the port at which a request arrived."""
    name = request.transport.get_extra_info("sockname") if request.transport else None
    return (str(name[0]), int(name[1])) if isinstance(name, tuple) else None

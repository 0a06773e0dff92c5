"""Writes a stream of server-sent events and shows signs of life while nothing happens.

Knows no vendor: encoders say what is written. Runs on the server's loop.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress
from types import TracebackType
from typing import Self

from aiohttp import web

from api.errors import ApiError, ErrorKind, failure_of
from api.events import SseEvent, StreamEncoder
from engine.events import Event, Finished

COMMENT = ": still here\n\n"

_log = logging.getLogger(__name__)


class SseWriter:
    """One open stream. The response's headers go out with the first bytes.

    That may be a sign of life: until then a failure can still be answered with its own status.
    """

    def __init__(self, request: web.Request, sign_of_life: str, silence_s: float) -> None:
        self.response = web.StreamResponse(
            headers={
                "Content-Type": "text/event-stream; charset=utf-8",
                "Cache-Control": "no-cache",
                "X-Accel-Buffering": "no",
            }
        )
        self._request = request
        self._sign_of_life = sign_of_life.encode()
        self._silence_s = silence_s
        self._loop = asyncio.get_running_loop()
        self._written_at = self._loop.time()
        self._lock = asyncio.Lock()
        self._clock: asyncio.Task[None] | None = None

    @property
    def has_started(self) -> bool:
        """Whether headers are out."""
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

    async def write(self, events: Sequence[SseEvent]) -> None:
        """Write some events at once; waits while the client reads too slowly."""
        if events:
            await self._write("".join([event.frame() for event in events]).encode())

    async def _write(self, data: bytes) -> None:
        async with self._lock:
            if not self.response.prepared:
                await self.response.prepare(self._request)
            await self.response.write(data)
            self._written_at = self._loop.time()

    async def _keep_alive(self) -> None:
        with suppress(ConnectionError):
            while True:
                silent_s = self._loop.time() - self._written_at
                if silent_s < self._silence_s:
                    await asyncio.sleep(self._silence_s - silent_s)
                elif self._lock.locked():
                    # The client is slow, not we: it has bytes to read.
                    await asyncio.sleep(self._silence_s)
                else:
                    await self._write(self._sign_of_life)


async def stream(
    request: web.Request,
    batches: AsyncGenerator[tuple[int, list[Event]], None],
    encoder: StreamEncoder,
    *,
    sign_of_life: str = COMMENT,
    silence_s: float,
) -> web.StreamResponse:
    """Write batches of events, each tagged with its choice, as they come; return the response.

    Raises:
        ApiError: The first thing that came was a failure, and nothing has been written yet.
    """
    async with SseWriter(request, sign_of_life, silence_s) as writer, aclosing(batches) as source:
        try:
            async for choice, batch in source:
                last = batch[-1]
                failure = failure_of(last) if isinstance(last, Finished) else None
                if failure is not None and not writer.has_started:
                    raise failure
                await writer.write(encoder.encode(batch, choice))
                if failure is not None:
                    writer.response.force_close()
                    break
        except ConnectionError:
            raise
        except Exception:
            if not writer.has_started:
                raise
            _log.exception("a stream broke off")
            await writer.write(encoder.fail(ApiError(ErrorKind.INTERNAL, "internal error")))
            writer.response.force_close()
        await writer.response.write_eof()
    return writer.response

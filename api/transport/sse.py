"""Writes a stream of events or lines, with keepalives while nothing happens.

Knows no vendor: encoders make the content. Runs on the server's loop.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, suppress
from types import TracebackType
from typing import NamedTuple, Self

from aiohttp import web

from api.transport.context import DELIVERED, service_of
from api.transport.errors import ApiError, ErrorKind
from api.transport.events import StreamEncoder, StreamFrame
from api.transport.observing import note_failure, note_stream_delivered, note_streamed
from engine import EngineError, Event

_log = logging.getLogger(__name__)


class StreamWriter:
    """One open stream. The response's headers are sent with the first bytes.

    These may be a keepalive. Until then a failure can still be answered with its own status.
    """

    def __init__(
        self, request: web.Request, keepalive: str, silence_s: float, content_type: str
    ) -> None:
        self.response = web.StreamResponse(
            headers={
                "Content-Type": content_type,
                "Cache-Control": "no-cache",
                "X-Accel-Buffering": "no",
            }
        )
        self._request = request
        self._keepalive = keepalive.encode()
        self._silence_s = silence_s
        self._patience_s = service_of(request).config.write_timeout_s
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
        """Write some events together; waits while the client reads too slowly."""
        if events:
            await self._write("".join([event.frame() for event in events]).encode())

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
                        await self._write(self._keepalive)
        if self._request.transport is not None:
            self._request.transport.abort()


class Begun(NamedTuple):
    """A stream whose generations have been accepted.

    Attributes:
        batches: Yields batches of events, each with the index of its choice, as they arrive.
        encoder: Renders them.
    """

    batches: AsyncGenerator[tuple[int, list[Event]], None]
    encoder: StreamEncoder


async def stream(
    request: web.Request,
    begin: Callable[[], AbstractAsyncContextManager[Begun]],
    waiting: StreamEncoder,
    refused: Callable[[EngineError], ApiError],
    *,
    silence_s: float,
    content_type: str,
) -> web.StreamResponse:
    """Write the events of generations as they arrive; return the response.

    Keepalives are also sent while the generations wait to be accepted, for example for a model that
    is being loaded. A refusal before the first keepalive has its own status.

    Args:
        request: The client's request.
        begin: Starts the generations and ends them.
        waiting: Encodes what is sent before they start.
        refused: Turns a refusal by the engine into an error for the client.
        silence_s: A keepalive is sent after this many seconds of silence.
        content_type: The media type of the stream.

    Raises:
        EngineError: The generations were refused, and nothing has been written yet.
        ApiError: The first event was a failure, and nothing has been written yet.
    """
    encoder = waiting
    async with StreamWriter(request, waiting.keepalive(), silence_s, content_type) as writer:
        try:
            async with begin() as begun, aclosing(begun.batches) as source:
                encoder = begun.encoder
                async for choice, batch in source:
                    frames = encoder.encode(batch, choice)
                    if encoder.failure is not None and not writer.has_started:
                        raise encoder.failure
                    await writer.write(frames)
                    if encoder.failure is not None:
                        note_failure(encoder.failure.kind)
                        writer.response.force_close()
                        break
        except ConnectionError:
            raise
        except Exception as error:
            if not writer.has_started:
                raise
            failure = _failure(error, refused)
            note_failure(failure.kind)
            await writer.write(encoder.fail(failure))
            del failure  # its traceback keeps this frame alive
            writer.response.force_close()
        await writer.finish()
    return writer.response


def _failure(error: Exception, refused: Callable[[EngineError], ApiError]) -> ApiError:
    """Return the error that a client receives after its stream has begun."""
    match error:
        case ApiError():
            return error
        case EngineError():
            return refused(error)
        case _:
            _log.error("a stream broke off", exc_info=error)
            return ApiError(ErrorKind.INTERNAL, "internal error")

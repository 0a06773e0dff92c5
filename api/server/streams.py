"""Writes one streamed answer, with keepalives. Runs on the server's loop."""

import asyncio
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from typing import Self

from aiohttp import web

from api.dialects.shared.answers import AnswerEncoder
from api.dialects.shared.dialect import LINES
from api.service.config import ServerConfig
from api.service.record import RequestRecord

# A slow client is disconnected only if it reads none of so many bytes in the time for a write.
_PART_BYTES = 1 << 16


class StreamWriter:
    """One open stream. The response's headers are sent with the first bytes.

    These may be a keepalive. Until then a failure can still be answered with its own status.
    """

    def __init__(
        self,
        request: web.Request,
        record: RequestRecord,
        config: ServerConfig,
        content_type: str,
        encoder: AnswerEncoder | None = None,
    ) -> None:
        self.response = web.StreamResponse(
            headers={
                "Content-Type": content_type,
                "Cache-Control": "no-cache",
                "X-Accel-Buffering": "no",
            }
        )
        self.encoder = encoder
        self._request = request
        self._record = record
        # Some clients of line streams parse each piece that arrives as one object.
        self._writes_lines = content_type == LINES
        self._silence_s, self._timeout_s = config.keepalive_s, config.write_timeout_s
        self._loop = asyncio.get_running_loop()
        self._written_at = self._loop.time()
        self._lock = asyncio.Lock()
        self._timer: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._timer = asyncio.create_task(self._keep_alive())
        return self

    async def __aexit__(self, *error: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
            await asyncio.wait((self._timer,))

    async def write(self, frames: Sequence[str]) -> None:
        """Write some events together, lines one by one; waits while the client reads slowly."""
        for data in frames if self._writes_lines else filter(None, ["".join(frames)]):
            await self._write(data.encode())

    async def finish(self) -> None:
        async with self._lock:
            await self._send(self.response.write_eof())
            self._record.is_delivered = True

    async def _write(self, data: bytes) -> None:
        async with self._lock:
            if not self.response.prepared:
                await self.response.prepare(self._request)
            # Returns at once while the client has less than some 64 kB unread. The whole may take
            # a client that reads slowly longer than the time limit.
            for begin in range(0, len(data), _PART_BYTES):
                await self._send(self.response.write(data[begin : begin + _PART_BYTES]))
            self._written_at = self._loop.time()
            self._record.add_streamed(data)

    async def _send(self, writing: Awaitable[None]) -> None:
        """Wait for the client to read; disconnect it if it has stopped reading."""
        try:
            async with asyncio.timeout(self._timeout_s):
                await writing
        except TimeoutError:
            self._abort()
            raise ConnectionResetError("the client has stopped reading") from None

    def _abort(self) -> None:
        if self._request.transport is not None:
            self._request.transport.abort()

    async def _keep_alive(self) -> None:
        """Send keepalives, and disconnect a client that does not read them."""
        with suppress(ConnectionError):
            while True:
                now = self._loop.time()
                if self._lock.locked():  # the client is slow, not the server: it has unread bytes
                    await asyncio.sleep(self._silence_s)
                elif now - self._written_at < self._silence_s:
                    await asyncio.sleep(self._silence_s - (now - self._written_at))
                elif self.encoder is None:  # its events are complete
                    await asyncio.sleep(self._silence_s)
                else:
                    await self._write(self.encoder.keepalive().encode())
        self._abort()

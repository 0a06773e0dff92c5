"""Receives the bodies of requests, within limits of time and size.

A body stays as it was sent, in parts and perhaps compressed, until its handler reads it. aiohttp
would join, decompress and keep it on the server's loop, which would stall every stream. Runs on the
server's loop.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web

from api.transport.bodies.large_bodies import LargeBodies
from api.transport.bodies.unpacking import beginning, encoding_of, too_large, unpacked
from api.transport.config import ServerConfig
from api.transport.errors import ApiError, ErrorKind
from engine import ModelInfo

# Limits of what is read in this process, on the loop. Larger bodies, and those with more values,
# take long enough to delay others. (Commas and brackets in texts are counted as well.)
SMALL_BYTES = 128 * 1024
_SMALL_VALUES = 4_000
_VALUE_MARKS = (b",", b"{", b"[")
_FREE_BYTES = 64 * 1024
_PART_BYTES = 256 * 1024
# How many of the largest bodies may be held at the same time.
_AT_ONCE = 3


class BodyRoom:
    """Limits the bytes of all bodies in memory, in total and for each client."""

    def __init__(self, most: int, most_of_one: int = 0) -> None:
        self._most = most
        self._most_of_client = max(most // 2, most_of_one)
        self._total = 0
        self._of: Counter[str] = Counter()

    def take(self, client: str, size: int) -> None:
        """Count bytes that are now in memory."""
        if self._total + size > self._most or self._of[client] + size > self._most_of_client:
            raise ApiError(
                ErrorKind.RATE_LIMITED,
                "too many large requests are being sent at once; try again",
                retry_after_s=1.0,
            )
        self._total += size
        self._of[client] += size

    def leave(self, client: str, size: int) -> None:
        """Count bytes that are no longer in memory."""
        self._total -= size
        self._of[client] -= size
        if not self._of[client]:
            del self._of[client]


@dataclass(slots=True, eq=False)
class SentBody:
    """The body of a request, as it was sent.

    Attributes:
        encoding: How it is compressed; None if it is not.
        most_bytes: Its largest permitted size once decompressed.
        helper: Reads it if it is large.
        model: The loaded model; None if no model is loaded.
        small: The whole body, decompressed, if it is small; None if it is large.
        is_large: Whether the helper must read it once the whole body has arrived.
        size_bytes: Its size; for a compressed body the decompressed size, once it is known.
        on_drop: Called when its bytes are freed.
    """

    encoding: str | None
    most_bytes: int
    helper: LargeBodies
    model: ModelInfo | None = None
    small: bytes | None = None
    is_large: bool = True
    size_bytes: int = 0
    on_drop: Callable[[], None] = lambda: None
    _parts: list[bytearray] = field(default_factory=list)

    def add(self, data: bytes) -> None:
        """Add the next bytes; small pieces are joined, so that few are kept."""
        if not self._parts or len(self._parts[-1]) + len(data) > _PART_BYTES:
            self._parts.append(bytearray())
        self._parts[-1] += data
        self.size_bytes += len(data)

    def settle(self) -> None:
        """Note that the whole body has arrived, and decompress it if it is small.

        Raises:
            ApiError: It is small and cannot be decompressed.
        """
        if self.size_bytes > SMALL_BYTES:
            return
        sent = b"".join(self._parts)
        if self.encoding is not None and sent:
            try:
                sent = unpacked(sent, self.encoding, min(SMALL_BYTES, self.most_bytes))
            except ApiError as error:
                if error.kind is ErrorKind.TOO_LARGE:
                    return
                raise
        if sum(map(sent.count, _VALUE_MARKS)) > _SMALL_VALUES:
            return
        self.size_bytes = len(sent)
        self.small, self.is_large = sent, False

    def taken(self) -> tuple[int, Iterator[bytearray]]:
        """Return the size of the body and its parts, each of which is freed once it is used."""
        parts, self._parts = self._parts, []
        return sum(map(len, parts)), _used_up(parts)

    def beginning(self, most_bytes: int) -> bytes:
        """Return the beginning of the body, decompressed."""
        if self.small is not None:
            return self.small[:most_bytes]
        first = b""
        for part in self._parts:
            first += part[: most_bytes - len(first)]
            if len(first) == most_bytes:
                break
        return first if self.encoding is None else beginning(first, self.encoding, most_bytes)

    def drop(self) -> None:
        """Free the body: it has been read, or nobody will read it."""
        self._parts.clear()
        self.small = None
        self.on_drop()


class BodyReader:
    """Receives the bodies of one server's requests.

    Args:
        config: The limits.
        helper: Reads the large ones.
        model: Returns the loaded model; None if no model is loaded.
    """

    def __init__(
        self,
        config: ServerConfig,
        helper: LargeBodies,
        model: Callable[[], ModelInfo | None] = lambda: None,
    ) -> None:
        self._config = config
        self._model = model
        self.helper = helper
        self._room = BodyRoom(_AT_ONCE * config.max_body_bytes, config.max_body_bytes)

    @asynccontextmanager
    async def received(self, request: web.Request) -> AsyncIterator[None]:
        """Wait for the whole body, or give up; handlers then get the body from ``body_of``.

        Raises:
            ApiError: It is too large or too slow, or it is small and cannot be decompressed.
        """
        encoding = encoding_of(",".join(request.headers.getall("Content-Encoding", ())))
        most_bytes = self._config.max_body_bytes
        if (request.content_length or 0) > most_bytes:
            request.protocol.close()  # refuse it before the rest arrives
            raise too_large(most_bytes)
        body = request[_BODY] = SentBody(encoding, most_bytes, self.helper)
        try:
            await self._receive(request, body)
            body.settle()
            body.model = self._model()
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
            if body.size_bytes > body.most_bytes:
                raise too_large(body.most_bytes)
            counted = body.size_bytes - _FREE_BYTES - held
            if counted > 0:
                self._room.take(client, counted)
                held += counted


def _used_up(parts: list[bytearray]) -> Iterator[bytearray]:
    parts.reverse()
    while parts:
        yield parts.pop()


BODIES = web.AppKey("bodies", BodyReader)
_BODY = web.RequestKey("body", SentBody)


def body_of(request: web.Request) -> SentBody:
    """Return the body of a request; an empty body if it has none."""
    body: SentBody | None = request.get(_BODY)
    return body or SentBody(None, 0, request.app[BODIES].helper, small=b"", is_large=False)

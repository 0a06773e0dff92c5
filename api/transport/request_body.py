"""Brings the body of a request into memory and unpacks it, within bounds of time and size.

aiohttp would unpack bodies itself, on the server's loop, with every stream waiting; a megabyte that
unpacks to a gigabyte held all of them for seconds. Here a body is unpacked on another thread and
only as far as the limit. Runs on the server's loop.

The encodings are those of RFC 9110: https://www.rfc-editor.org/rfc/rfc9110#name-content-codings
"""

import asyncio
import zlib
from collections import Counter
from typing import Any

from aiohttp import web

from api.transport.aiohttp_internals import keep_body
from api.transport.config import ServerConfig
from api.transport.errors import ApiError, ErrorKind

# ``zlib``'s sizes of windows, which also tell the formats apart.
_GZIP, _ZLIB, _BARE = 16 + zlib.MAX_WBITS, zlib.MAX_WBITS, -zlib.MAX_WBITS
_UNPACKED = frozenset({"", "identity"})
_READ_HERE = frozenset({"gzip", "x-gzip", "deflate"})
# Below this, a thread would take longer than the work.
_LARGE_BYTES = 4096
_FREE_BYTES = 64 * 1024
# How many of the largest bodies may be read at the same time.
_AT_ONCE = 4
_PIECE_BYTES = 1 << 16
# Each of them may take the limit of a body in memory.
_UNPACKED_AT_ONCE = 2


class BodyRoom:
    """The bytes of all bodies that are being read, bounded in total and for each client.

    Args:
        most: Most bytes in total; one client may have half of them.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._total = 0
        self._of: Counter[str] = Counter()

    def take(self, client: str, size: int) -> None:
        """Note that more is held.

        Raises:
            ApiError: There is no room for it now.
        """
        if self._total + size > self._most or self._of[client] + size > self._most // 2:
            raise ApiError(
                ErrorKind.RATE_LIMITED,
                "too many large requests are being sent at once; try again",
                retry_after_s=1.0,
            )
        self._total += size
        self._of[client] += size

    def leave(self, client: str, size: int) -> None:
        """Note that it is held no more."""
        self._total -= size
        self._of[client] -= size
        if not self._of[client]:
            del self._of[client]


class BodyReader:
    """Reads the bodies of one server's requests."""

    def __init__(self, config: ServerConfig) -> None:
        self._config = config
        self._room = BodyRoom(_AT_ONCE * config.max_body_bytes)
        self._may_unpack = asyncio.Semaphore(_UNPACKED_AT_ONCE)

    async def read(self, request: web.Request) -> None:
        """Wait for the whole body, which handlers then find at hand; a slow one is given up.

        Raises:
            ApiError: It is too large, too slow, or cannot be unpacked.
        """
        encoding = _encoding_of(request)
        if (request.content_length or 0) > self._config.max_body_bytes:
            request.protocol.close()  # what it announces need not be waited for
            raise _too_large(self._config.max_body_bytes)
        packed = await self._received(request)
        if encoding is not None and packed:
            keep_body(request, await self._unpacked(packed, encoding))

    async def _received(self, request: web.Request) -> bytes:
        timeout_s = self._config.body_timeout_s
        try:
            async with asyncio.timeout(timeout_s):
                return await self._sent(request)
        except TimeoutError:
            request.protocol.close()
            raise ApiError(
                ErrorKind.TIMEOUT, f"the body did not arrive within {timeout_s:g} seconds"
            ) from None
        except web.RequestPayloadError:
            request.protocol.close()
            raise ApiError(ErrorKind.INVALID_REQUEST, "the body is not valid HTTP") from None

    async def _sent(self, request: web.Request) -> bytes:
        """Return the body as it is sent, for as long as there is room for it.

        Its beginning takes no room, so that ordinary requests always have some.
        """
        most_bytes, client = self._config.max_body_bytes, request.remote or ""
        body, held = bytearray(), 0
        try:
            while part := await request.content.readany():
                body += part
                if len(body) > most_bytes:
                    raise _too_large(most_bytes)
                counted = len(body) - _FREE_BYTES - held
                if counted > 0:
                    self._room.take(client, counted)
                    held += counted
        except ApiError:
            request.protocol.close()
            raise
        finally:
            self._room.leave(client, held)
        sent = bytes(body)
        keep_body(request, sent)
        return sent

    async def _unpacked(self, packed: bytes, encoding: str) -> bytes:
        most_bytes = self._config.max_body_bytes
        if len(packed) < _LARGE_BYTES:
            return _unpacked(packed, encoding, most_bytes)
        # Another thread, since the loop must go on; zlib lets it while it unpacks.
        async with self._may_unpack:
            return await asyncio.to_thread(_unpacked, packed, encoding, most_bytes)


BODIES = web.AppKey("bodies", BodyReader)


def _encoding_of(request: web.Request) -> str | None:
    """Return how the body is packed; None if it is not.

    Raises:
        ApiError: In a way that we do not read.
    """
    named = ",".join(request.headers.getall("Content-Encoding", ()))
    packings = [one for part in named.split(",") if (one := part.strip().lower()) not in _UNPACKED]
    if not packings:
        return None
    if len(packings) == 1 and packings[0] in _READ_HERE:
        return packings[0]
    what = "more than one content-encoding" if len(packings) > 1 else "this content-encoding"
    raise ApiError(
        ErrorKind.UNSUPPORTED_ENCODING,
        f"{what} is not supported; send the body as it is, or as gzip or deflate",
    )


def _unpacked(packed: bytes, encoding: str, most_bytes: int) -> bytes:
    """Return what a body unpacks to, which is never more than the limit. Any thread."""
    window = _GZIP if encoding != "deflate" else _ZLIB if packed[0] & 0xF == 8 else _BARE
    try:
        # Twice: what is refused takes no memory, and what is not exactly its own size.
        size = _size_unpacked(packed, zlib.decompressobj(window), encoding, most_bytes)
        return zlib.decompress(packed, window, max(size, 1))
    except zlib.error:
        raise _damaged(encoding, "the content-encoding names it, but the bytes are not") from None


def _size_unpacked(packed: bytes, unpacking: Any, encoding: str, most_bytes: int) -> int:
    size = 0
    for start in range(0, len(packed), _PIECE_BYTES):
        piece = packed[start : start + _PIECE_BYTES]
        while not unpacking.eof:
            count = len(unpacking.decompress(piece, _PIECE_BYTES))
            size += count
            if size > most_bytes:
                raise _too_large(most_bytes)
            piece = unpacking.unconsumed_tail
            if not piece and count < _PIECE_BYTES:
                break
        if unpacking.eof:
            if unpacking.unused_data or start + _PIECE_BYTES < len(packed):
                raise _damaged(encoding, "there is more behind its end")
            return size
    raise _damaged(encoding, "it ends too early")


def _damaged(encoding: str, why: str) -> ApiError:
    return ApiError(ErrorKind.INVALID_REQUEST, f"the body cannot be unpacked as {encoding}: {why}")


def _too_large(most_bytes: int) -> ApiError:
    return ApiError(ErrorKind.TOO_LARGE, f"the body exceeds the limit of {most_bytes} bytes")

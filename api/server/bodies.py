"""Receives the bodies of requests, within limits of time and size, and decompresses them.

aiohttp would decompress on the server's loop, without a limit. Runs on the server's loop.
"""

import asyncio
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from api.transport.config import ServerConfig
from api.transport.errors import ApiError, ErrorKind
from engine import counted

# Larger bodies are parsed on a thread, so that streams continue meanwhile.
ON_LOOP_BYTES = 1 << 20
# Smaller bodies are not counted.
_UNCOUNTED_BYTES = 64 * 1024
# https://www.rfc-editor.org/rfc/rfc9110#name-content-codings
_ENCODINGS = frozenset({"gzip", "x-gzip", "deflate"})


class BodyReceiver:
    """Receives the bodies of one server's requests, within the limits of its settings."""

    def __init__(self, config: ServerConfig) -> None:
        self._config = config
        self._available_bytes = 3 * config.max_body_bytes
        # Held while a large body is parsed: values take many times the size of their JSON.
        self._parsing = asyncio.Lock()

    @asynccontextmanager
    async def received(self, request: web.Request) -> AsyncIterator[bytes | bytearray]:
        """Wait for the whole body, as it was sent; its memory is counted until the block is left.

        Raises:
            ApiError: It is too large or too slow, or there are too many large ones.
        """
        body = bytearray()
        counted_bytes = 0
        try:
            async with asyncio.timeout(self._config.body_timeout_s):
                self._check_size(request.content_length or 0)
                while part := await request.content.readany():
                    body += part
                    self._check_size(len(body))
                    more = max(0, len(body) - _UNCOUNTED_BYTES - counted_bytes)
                    self._available_bytes -= more
                    counted_bytes += more
                    if self._available_bytes < 0:
                        raise ApiError(
                            ErrorKind.RATE_LIMITED,
                            "too many large requests are being sent at once; try again",
                            retry_after_s=1.0,
                        )
            yield body
        except TimeoutError:
            request.protocol.close()
            raise ApiError(
                ErrorKind.TIMEOUT,
                f"the body did not arrive within {self._config.body_timeout_s:g} seconds",
            ) from None
        except web.RequestPayloadError:
            request.protocol.close()
            raise ApiError(ErrorKind.INVALID_REQUEST, "the body is not valid HTTP") from None
        finally:
            self._available_bytes += counted_bytes
            if not request.content.at_eof():
                request.protocol.close()  # the rest of the body is not read

    @asynccontextmanager
    async def parsing(self, body: bytes | bytearray, encoding: str | None) -> AsyncIterator[bool]:
        """Wait until a body may be parsed; yield whether it is parsed on a thread."""
        if encoding is None and len(body) <= ON_LOOP_BYTES:
            yield False
            return
        async with self._parsing:
            yield True

    def _check_size(self, size_bytes: int) -> None:
        if size_bytes > self._config.max_body_bytes:
            raise too_large(self._config.max_body_bytes)


def too_large(max_bytes: int) -> ApiError:
    """Return the error for a body beyond the limit."""
    return ApiError(
        ErrorKind.TOO_LARGE, f"the body exceeds the limit of {counted(max_bytes, 'byte')}"
    )


def encoding_of(content_encoding: str) -> str | None:
    """Return the content coding of a body; None if it is not compressed."""
    codings = [
        coding
        for part in content_encoding.split(",")
        if (coding := part.strip().lower()) not in ("", "identity")
    ]
    if not codings:
        return None
    if len(codings) == 1 and codings[0] in _ENCODINGS:
        return codings[0]
    what = "more than one content-encoding" if len(codings) > 1 else "this content-encoding"
    raise ApiError(
        ErrorKind.UNSUPPORTED_ENCODING,
        f"{what} is not supported; send the body as it is, or as gzip or deflate",
    )


def decompressed(body: bytes | bytearray, encoding: str, max_bytes: int) -> bytes:
    """Return a body, decompressed; any thread.

    Raises:
        ApiError: It is larger than the limit once decompressed, or damaged.
    """
    window = 16 + zlib.MAX_WBITS
    if encoding == "deflate":
        has_header = body[:1] and body[0] & 0xF == 8
        window = zlib.MAX_WBITS if has_header else -zlib.MAX_WBITS
    decompressor = zlib.decompressobj(window)
    try:
        whole = decompressor.decompress(body, max_bytes + 1)
    except zlib.error:
        raise _damaged(encoding, "the content-encoding names it, but the bytes are not") from None
    if len(whole) > max_bytes:
        raise too_large(max_bytes)
    if not decompressor.eof:
        raise _damaged(encoding, "it ends too early")
    if decompressor.unused_data:
        raise _damaged(encoding, "there is data after its end")
    return whole


def _damaged(encoding: str, why: str) -> ApiError:
    return ApiError(
        ErrorKind.INVALID_REQUEST, f"the body cannot be decompressed as {encoding}: {why}"
    )

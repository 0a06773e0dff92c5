"""Receives the bodies of requests, within limits of time and size, and decompresses them.

aiohttp would decompress on the server's loop. Runs on the server's loop.
"""

import asyncio
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from aiohttp import web

from api.service.config import ServerConfig
from api.service.errors import ApiError, ErrorKind
from engine.wording import counted

# Smaller bodies are not counted.
_UNCOUNTED_BYTES = 64 * 1024


class BodyReceiver:
    """Receives the bodies of one server's requests, within the limits of its settings."""

    def __init__(self, config: ServerConfig) -> None:
        self._config = config
        # For load shedding: what all bodies together may take.
        self._available_bytes = 3 * config.max_body_bytes
        # Held while a large body is parsed: values take many times the size of their JSON.
        self.parsing = asyncio.Lock()

    @asynccontextmanager
    async def receive(self, request: web.Request) -> AsyncIterator[bytearray]:
        """Wait for a whole body, as it was sent; its memory is counted until the block is left."""
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

    def _check_size(self, size_bytes: int) -> None:
        if size_bytes > self._config.max_body_bytes:
            raise too_large(self._config.max_body_bytes)


def too_large(max_bytes: int) -> ApiError:
    """Return the error for a body beyond the limit."""
    return ApiError(
        ErrorKind.TOO_LARGE, f"the body exceeds the limit of {counted(max_bytes, 'byte')}"
    )


def is_compressed(request: web.Request) -> bool:
    """Return whether a body is sent as gzip or deflate; refuse all other codings."""
    coding = request.headers.get("Content-Encoding", "").strip().lower()
    if coding not in ("", "identity", "gzip", "x-gzip", "deflate"):
        raise ApiError(
            ErrorKind.UNSUPPORTED_ENCODING,
            "this content-encoding is not supported; send the body as it is, or as gzip or deflate",
        )
    return coding not in ("", "identity")


def decompress(body: bytearray, max_bytes: int) -> bytes:
    """Return a body, decompressed; refuse a damaged one and a decompression bomb. Any thread."""
    decompressor = zlib.decompressobj(32 + zlib.MAX_WBITS)  # finds out whether gzip or zlib
    with suppress(zlib.error):
        whole = decompressor.decompress(body, max_bytes + 1)
        if len(whole) > max_bytes:
            raise too_large(max_bytes)
        if decompressor.eof and not decompressor.unused_data:
            return whole
    raise ApiError(
        ErrorKind.INVALID_REQUEST, "the body is not compressed as its content-encoding says"
    )

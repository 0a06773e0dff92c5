"""Brings the body of a request into memory and unpacks it, within bounds of time and size.

aiohttp would unpack bodies itself, on the server's loop, with every stream waiting; a megabyte that
unpacks to a gigabyte held all of them for seconds. Here a body is unpacked on another thread and
only as far as the limit. Runs on the server's loop.

The encodings are those of RFC 9110: https://www.rfc-editor.org/rfc/rfc9110#name-content-codings
"""

import asyncio
import zlib

from aiohttp import web

from api.config import ServerConfig
from api.errors import ApiError, ErrorKind

# ``zlib``'s sizes of windows, which also tell the formats apart.
_GZIP, _ZLIB, _BARE = 16 + zlib.MAX_WBITS, zlib.MAX_WBITS, -zlib.MAX_WBITS
_UNPACKED = frozenset({"", "identity"})
_READ_HERE = frozenset({"gzip", "x-gzip", "deflate"})
# Below this, a thread would take longer than the work.
_LARGE_BYTES = 4096


async def read_body(request: web.Request, config: ServerConfig) -> None:
    """Wait for the whole body, which handlers then find at hand; a slow one is given up.

    Raises:
        ApiError: It is too large, too slow, or cannot be unpacked.
    """
    encoding = _encoding_of(request)
    if (request.content_length or 0) > config.max_body_bytes:
        request.protocol.close()  # what it announces need not be waited for
        raise _too_large(config)
    try:
        async with asyncio.timeout(config.body_timeout_s):
            packed = await request.read()
    except TimeoutError:
        request.protocol.close()
        raise ApiError(
            ErrorKind.TIMEOUT,
            f"the body did not arrive within {config.body_timeout_s:g} seconds",
        ) from None
    except web.RequestPayloadError:
        request.protocol.close()
        raise ApiError(ErrorKind.INVALID_REQUEST, "the body is not valid HTTP") from None
    if encoding is None or not packed:
        return
    # Another thread, since the loop must go on; zlib lets it while it unpacks.
    unpacked = (
        _unpacked(packed, encoding, config)
        if len(packed) < _LARGE_BYTES
        else await asyncio.to_thread(_unpacked, packed, encoding, config)
    )
    # Where aiohttp keeps what it has read: from now on this is the body for everybody who asks.
    request._read_bytes = unpacked


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


def _unpacked(packed: bytes, encoding: str, config: ServerConfig) -> bytes:
    """Return what a body unpacks to, which is never more than the limit. Any thread."""
    window = _GZIP if encoding != "deflate" else _ZLIB if packed[0] & 0xF == 8 else _BARE
    unpacking = zlib.decompressobj(window)
    try:
        found = unpacking.decompress(packed, config.max_body_bytes + 1)
    except zlib.error:
        raise _damaged(encoding, "the content-encoding names it, but the bytes are not") from None
    if len(found) > config.max_body_bytes:
        raise _too_large(config)
    if not unpacking.eof:
        raise _damaged(encoding, "it ends too early")
    if unpacking.unused_data:
        raise _damaged(encoding, "there is more behind its end")
    return found


def _damaged(encoding: str, why: str) -> ApiError:
    return ApiError(ErrorKind.INVALID_REQUEST, f"the body cannot be unpacked as {encoding}: {why}")


def _too_large(config: ServerConfig) -> ApiError:
    return ApiError(
        ErrorKind.TOO_LARGE, f"the body exceeds the limit of {config.max_body_bytes} bytes"
    )

"""Decompresses the bodies of requests, never to more than a limit. Pure; any thread, any process.

The encodings are those of RFC 9110: https://www.rfc-editor.org/rfc/rfc9110#name-content-codings
"""

import zlib
from typing import Any

from api.transport.errors import ApiError, ErrorKind
from engine import counted

# ``zlib``'s window sizes, which also select the format.
_GZIP, _ZLIB, _BARE = 16 + zlib.MAX_WBITS, zlib.MAX_WBITS, -zlib.MAX_WBITS
_UNPACKED = frozenset({"", "identity"})
_READ_HERE = frozenset({"gzip", "x-gzip", "deflate"})
_PIECE_BYTES = 1 << 16


def encoding_of(content_encoding: str) -> str | None:
    """Return how a body is compressed; None if it is not."""
    packings = [
        one
        for part in content_encoding.split(",")
        if (one := part.strip().lower()) not in _UNPACKED
    ]
    if not packings:
        return None
    if len(packings) == 1 and packings[0] in _READ_HERE:
        return packings[0]
    what = "more than one content-encoding" if len(packings) > 1 else "this content-encoding"
    raise ApiError(
        ErrorKind.UNSUPPORTED_ENCODING,
        f"{what} is not supported; send the body as it is, or as gzip or deflate",
    )


def unpacked(packed: bytes, encoding: str, most_bytes: int) -> bytes:
    """Return a body, decompressed.

    Args:
        packed: The body as it was sent; not empty.
        encoding: What ``encoding_of`` returned.
        most_bytes: The limit.

    Raises:
        ApiError: It is larger than the limit once decompressed, or damaged.
    """
    try:
        # Decompress twice: the first pass only measures. A refused body then takes no memory, and
        # any other exactly its own size.
        window = _window(packed, encoding)
        size = _size_unpacked(packed, zlib.decompressobj(window), encoding, most_bytes)
        return zlib.decompress(packed, window, max(size, 1))
    except zlib.error:
        raise _damaged(encoding, "the content-encoding names it, but the bytes are not") from None


def beginning(packed: bytes, encoding: str, most_bytes: int) -> bytes:
    """Return the beginning of a body, decompressed; empty if the body is damaged there."""
    if not packed:
        return b""
    try:
        return zlib.decompressobj(_window(packed, encoding)).decompress(packed, most_bytes)
    except zlib.error:
        return b""


def too_large(most_bytes: int) -> ApiError:
    """Return the error for a body beyond the limit."""
    return ApiError(
        ErrorKind.TOO_LARGE, f"the body exceeds the limit of {counted(most_bytes, 'byte')}"
    )


def _window(packed: bytes, encoding: str) -> int:
    return _GZIP if encoding != "deflate" else _ZLIB if packed[0] & 0xF == 8 else _BARE


def _size_unpacked(packed: bytes, unpacking: Any, encoding: str, most_bytes: int) -> int:
    size = 0
    for start in range(0, len(packed), _PIECE_BYTES):
        piece = packed[start : start + _PIECE_BYTES]
        while not unpacking.eof:
            count = len(unpacking.decompress(piece, _PIECE_BYTES))
            size += count
            if size > most_bytes:
                raise too_large(most_bytes)
            piece = unpacking.unconsumed_tail
            if not piece and count < _PIECE_BYTES:
                break
        if unpacking.eof:
            if unpacking.unused_data or start + _PIECE_BYTES < len(packed):
                raise _damaged(encoding, "there is data after its end")
            return size
    raise _damaged(encoding, "it ends too early")


def _damaged(encoding: str, why: str) -> ApiError:
    return ApiError(
        ErrorKind.INVALID_REQUEST, f"the body cannot be decompressed as {encoding}: {why}"
    )

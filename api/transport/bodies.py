"""The bodies of requests: as sent, within limits, and decompressed within limits.

Runs on the server's loop, unless a part says otherwise.
"""

import asyncio
import zlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from api.transport.errors import ApiError, ErrorKind
from engine import counted

# Decompresses the bodies of requests, never to more than a limit.
#
# The encodings are those of RFC 9110: https://www.rfc-editor.org/rfc/rfc9110#name-content-codings

# ``zlib``'s window sizes, which also select the format.
_GZIP, _ZLIB, _BARE = 16 + zlib.MAX_WBITS, zlib.MAX_WBITS, -zlib.MAX_WBITS
_UNPACKED = frozenset({"", "identity"})
_READ_HERE = frozenset({"gzip", "x-gzip", "deflate"})
_PIECE_BYTES = 1 << 16


def encoding_of(content_encoding: str) -> str | None:
    """Return how a body is compressed; None if it is not."""
    packings = [
        packing
        for part in content_encoding.split(",")
        if (packing := part.strip().lower()) not in _UNPACKED
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


def unpacked(packed: bytes, encoding: str, max_bytes: int) -> bytes:
    """Return a body, decompressed.

    Args:
        packed: The body as it was sent; not empty.
        encoding: What ``encoding_of`` returned.
        max_bytes: The limit.

    Raises:
        ApiError: It is larger than the limit once decompressed, or damaged.
    """
    try:
        # Decompress twice: the first pass only measures. A refused body then takes no memory, and
        # any other exactly its own size.
        window = _window(packed, encoding)
        size = _size_unpacked(packed, zlib.decompressobj(window), encoding, max_bytes)
        return zlib.decompress(packed, window, max(size, 1))
    except zlib.error:
        raise _damaged(encoding, "the content-encoding names it, but the bytes are not") from None


def beginning(packed: bytes, encoding: str, max_bytes: int) -> bytes:
    """Return the beginning of a body, decompressed; empty if the body is damaged there."""
    if not packed:
        return b""
    try:
        return zlib.decompressobj(_window(packed, encoding)).decompress(packed, max_bytes)
    except zlib.error:
        return b""


def too_large(max_bytes: int) -> ApiError:
    """Return the error for a body beyond the limit."""
    return ApiError(
        ErrorKind.TOO_LARGE, f"the body exceeds the limit of {counted(max_bytes, 'byte')}"
    )


def _window(packed: bytes, encoding: str) -> int:
    return _GZIP if encoding != "deflate" else _ZLIB if packed[0] & 0xF == 8 else _BARE


def _size_unpacked(packed: bytes, unpacking: Any, encoding: str, max_bytes: int) -> int:
    size = 0
    for start in range(0, len(packed), _PIECE_BYTES):
        piece = packed[start : start + _PIECE_BYTES]
        while not unpacking.eof:
            count = len(unpacking.decompress(piece, _PIECE_BYTES))
            size += count
            if size > max_bytes:
                raise too_large(max_bytes)
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


# Receives the bodies of requests, within limits of time and size.
#
# A body stays as it was sent, in parts and perhaps compressed, until its handler reads it.
# aiohttp would join, decompress and keep it on the server's loop, which would stall every stream.

# Larger bodies are read on a thread: reading one on the loop would delay streams by more than some
# 10 ms. A body of many short values takes as long as a larger one of few.
# (Commas and brackets in texts are counted as well.)
IN_PLACE_BYTES = 1 << 20
_IN_PLACE_VALUES = 20_000
_VALUE_MARKS = (b",", b"{", b"[")
FREE_BYTES = 64 * 1024
_PART_BYTES = 256 * 1024


class BodyRoom:
    """Limits the bytes of all bodies in memory, in total and for each client."""

    def __init__(self, max_bytes: int, max_of_client: int = 0) -> None:
        self._most = max_bytes
        self._max_of_client = max(max_bytes // 2, max_of_client)
        self._total = 0
        self._of: Counter[str] = Counter()

    def take(self, client: str, size: int) -> None:
        """Count bytes that are now in memory."""
        if self._total + size > self._most or self._of[client] + size > self._max_of_client:
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
        max_bytes: Its largest permitted size once decompressed.
        turn: Held while a large body is read: values take many times the size of their JSON.
        size_bytes: Its size; for a compressed body the decompressed size, once it is known.
        on_drop: Called when its bytes are freed.
    """

    encoding: str | None = None
    max_bytes: int = 0
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    size_bytes: int = 0
    on_drop: Callable[[], None] = lambda: None
    _parts: list[bytearray] = field(default_factory=list)

    @property
    def is_large(self) -> bool:
        """Whether reading it takes long enough to delay others, or may do so once decompressed."""
        return (
            self.encoding is not None
            or self.size_bytes > IN_PLACE_BYTES
            or sum(part.count(mark) for part in self._parts for mark in _VALUE_MARKS)
            > _IN_PLACE_VALUES
        )

    def add(self, data: bytes) -> None:
        """Add the next bytes; small pieces are joined, so that few are kept."""
        if not self._parts or len(self._parts[-1]) + len(data) > _PART_BYTES:
            self._parts.append(bytearray())
        self._parts[-1] += data
        self.size_bytes += len(data)

    def take(self) -> bytes:
        """Return the whole body, decompressed, and keep no bytes of it. Any thread.

        Raises:
            ApiError: It cannot be decompressed, or is too large then.
        """
        raw = b"".join(self._parts)
        self._parts.clear()
        if self.encoding is not None and raw:
            raw = unpacked(raw, self.encoding, self.max_bytes)
            self.size_bytes = len(raw)
        return raw

    def beginning(self, max_bytes: int) -> bytes:
        """Return the beginning of the body, decompressed."""
        first = b""
        for part in self._parts:
            first += part[: max_bytes - len(first)]
            if len(first) == max_bytes:
                break
        return first if self.encoding is None else beginning(first, self.encoding, max_bytes)

    def drop(self) -> None:
        """Free the body: it has been read, or nobody will read it."""
        self._parts.clear()
        self.on_drop()

"""The bodies of requests: as sent, decompressed within limits, parsed in a helper process.

Runs on the server's loop, unless a part says otherwise.
"""

import asyncio
import heapq
import itertools
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

from api.transport.errors import ApiError, ErrorKind
from engine import ModelInfo, counted
from engine.processes import (
    HelperClosed,
    HelperDied,
    HelperNotStarted,
    HelperProcess,
)

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


# Has large request bodies parsed in a helper process, one after the other.
#
# Parsing megabytes of JSON blocks every thread of a process, and malformed bodies can take many
# times their size in memory. If memory runs out, only the helper process ends. It returns a small
# error or a request that this server can answer.

_MAX_WAITING = 64
_PATIENCE_S = 60.0
# After this long without a large body, the process is ended to free its memory.
_REST_AFTER_S = 300.0

# Memory that the process may keep, because Python seldom returns all that a large body took. A new
# process takes less than half of it.
_MAX_KEPT_BYTES = 128 << 20

_T = TypeVar("_T")


class LargeBodies:
    """The helper process of one server, started by the first large body.

    Args:
        module: The name of the module that it runs.
        patience_s: How long parsing one body may take.

    Attributes:
        process: The helper process.
        small_turn: A lock, held while a smaller body is read on the server's loop.
    """

    def __init__(self, module: str, patience_s: float = _PATIENCE_S) -> None:
        self.process = HelperProcess(module)
        self.small_turn = asyncio.Lock()
        self._patience_s = patience_s
        self._thread: ThreadPoolExecutor | None = None
        # Smaller bodies first: the clients with the largest ones wait longest.
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._numbers = itertools.count()
        self._is_busy = False
        self._rest: asyncio.TimerHandle | None = None

    async def read(
        self,
        question: bytes,
        size: int,
        parts: Iterable[bytes | bytearray],
        understand: Callable[[bytes], _T],
    ) -> _T:
        """Have a body parsed in the helper process; return the parsed answer.

        Args:
            question: What the process does with the body, as one line.
            size: The size of the body in bytes.
            parts: The body in parts; each part is freed once it has been sent.
            understand: Parses the process's answer, on a thread other than the loop's.

        Raises:
            ApiError: The process gave no answer, or ``understand`` raised the error.
        """
        await self._turn(size)
        try:
            loop = asyncio.get_running_loop()
            if self._thread is None:
                self._thread = ThreadPoolExecutor(1, "fullstop-bodies")
            return await loop.run_in_executor(
                self._thread, self._asked, question, size, parts, understand
            )
        finally:
            self._next()

    def close(self) -> None:
        """End the process, whatever it is doing."""
        if self._rest is not None:
            self._rest.cancel()
        self.process.close()
        if self._thread is not None:
            self._thread.submit(self.process.forget)
            self._thread.shutdown(wait=False)

    async def _turn(self, size: int) -> None:
        """Wait until no smaller body is waiting, and no body is being read."""
        if self._rest is not None:
            self._rest.cancel()
        if not self._is_busy:
            self._is_busy = True
            return
        if len(self._waiting) >= _MAX_WAITING:
            raise ApiError(
                ErrorKind.RATE_LIMITED,
                "too many large requests are waiting to be read; try again",
                retry_after_s=2.0,
            )
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        place = (size, next(self._numbers), turn)
        heapq.heappush(self._waiting, place)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._next()  # its turn came as its client disconnected
            elif place in self._waiting:
                self._waiting.remove(place)
                heapq.heapify(self._waiting)
            raise

    def _next(self) -> None:
        while self._waiting:
            _, _, turn = heapq.heappop(self._waiting)
            if not turn.done():
                turn.set_result(None)
                return
        self._is_busy = False
        loop = asyncio.get_running_loop()
        self._rest = loop.call_later(_REST_AFTER_S, self._end_process)

    def _end_process(self) -> None:
        if self._thread is not None:
            self._thread.submit(self.process.rest)

    def _asked(
        self,
        question: bytes,
        size: int,
        parts: Iterable[bytes | bytearray],
        understand: Callable[[bytes], _T],
    ) -> _T:
        """Ask the process. On the helper's thread."""
        head = question + b"\n"
        try:
            self.process.start()
            answer = self.process.ask(
                len(head) + size, itertools.chain((head,), parts), self._patience_s
            )
        except HelperDied as death:
            raise _failure(death, self._patience_s) from None
        except HelperNotStarted as error:
            raise _unavailable(f"the process that reads them does not start ({error})") from None
        except HelperClosed:
            raise ApiError(ErrorKind.UNAVAILABLE, "the server is shutting down") from None
        try:
            return understand(answer)
        finally:
            if self.process.memory_bytes > _MAX_KEPT_BYTES:
                self.process.rest()  # the next body gets a fresh process


def _failure(death: HelperDied, patience_s: float) -> ApiError:
    """Return the error for a body that ended the process."""
    if death.took_too_much_time:
        reason = "the body takes too long to read; send a smaller one, and prompts as text"
        return ApiError(ErrorKind.TOO_LARGE, reason)
    if death.code is None:
        return _unavailable(f"this one was not read within {patience_s:.0f} s")
    return _unavailable(f"the process that reads them ended ({death.signal_name or death.code})")


def _unavailable(why: str) -> ApiError:
    return ApiError(
        ErrorKind.UNAVAILABLE,
        f"large requests cannot be read at the moment: {why}; try again",
        retry_after_s=1.0,
    )


# Receives the bodies of requests, within limits of time and size.
#
# A body stays as it was sent, in parts and perhaps compressed, until its handler reads it.
# aiohttp would join, decompress and keep it on the server's loop, which would stall every stream.

# Limits of what is read in this process, on the loop. Larger bodies, and those with more values,
# take long enough to delay others. (Commas and brackets in texts are counted as well.)
SMALL_BYTES = 128 * 1024
_SMALL_VALUES = 4_000
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
        helper: Reads it if it is large.
        model: The loaded model; None if no model is loaded.
        small: The whole body, decompressed, if it is small; None if it is large.
        is_large: Whether the helper must read it once the whole body has arrived.
        size_bytes: Its size; for a compressed body the decompressed size, once it is known.
        on_drop: Called when its bytes are freed.
    """

    encoding: str | None
    max_bytes: int
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
                sent = unpacked(sent, self.encoding, min(SMALL_BYTES, self.max_bytes))
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

    def beginning(self, max_bytes: int) -> bytes:
        """Return the beginning of the body, decompressed."""
        if self.small is not None:
            return self.small[:max_bytes]
        first = b""
        for part in self._parts:
            first += part[: max_bytes - len(first)]
            if len(first) == max_bytes:
                break
        return first if self.encoding is None else beginning(first, self.encoding, max_bytes)

    def drop(self) -> None:
        """Free the body: it has been read, or nobody will read it."""
        self._parts.clear()
        self.small = None
        self.on_drop()


def _used_up(parts: list[bytearray]) -> Iterator[bytearray]:
    parts.reverse()
    while parts:
        yield parts.pop()

"""Has large request bodies parsed in a helper process, one after the other.

Parsing megabytes of JSON blocks every thread of a process, and malformed bodies can take many times
their size in memory. If memory runs out, only the helper process ends. It returns a small error or
a request that this server can answer. Runs on the server's loop.
"""

import asyncio
import heapq
import itertools
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from api.transport.errors import ApiError, ErrorKind
from engine.processes.helper_process import (
    HelperClosed,
    HelperDied,
    HelperNotStarted,
    HelperProcess,
)

_MOST_WAITING = 64
_PATIENCE_S = 60.0
# After this long without a large body, the process is ended to free its memory.
_REST_AFTER_S = 300.0

# Memory that the process may keep, because Python seldom returns all that a large body took. A new
# process takes less than half of it.
_MOST_KEPT_BYTES = 128 << 20

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
        if len(self._waiting) >= _MOST_WAITING:
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
            if self.process.memory_bytes > _MOST_KEPT_BYTES:
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

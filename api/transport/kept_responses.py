"""Answers that are kept for a while, so that a later request can go on from them.

In memory only, bounded in bytes and in time; the one that was used least lately goes first. Knows
no vendor. Any thread.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class KeptResponse:
    """An answer with what it answered, as JSON.

    Attributes:
        id: Its id.
        previous: The id of the answer that it goes on from; empty for none.
        sent: The items that were sent for it, those of earlier answers left out.
        sent_ids: Their ids.
        answer: The whole answer.
        output_ids: The ids of its items.
    """

    id: str
    previous: str
    sent: tuple[str, ...]
    sent_ids: tuple[str, ...]
    answer: str
    output_ids: tuple[str, ...]

    @property
    def size_bytes(self) -> int:
        """About what it takes in memory: a text takes at most four bytes a character."""
        texts = (self.answer, *self.sent)
        return sum(len(text) * (1 if text.isascii() else 4) for text in texts) + 1_024

    @property
    def item_ids(self) -> Iterator[str]:
        """The ids of all its items."""
        yield from self.sent_ids
        yield from self.output_ids


class KeptResponses:
    """The answers of one server that are kept.

    Args:
        most_bytes: Memory for all of them; 0 keeps none.
        most_s: How long each is kept after it was last used.
        clock: Seconds that never go back.
    """

    def __init__(
        self, most_bytes: int, most_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._most_bytes = most_bytes
        self._most_s = most_s
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, KeptResponse] = OrderedDict()
        self._used_s: dict[str, float] = {}
        self._response_of_item: dict[str, str] = {}
        self._bytes = 0

    @property
    def is_on(self) -> bool:
        """Whether any are kept."""
        return self._most_bytes > 0

    @property
    def size_bytes(self) -> int:
        """About what all of them take in memory."""
        return self._bytes

    def keep(self, response: KeptResponse) -> None:
        """Keep an answer; others go where there is no room."""
        with self._lock:
            self._forget(response.id)
            self._kept[response.id] = response
            self._used_s[response.id] = self._clock()
            self._bytes += response.size_bytes
            for item_id in response.item_ids:
                self._response_of_item[item_id] = response.id
            self._tidy()

    def get(self, response_id: str) -> KeptResponse | None:
        """Return an answer, None where it is not kept (any more)."""
        with self._lock:
            self._tidy()
            return self._found(response_id)

    def of_item(self, item_id: str) -> KeptResponse | None:
        """Return the answer to which an item belongs, None where it is not kept."""
        with self._lock:
            self._tidy()
            return self._found(self._response_of_item.get(item_id, ""))

    def chain(self, response_id: str) -> Sequence[KeptResponse] | None:
        """Return an answer and all before it, the first one first; None where one is missing."""
        found: list[KeptResponse] = []
        with self._lock:
            self._tidy()
            while response_id:
                response = self._found(response_id)
                if response is None:
                    return None
                found.append(response)
                response_id = response.previous
        return found[::-1]

    def forget(self, response_id: str) -> bool:
        """Delete an answer; returns whether it was there."""
        with self._lock:
            return self._forget(response_id)

    def _found(self, response_id: str) -> KeptResponse | None:
        found = self._kept.get(response_id)
        if found is not None:
            self._kept.move_to_end(response_id)
            self._used_s[response_id] = self._clock()
        return found

    def _tidy(self) -> None:
        oldest_s = self._clock() - self._most_s
        while self._kept:
            first = next(iter(self._kept))
            if self._bytes <= self._most_bytes and self._used_s[first] >= oldest_s:
                return
            self._forget(first)

    def _forget(self, response_id: str) -> bool:
        response = self._kept.pop(response_id, None)
        if response is None:
            return False
        del self._used_s[response_id]
        self._bytes -= response.size_bytes
        for item_id in response.item_ids:
            if self._response_of_item.get(item_id) == response_id:
                del self._response_of_item[item_id]
        return True

"""Keeps answers in memory for a while, so that later requests can continue them.

The least recently used answer is dropped first. Knows no vendor. Any thread.
"""

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StoredResponse:
    """An answer with its input, as JSON.

    Attributes:
        sent: The items of its request, without those of earlier answers.
        owner: The id of its client; nobody else can read, continue or delete it.
    """

    id: str
    previous: str
    sent: tuple[str, ...]
    sent_ids: tuple[str, ...]
    answer: str
    output_ids: tuple[str, ...]
    owner: str

    @property
    def size_bytes(self) -> int:
        texts = (*self.sent, *self.sent_ids, self.answer, *self.output_ids)
        return sum(len(text.encode("utf-8", "surrogatepass")) for text in texts)


class ResponseStore:
    """The stored answers of one server; a space of 0 bytes stores none."""

    def __init__(self, max_bytes: int, max_s: float) -> None:
        self._max_bytes = max_bytes
        self._max_s = max_s
        self._lock = threading.Lock()
        # By id, the least recently used first, each with the time of its last use.
        self._responses: OrderedDict[str, tuple[StoredResponse, float]] = OrderedDict()
        self._of_items: dict[str, str] = {}
        self._size_bytes = 0

    @property
    def is_on(self) -> bool:
        return self._max_bytes > 0

    def put(self, response: StoredResponse) -> None:
        """Store an answer, unless it is larger than all the space; evict others if that is full."""
        size_bytes = response.size_bytes
        if size_bytes > self._max_bytes:
            _log.warning("response %s is not stored: it is larger than all the space", response.id)
            return
        with self._lock:
            self._responses[response.id] = response, time.monotonic()
            self._size_bytes += size_bytes
            for item_id in (*response.sent_ids, *response.output_ids):
                self._of_items[item_id] = response.id
            while self._size_bytes > self._max_bytes:
                self._remove(next(iter(self._responses)))

    def get(self, owner: str, response_id: str) -> StoredResponse | None:
        """Return an owner's answer, or None if there is none (any more)."""
        with self._lock:
            return self._get(owner, response_id)

    def of_item(self, owner: str, item_id: str) -> StoredResponse | None:
        """Return the owner's answer that an item belongs to, or None if there is none."""
        with self._lock:
            return self._get(owner, self._of_items.get(item_id, ""))

    def chain(self, owner: str, response_id: str) -> Sequence[StoredResponse] | None:
        """Return an answer and all that it continues, oldest first; None if one is missing."""
        responses: list[StoredResponse] = []
        with self._lock:
            while response_id:
                response = self._get(owner, response_id)
                if response is None:
                    return None
                responses.append(response)
                response_id = response.previous
        return responses[::-1]

    def delete(self, response_id: str) -> None:
        with self._lock:
            self._remove(response_id)

    def _get(self, owner: str, response_id: str) -> StoredResponse | None:
        """Return an owner's answer, and make it the most recently used one."""
        now_s = time.monotonic()
        while self._responses and next(iter(self._responses.values()))[1] < now_s - self._max_s:
            self._remove(next(iter(self._responses)))
        response, _ = self._responses.get(response_id, (None, 0.0))
        if response is None or response.owner != owner:
            return None
        self._responses[response_id] = response, now_s
        self._responses.move_to_end(response_id)
        return response

    def _remove(self, response_id: str) -> None:
        response, _ = self._responses.pop(response_id, (None, 0.0))
        if response is not None:
            self._size_bytes -= response.size_bytes
            for item_id in (*response.sent_ids, *response.output_ids):
                self._of_items.pop(item_id, None)

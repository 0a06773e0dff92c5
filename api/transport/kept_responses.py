"""Keeps answers for a while, so that later requests can continue them.

They are limited in bytes and in time; the least recently used answer is dropped first. They are in
memory and, if a folder is given, also on disk, within the same limits. Knows no vendor. Any thread.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence

from api.transport.response_folder import KeptResponse, ResponseFolder


class KeptResponses:
    """The kept answers of one server.

    Args:
        most_bytes: Memory for all of them; 0 keeps none.
        most_s: How long each is kept after it was last used.
        clock: Returns seconds that never go back.
        folder: Where they are also kept on disk; answers already there are read again.
    """

    def __init__(
        self,
        most_bytes: int,
        most_s: float,
        clock: Callable[[], float] = time.monotonic,
        folder: ResponseFolder | None = None,
    ) -> None:
        self._most_bytes = most_bytes
        self._most_s = most_s
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, KeptResponse] = OrderedDict()
        self._used_s: dict[str, float] = {}
        self._response_of_item: dict[str, str] = {}
        self._bytes = 0
        self._folder = folder
        for unused_s, response in [] if folder is None else folder.read(most_s):
            self._add(response, self._clock() - unused_s)
        self._tidy()

    @property
    def is_on(self) -> bool:
        """Whether answers are kept at all."""
        return self._most_bytes > 0

    @property
    def size_bytes(self) -> int:
        """About how much memory all of them take."""
        return self._bytes

    def keep(self, response: KeptResponse) -> None:
        """Keep an answer; drop others if there is no room."""
        with self._lock:
            self._forget(response.id)
            self._add(response, self._clock())
            if self._folder is not None:
                self._folder.keep(response)
            self._tidy()

    def get(self, owner: str, response_id: str) -> KeptResponse | None:
        """Return an owner's answer, or None if there is none (any more)."""
        with self._lock:
            self._tidy()
            return self._found(owner, response_id)

    def of_item(self, owner: str, item_id: str) -> KeptResponse | None:
        """Return the owner's answer that an item belongs to, or None if there is none."""
        with self._lock:
            self._tidy()
            return self._found(owner, self._response_of_item.get(item_id, ""))

    def chain(self, owner: str, response_id: str) -> Sequence[KeptResponse] | None:
        """Return an answer and all that it continues, oldest first; None if one is missing."""
        found: dict[str, KeptResponse] = {}
        with self._lock:
            self._tidy()
            while response_id:
                response = self._found(owner, response_id)
                # Edited files could refer to one another in a circle.
                if response is None or response_id in found:
                    return None
                found[response_id] = response
                response_id = response.previous
        return list(found.values())[::-1]

    def forget(self, response_id: str) -> bool:
        """Delete an answer; returns whether it was there."""
        with self._lock:
            return self._forget(response_id)

    def close(self) -> None:
        """Wait until every answer that should be on disk is there."""
        if self._folder is not None:
            self._folder.close()

    def _add(self, response: KeptResponse, used_s: float) -> None:
        self._kept[response.id] = response
        self._used_s[response.id] = used_s
        self._bytes += response.size_bytes
        for item_id in (*response.sent_ids, *response.output_ids):
            self._response_of_item[item_id] = response.id

    def _found(self, owner: str, response_id: str) -> KeptResponse | None:
        found = self._kept.get(response_id)
        if found is not None and found.owner != owner:
            return None
        if found is not None:
            self._kept.move_to_end(response_id)
            self._used_s[response_id] = self._clock()
            if self._folder is not None:
                self._folder.touch(response_id)
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
        if self._folder is not None:
            self._folder.forget(response_id)
        for item_id in (*response.sent_ids, *response.output_ids):
            if self._response_of_item.get(item_id) == response_id:
                del self._response_of_item[item_id]
        return True

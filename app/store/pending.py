"""The changes that are not in the file yet, kept in order.

A change that fails for an external reason (the disk is full, the file is locked or read-only)
stays, with all later changes. Put from the main thread, written on the store's thread.
"""

import logging
import sqlite3
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from app.store.writing import transaction

_log = logging.getLogger(__name__)

Key = tuple[str, str]
# Errors of a change itself, which would also fail on an empty disk.
_FAULTS = (sqlite3.IntegrityError, sqlite3.DataError, OverflowError, TypeError, ValueError)


@dataclass(frozen=True, eq=False, slots=True)
class Write:
    """One change."""

    key: Key
    conversation_id: str
    work: Callable[[sqlite3.Connection], None]
    has_words: bool = True


class PendingWrites:
    """Changes in the order in which their keys were first added."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._writes: dict[Key, Write] = {}
        # Conversations with a change that can never be written.
        self._spoiled: set[str] = set()

    def __len__(self) -> int:
        """Return the number of changes that are not in the file yet."""
        with self._lock:
            return len(self._writes)

    @property
    def has_words(self) -> bool:
        """Whether text that a person wrote is not in the file yet."""
        with self._lock:
            return any(write.has_words for write in self._writes.values())

    def put(self, write: Write) -> None:
        """Add a change.

        A waiting change with the same key is replaced at its position, so that a question stays
        before its answer, and a conversation before both.
        """
        with self._lock:
            self._writes[write.key] = write

    def concern(self, conversation_id: str) -> bool:
        """Return whether a change of a conversation is not in the file yet."""
        with self._lock:
            if conversation_id in self._spoiled:
                return True
            waiting = self._writes.values()
            return any(write.conversation_id == conversation_id for write in waiting)

    def carry_out(self, connection: sqlite3.Connection) -> int:
        """Write all changes, including those added meanwhile; return how many were unusable.

        Store thread.
        """
        unusable = 0
        while batch := self._waiting():
            try:
                self._write(connection, batch)
            except _FAULTS:
                # One change is invalid; the others must still be written.
                unusable += self._write_one_by_one(connection, batch)
        return unusable

    def _waiting(self) -> list[Write]:
        with self._lock:
            return list(self._writes.values())

    def _write(self, connection: sqlite3.Connection, batch: Iterable[Write]) -> None:
        with transaction(connection):
            for write in batch:
                write.work(connection)
        self._remove(batch)

    def _write_one_by_one(self, connection: sqlite3.Connection, batch: Iterable[Write]) -> int:
        unusable = 0
        for write in batch:
            try:
                self._write(connection, [write])
            except _FAULTS as error:
                _log.error("a change of %s cannot be saved", write.key[0], exc_info=error)
                self._remove([write])
                with self._lock:
                    self._spoiled.add(write.conversation_id)
                unusable += 1
        return unusable

    def _remove(self, written: Iterable[Write]) -> None:
        """Remove changes, except those that a newer one has replaced meanwhile."""
        with self._lock:
            for write in written:
                if self._writes.get(write.key) is write:
                    del self._writes[write.key]

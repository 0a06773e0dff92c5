"""Writes changes to the database in their order, and retries failed ones."""

import asyncio
import logging
import sqlite3
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from app.store import statements
from app.store.database import Database, describe_error, is_damage
from app.store.statements import transaction

_RETRY_INTERVAL_S = 2.0
# Permanent errors (bad data), as opposed to disk or lock errors.
_BAD_DATA = (
    *(sqlite3.IntegrityError, sqlite3.DataError, sqlite3.ProgrammingError),
    *(OverflowError, TypeError, ValueError),
)
_log = logging.getLogger(__name__)

Key = tuple[str, str]


@dataclass(frozen=True, eq=False, slots=True)
class Write:
    """One change; a later one with the same key replaces it."""

    key: Key
    conversation_id: str
    statement: str
    values: tuple[Any, ...]
    has_text: bool = True


class Writer:
    """The changes that are not in the file yet.

    Idle: nothing is pending. Writing (``_is_flush_due``): the store's thread has a flush to do or
    under way, after which ``_note_outcome`` runs on the main thread, whatever happened, and begins
    another one if changes were added meanwhile. Failing (``failure``, ``_retry``): the last flush
    failed, as on a full disk, and all pending changes are tried again every two seconds. Bad data
    alone is dropped and reported; its conversation counts as not saved (``_failed``).

    Methods are called on the main thread, which never waits.
    ``on_outcome`` gets there the cause of a failure, empty for success, and whether a change could
    never be written.
    """

    def __init__(self, database: Database, on_outcome: Callable[[str, bool], None]) -> None:
        self.failure = ""
        self._database = database
        self._on_outcome = on_outcome
        self._lock = threading.Lock()
        self._pending: dict[Key, Write] = {}
        self._failed: set[str] = set()  # conversations with a change that can never be written
        self._is_flush_due = False
        self._has_new_failed = False
        self._is_search_rebuilt = False
        self._retry: asyncio.TimerHandle | None = None

    @property
    def has_text(self) -> bool:
        """Whether text of the user is not in the file yet."""
        with self._lock:
            return any(write.has_text for write in self._pending.values())

    def has_pending(self, conversation_id: str) -> bool:
        with self._lock:
            return conversation_id in self._failed or any(
                write.conversation_id == conversation_id for write in self._pending.values()
            )

    def put(self, write: Write) -> None:
        with self._lock:
            self._pending[write.key] = write
        if not self._is_flush_due:
            self.flush()

    def flush(self) -> Future[None]:
        """Write all pending changes; the future is done after the attempt."""
        self._is_flush_due = True
        return self._database.thread.submit(self._flush, asyncio.get_running_loop())

    def flush_before_read(self) -> None:
        """Write pending changes before the next read, unless writing fails."""
        if self._pending and not self.failure:
            self.flush()

    def close(self) -> None:
        if self._retry is not None:
            self._retry.cancel()
        if self._pending:
            _log.error("%d changes could not be saved before the end", len(self._pending))

    def _note_outcome(self, failure: Exception | None, has_bad: bool) -> None:
        self._is_flush_due = False
        cause = "" if failure is None else describe_error(failure)
        if cause != self.failure:
            _log.error("saving: %s", cause or "works again", exc_info=failure)
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
        if cause:
            self._retry = asyncio.get_running_loop().call_later(_RETRY_INTERVAL_S, self.flush)
        elif self._pending:
            self.flush()  # added during the last attempt
        is_change, self.failure = cause != self.failure, cause
        if is_change or has_bad:
            self._on_outcome(cause, has_bad)

    # -- on the store's thread -------------------------------------------------------------

    def _flush(self, loop: asyncio.AbstractEventLoop) -> None:
        failure: Exception | None = None
        if not self._database.is_open:
            return
        try:
            self._write_all()
        except Exception as error:  # whatever it is, the next flush must begin
            failure = error
        has_bad, self._has_new_failed = self._has_new_failed, False
        loop.call_soon_threadsafe(self._note_outcome, failure, has_bad)

    def _write_all(self) -> None:
        while True:
            with self._lock:
                batch = list(self._pending.values())
            if not batch:
                return
            try:
                self._write(batch)
            except _BAD_DATA:
                self._write_one_by_one(batch)
            except sqlite3.DatabaseError as error:
                if not is_damage(error) or self._is_search_rebuilt:
                    raise
                # If only the search index is damaged, it is rebuilt from the messages.
                _log.error("the search index is being rebuilt", exc_info=error)
                self._is_search_rebuilt = True
                statements.rebuild_search(self._database.connection)

    def _write(self, batch: Iterable[Write]) -> None:
        with transaction(self._database.connection) as connection:
            for write in batch:
                connection.execute(write.statement, write.values)
        self._remove(batch)

    def _write_one_by_one(self, batch: Iterable[Write]) -> None:
        for write in batch:
            try:
                self._write([write])
            except _BAD_DATA as error:
                _log.error("a change of %s cannot be saved", write.key[0], exc_info=error)
                self._remove([write])
                self._has_new_failed = True
                with self._lock:
                    self._failed.add(write.conversation_id)

    def _remove(self, written: Iterable[Write]) -> None:
        with self._lock:
            for write in written:
                if self._pending.get(write.key) is write:
                    del self._pending[write.key]

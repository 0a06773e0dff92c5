"""Writes changes to the file, and retries those that fail.

Methods are called on the main thread, which never waits; work on the file runs on the database's
own thread. Opening a file is retried in the same way.
"""

import asyncio
import logging
import sqlite3
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

from app.store import store_problems
from app.store.database import Database
from app.store.database_causes import store_cause
from app.store.pending import PendingWrites, Write
from ui.records.store import StoreProblem

_log = logging.getLogger(__name__)
# How long to wait for another program's lock: long at first, then briefly.
PATIENT_MS, _IMPATIENT_MS = 5_000, 250
_TRIED_AGAIN_AFTER_S = 2.0


class Saving:
    """Writes a store's changes to its file."""

    def __init__(
        self,
        path: Path,
        database: Database,
        loop: asyncio.AbstractEventLoop,
        on_opened: Callable[[], None],
    ) -> None:
        self.tell: Callable[[StoreProblem | None], None] | None = None
        self.pending = PendingWrites()
        self.failing_because = ""
        self.waits_because: StoreProblem | None = None
        self._path = path
        self._database = database
        self._loop = loop
        self._on_opened = on_opened
        self._is_write_due = False
        # Whether the file could not be opened yet, and is tried again (store thread).
        self._is_waiting = False
        # Whether the last attempt to write failed (store thread).
        self._is_failing = False
        self._again: asyncio.TimerHandle | None = None

    # -- the main thread's side ------------------------------------------------------------

    def put(self, write: Write) -> None:
        """Add a change, and start to write all pending changes."""
        self.pending.put(write)
        if not self._is_write_due:
            self.begin()

    def begin(self) -> Future[None]:
        """Write all pending changes; the future is done after the attempt."""
        self._is_write_due = True
        return self._database.submit(self._write)

    def write_what_was_put(self) -> None:
        """Have changes written before what is asked of the file next.

        One that is put while the main thread has not heard of the last attempt yet would
        otherwise be written only afterwards.
        """
        if len(self.pending) and not self.failing_because:
            self.begin()

    def open_later(self, cause: str) -> None:
        """Retry to open the file until it works; changes are pending meanwhile."""
        self._is_waiting = self._is_failing = True
        self.failing_because = cause
        self.waits_because = store_problems.not_yet_usable(self._path, cause)
        self._try_again()

    async def close(self) -> None:
        """Stop trying, and close the file."""
        if self._again is not None:
            self._again.cancel()
        if count := len(self.pending):
            _log.error("%d changes could not be saved before the end", count)
        await asyncio.wrap_future(self._database.submit(self._close))

    def _try_again(self) -> None:
        self._again = self._loop.call_later(_TRIED_AGAIN_AFTER_S, self.begin)

    def _note_opened(self) -> None:
        self.failing_because = ""
        self.waits_because = None
        if self.tell is not None:
            self.tell(self._database.problem)
        self._on_opened()

    def _note_outcome(self, failure: sqlite3.Error | OSError | None, unusable: int) -> None:
        """Tell the window when saving begins to fail, fails differently, or works again."""
        self._is_write_due = False
        cause = "" if failure is None else store_cause(failure)
        before, self.failing_because = self.failing_because, cause
        if cause != before:
            # Once, and not every two seconds.
            _log.error("saving: %s", cause or "works again", exc_info=failure)
        if self._again is not None:
            self._again.cancel()
            self._again = None
        if cause:
            self._try_again()
        elif len(self.pending):
            self.begin()  # added during the last attempt
        if self.tell is None:
            return
        if cause and cause != before:
            self.tell(store_problems.not_written(self._path, cause))
        elif before and not cause:
            self.tell(None)
        if unusable:
            self.tell(store_problems.refused(self._path))

    # -- the store's thread ----------------------------------------------------------------

    def _write(self) -> None:
        """Write pending changes, and report the result to the main thread."""
        # Decided now, not when this was queued: of several that wait for the same lock, only the
        # first waits long.
        patience_ms = _IMPATIENT_MS if self._is_failing else PATIENT_MS
        failure: sqlite3.Error | OSError | None = None
        unusable = 0
        try:
            if self._is_waiting:
                self._database.open(patience_ms)
                self._is_waiting = False
                self._loop.call_soon_threadsafe(self._note_opened)
            if not self._database.is_open:
                return  # closed
            unusable = self._database.write(self.pending, patience_ms)
        except (sqlite3.Error, OSError) as error:
            failure = error
        self._is_failing = failure is not None
        self._loop.call_soon_threadsafe(self._note_outcome, failure, unusable)

    def _close(self) -> None:
        self._is_waiting = False
        self._database.close()

"""Reads data for the window, and reports failures.

Methods are called on the main thread, which never waits; the file is read on the database's own
thread.
"""

import asyncio
import logging
import sqlite3
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from app.store.database import Database
from app.store.database_causes import store_cause

_log = logging.getLogger(__name__)
_T = TypeVar("_T")
_Otherwise = TypeVar("_Otherwise")


class StoreReads:
    """The reads of a store."""

    def __init__(
        self,
        database: Database,
        loop: asyncio.AbstractEventLoop,
        before_reading: Callable[[], None],
        on_failure: Callable[[str], None],
    ) -> None:
        self._database = database
        self._loop = loop
        self._before_reading = before_reading
        self._on_failure = on_failure

    async def read(
        self, work: Callable[[sqlite3.Connection], _T], otherwise: _Otherwise
    ) -> _T | _Otherwise:
        """Return the result of reading the file, or ``otherwise`` if it cannot be read."""
        try:
            return await asyncio.wrap_future(self.begin(work))
        except sqlite3.Error:
            return otherwise  # has been reported

    def begin(self, work: Callable[[sqlite3.Connection], _T]) -> Future[_T]:
        """Read on the database's thread; report and log a failure."""

        def run() -> _T:
            try:
                return self._database.read(work)
            except sqlite3.ProgrammingError:
                raise  # closed meanwhile
            except sqlite3.Error as error:
                _log.error("conversations could not be read", exc_info=error)
                self._loop.call_soon_threadsafe(self._on_failure, store_cause(error))
                raise

        self._before_reading()
        return self._database.submit(run)

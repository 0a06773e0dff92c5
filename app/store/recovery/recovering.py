"""Recovers what can be read of a damaged database while the sound one is used. Main thread."""

import asyncio
import logging
import sqlite3
from collections.abc import Callable
from pathlib import Path

from app.store.database import Database
from app.store.database_causes import store_cause
from app.store.recovery import bringing_over
from app.store.rows import FoundRows
from ui.records.store import Recovered

_log = logging.getLogger(__name__)


async def recover(
    path: Path,
    database: Database,
    advance: Callable[[int, int], None],
    is_cancelled: Callable[[], bool],
) -> Recovered:
    """Copy the readable rows of a damaged file, and read the sound file again."""
    loop = asyncio.get_running_loop()

    def take(found: FoundRows) -> tuple[int, int]:
        # Read on a separate thread, and written on the store's thread in small steps.
        return database.submit(database.take_over, found).result()

    def tell(done: int, total: int) -> None:
        loop.call_soon_threadsafe(advance, done, total)

    recovered, cause = (0, 0, 0), ""
    try:
        recovered = await asyncio.to_thread(
            bringing_over.bring_over, path, take, tell, is_cancelled
        )
    except (sqlite3.Error, OSError, ValueError) as error:
        _log.error("%s: not all could be recovered", path, exc_info=error)
        cause = "nothing in the file can be read"
        if isinstance(error, sqlite3.Error | OSError):
            cause = store_cause(error)
    await asyncio.wrap_future(database.submit(database.read_all))
    return Recovered(*recovered, cause)

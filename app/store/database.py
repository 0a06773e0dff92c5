"""The file of the store, and the only thread that uses it.

``submit`` accepts work from any thread; everything else runs on the database's own thread, in
order. Knows no window and no loop.
"""

import logging
import os
import sqlite3
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import ParamSpec, TypeVar

from app.store import opening, writing
from app.store.pending import PendingWrites
from app.store.rows import FoundRows
from app.store.trial import try_writing
from ui.records.codec import Preset
from ui.records.conversations import Conversation, ConversationFolder
from ui.records.store import StoreProblem

_log = logging.getLogger(__name__)
_T = TypeVar("_T")
_P = ParamSpec("_P")


class Database:
    """The connection to one file."""

    def __init__(self, path: Path) -> None:
        self.problem: StoreProblem | None = None
        self.conversations: list[Conversation] = []
        self.presets: list[Preset] = []
        self.folders: list[ConversationFolder] = []
        self._path = path
        self._thread = ThreadPoolExecutor(1, "fullstop-store")
        self._connection: sqlite3.Connection | None = None
        # Whether the search index was rebuilt, which is tried once.
        self._is_search_new = False

    def submit(self, work: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> Future[_T]:
        """Run work on the database's thread, after all earlier work."""
        return self._thread.submit(work, *args, **kwargs)

    def end_thread(self, *, waits: bool) -> None:
        """Accept no more work."""
        self._thread.shutdown(wait=waits)

    @property
    def is_open(self) -> bool:
        """Whether there is a connection."""
        return self._connection is not None

    def open(self, patience_ms: int) -> None:
        """Open the file, and read what the window shows first."""
        # The file counts as sound only after the window's first data has been read.
        self._connection, self.problem = opening.opened(
            self._path, self._prepare, patience_ms / 1000
        )

    def close(self) -> None:
        """Close the file, if it is open."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def read(self, work: Callable[[sqlite3.Connection], _T]) -> _T:
        """Return the result of reading the file."""
        return work(self._opened())

    def read_all(self) -> None:
        """Read all conversations and presets again."""
        self.conversations = writing.summaries(self._opened())
        self.presets = writing.presets(self._opened())
        self.folders = writing.folders(self._opened())

    def write(self, pending: PendingWrites, patience_ms: int) -> int:
        """Write pending changes; return how many were unusable."""
        connection = self._opened()
        connection.execute(f"PRAGMA busy_timeout = {patience_ms}")
        try:
            return pending.carry_out(connection)
        except sqlite3.DatabaseError as error:
            if not opening.is_damage(error) or self._is_search_new:
                raise
            # If only the search index is damaged, it is rebuilt from the messages.
            _log.error("the search index is being rebuilt", exc_info=error)
            self._is_search_new = True
            writing.rebuild_search(connection)
            return pending.carry_out(connection)

    def take_over(self, found: FoundRows) -> tuple[int, int]:
        """Write those rows of another file that are not here yet; return how many were new."""
        return writing.take_over(self._opened(), found)

    def delete_unused_pictures(self, folder: Path, before: float) -> None:
        """Delete the pictures that no message has any more."""
        # Messages that are recovered from another file may need them.
        others = self._path.parent.glob(f"{self._path.stem}.set-aside-*")
        try:
            kept = [one for one in os.scandir(folder) if one.is_file(follow_symlinks=False)]
            if not kept or any(others):
                return
            used = writing.picture_files(self._opened())
            for one in kept:
                if one.name not in used and one.stat(follow_symlinks=False).st_mtime < before:
                    os.unlink(one.path)
        except FileNotFoundError:
            pass
        except (OSError, sqlite3.Error) as error:
            _log.warning("pictures of deleted conversations stay for now", exc_info=error)

    def _opened(self) -> sqlite3.Connection:
        if self._connection is None:
            raise sqlite3.ProgrammingError("the store is not open")
        return self._connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        writing.recover(connection)
        try_writing(connection)
        self.conversations = writing.summaries(connection)
        self.presets = writing.presets(connection)
        self.folders = writing.folders(connection)
        # The window first shows the conversation that was used last.
        last = max(self.conversations, key=lambda c: c.updated_at, default=None)
        if last is not None and not last.is_loaded:
            last.fill(writing.messages(connection, last.id))

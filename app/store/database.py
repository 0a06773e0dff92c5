"""The file behind the store, and the one thread that touches it.

``submit`` hands over work from any thread; everything else runs on the database's own thread, in
order. Knows no window and no loop.
"""

import logging
import sqlite3
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import ParamSpec, TypeVar

from app.store import opening, writing
from app.store.pending import PendingWrites
from app.store.rows import FoundRows
from app.store.trial import try_writing
from ui.records.conversations import Conversation, ConversationFolder
from ui.records.presets import Preset
from ui.records.storing import StoreProblem

_log = logging.getLogger(__name__)
_T = TypeVar("_T")
_P = ParamSpec("_P")


class Database:
    """The connection to one file.

    Attributes:
        problem: What went wrong when the file was opened.
        conversations: All conversations as they were last read as a whole; the newest is loaded.
        presets: All presets as they were then.
        folders: All folders as they were then.
    """

    def __init__(self, path: Path) -> None:
        self.problem: StoreProblem | None = None
        self.conversations: list[Conversation] = []
        self.presets: list[Preset] = []
        self.folders: list[ConversationFolder] = []
        self._path = path
        self._thread = ThreadPoolExecutor(1, "fullstop-store")
        self._connection: sqlite3.Connection | None = None
        # Whether the index of words was made anew, which is tried once.
        self._is_search_new = False

    def submit(self, work: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> Future[_T]:
        """Let the database's thread do something, after all that it was given before.

        Args:
            work: What is called on the database's thread.
            args: Its positional arguments.
            kwargs: Its named arguments.
        """
        return self._thread.submit(work, *args, **kwargs)

    def end_thread(self, *, waits: bool) -> None:
        """Take no more work."""
        self._thread.shutdown(wait=waits)

    @property
    def is_open(self) -> bool:
        """Whether there is a connection."""
        return self._connection is not None

    def open(self, patience_ms: int) -> None:
        """Open the file, and read what the window shows first.

        Args:
            patience_ms: How long to wait for another program's lock, in milliseconds.

        Raises:
            sqlite3.Error: It cannot be opened now.
            OSError: The folder or the file cannot be written.
        """
        # What the window needs at once is read before the file counts as sound.
        self._connection, self.problem = opening.opened(
            self._path, self._prepare, patience_ms / 1000
        )

    def close(self) -> None:
        """Close the file, if it is open."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def read(self, work: Callable[[sqlite3.Connection], _T]) -> _T:
        """Return what some work finds in the file.

        Raises:
            sqlite3.Error: It cannot be read, or the file is not open.
        """
        return work(self._opened())

    def read_all(self) -> None:
        """Read all conversations and presets anew."""
        self.conversations = writing.summaries(self._opened())
        self.presets = writing.presets(self._opened())
        self.folders = writing.folders(self._opened())

    def write(self, pending: PendingWrites, patience_ms: int) -> int:
        """Write what is pending; returns how many changes were unusable.

        Args:
            pending: The changes.
            patience_ms: How long to wait for another program's lock, in milliseconds.

        Raises:
            sqlite3.Error: The file cannot be written now.
        """
        connection = self._opened()
        connection.execute(f"PRAGMA busy_timeout = {patience_ms}")
        try:
            return pending.carry_out(connection)
        except sqlite3.DatabaseError as error:
            if not opening.is_damage(error) or self._is_search_new:
                raise
            # Where only the index of words is damaged, the messages make a new one.
            _log.error("the index of words is made anew", exc_info=error)
            self._is_search_new = True
            writing.rebuild_search(connection)
            return pending.carry_out(connection)

    def take_over(self, found: FoundRows) -> tuple[int, int]:
        """Write rows of another file that are not here yet; returns how many were new."""
        return writing.take_over(self._opened(), found)

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
        # What was last worked on is what the window shows first.
        last = max(self.conversations, key=lambda c: c.updated_at, default=None)
        if last is not None and not last.is_loaded:
            last.fill(writing.messages(connection, last.id))

"""Stores answers in SQLite for a while, so that later requests can continue them.

The database is in memory or, if a folder is given, in a file that a restart of the server reads
again. The least recently used answer is dropped first (LRU). Knows no vendor. Any thread.
"""

import contextlib
import json
import logging
import os
import sqlite3
import stat
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from api.service.config import ConfigError
from engine.files.causes import os_cause
from engine.files.safe_files import make_folders

_log = logging.getLogger(__name__)

_FILE = "responses.sqlite3"
_SCHEMA = """
PRAGMA auto_vacuum = FULL;
PRAGMA secure_delete = ON;
PRAGMA locking_mode = EXCLUSIVE;
PRAGMA journal_mode = WAL;
PRAGMA synchronous = NORMAL;
CREATE TABLE IF NOT EXISTS responses (
    id TEXT PRIMARY KEY, owner TEXT, used_s REAL, size_bytes INTEGER, content BLOB
);
CREATE INDEX IF NOT EXISTS by_use ON responses (used_s);
CREATE TABLE IF NOT EXISTS items (id TEXT PRIMARY KEY, response TEXT) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS by_size ON responses (size_bytes);
CREATE INDEX IF NOT EXISTS by_response ON items (response);
CREATE TRIGGER IF NOT EXISTS delete_items AFTER DELETE ON responses BEGIN
    DELETE FROM items WHERE response = OLD.id;
END;
"""


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


class ResponseStore:
    """The stored answers of one server.

    Args:
        max_bytes: Space for all of them, in memory or in the file; 0 stores none.

    Raises:
        ConfigError: The folder cannot be used, or another server uses it.
    """

    def __init__(
        self,
        max_bytes: int,
        max_s: float,
        folder: Path | None = None,
    ) -> None:
        self._max_bytes = max_bytes
        self._max_s = max_s
        self._lock = threading.Lock()
        self._database = _connect(":memory:") if folder is None else _open(prepare_folder(folder))
        with self._transaction():
            self._evict()

    @property
    def is_on(self) -> bool:
        return self._max_bytes > 0

    def put(self, response: StoredResponse) -> None:
        """Store an answer, unless it is larger than all the space; evict others if that is full."""
        fields = [response.previous, response.sent, response.sent_ids, response.answer]
        text = json.dumps([*fields, response.output_ids], ensure_ascii=False)
        content = text.encode("utf-8", "surrogatepass")
        if len(content) > self._max_bytes:
            _log.warning("response %s is not stored: it is larger than all the space", response.id)
            return
        with self._transaction():
            self._database.execute(
                "INSERT INTO responses VALUES (?, ?, ?, ?, ?)",
                (response.id, response.owner, time.time(), len(content), content),
            )
            self._database.executemany(
                "INSERT OR REPLACE INTO items VALUES (?, ?)",
                [(item_id, response.id) for item_id in (*response.sent_ids, *response.output_ids)],
            )
            self._evict()

    def get(self, owner: str, response_id: str) -> StoredResponse | None:
        """Return an owner's answer, or None if there is none (any more)."""
        with self._lock:
            return self._get(owner, response_id)

    def of_item(self, owner: str, item_id: str) -> StoredResponse | None:
        """Return the owner's answer that an item belongs to, or None if there is none."""
        with self._lock:
            found = self._database.execute("SELECT response FROM items WHERE id = ?", (item_id,))
            row = found.fetchone()
            return None if row is None else self._get(owner, row[0])

    def chain(self, owner: str, response_id: str) -> Sequence[StoredResponse] | None:
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
        """Delete an answer; if the disk is full, it stays."""
        with self._transaction():
            self._database.execute("DELETE FROM responses WHERE id = ?", (response_id,))

    def close(self) -> None:
        with self._lock:
            self._database.close()

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        """Change everything or, if the disk is full, nothing."""
        with self._lock:
            try:
                with self._database:
                    yield
            except sqlite3.OperationalError as error:
                _log.warning("stored responses are not changed: %s", error)

    def _get(self, owner: str, response_id: str) -> StoredResponse | None:
        now_s = time.time()
        row = self._database.execute(
            "SELECT content FROM responses WHERE id = ? AND owner = ? AND used_s >= ?",
            (response_id, owner, now_s - self._max_s),
        ).fetchone()
        if row is None:
            return None
        with contextlib.suppress(sqlite3.OperationalError), self._database:  # a full disk is read
            self._database.execute(
                "UPDATE responses SET used_s = ? WHERE id = ?", (now_s, response_id)
            )
        text = row[0].decode("utf-8", "surrogatepass")
        previous, sent, sent_ids, answer, output_ids = json.loads(text)
        parts = tuple(sent), tuple(sent_ids), answer, tuple(output_ids)
        return StoredResponse(response_id, previous, *parts, owner)

    def _evict(self) -> None:
        self._database.execute(
            "DELETE FROM responses WHERE used_s < ?", (time.time() - self._max_s,)
        )
        while self._size_bytes() > self._max_bytes:
            oldest = "SELECT id FROM responses ORDER BY used_s LIMIT 1"
            self._database.execute(f"DELETE FROM responses WHERE id = ({oldest})")

    def _size_bytes(self) -> float:
        [(size_bytes,)] = self._database.execute("SELECT total(size_bytes) FROM responses")
        return float(size_bytes)


def prepare_folder(folder: Path) -> Path:
    """Create the folder for stored answers and check that it is writable.

    Raises:
        ConfigError: It cannot be created or written to.
    """
    folder = folder.expanduser()
    try:
        make_folders(folder)
        _tighten(folder, 0o700)
        if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
            raise PermissionError(0, "it is not writable")
    except OSError as error:
        reason = f"{folder} cannot be used: {os_cause(error)}"
        raise ConfigError("kept_responses_folder", reason) from error
    return folder


def _open(folder: Path) -> sqlite3.Connection:
    """Open the database of a folder; a damaged one is replaced by an empty one."""
    path = folder / _FILE
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        _tighten(path, 0o600)
        return _connect(path)
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode == sqlite3.SQLITE_BUSY:
            reason = f"{folder} is used by another server; give each a folder of its own"
        else:
            reason = f"{path} cannot be used: {error}"
        raise ConfigError("kept_responses_folder", reason) from error
    except OSError as error:
        reason = f"{path} cannot be used: {os_cause(error)}"
        raise ConfigError("kept_responses_folder", reason) from error
    except sqlite3.DatabaseError as error:
        _log.warning("%s is damaged (%s): its responses are lost", path, error)
        for name in (_FILE, f"{_FILE}-wal"):
            (folder / name).unlink(missing_ok=True)
        return _open(folder)


def _connect(path: Path | str) -> sqlite3.Connection:
    database = sqlite3.connect(path, timeout=0, check_same_thread=False)
    try:
        database.executescript(_SCHEMA)
        if (found := database.execute("PRAGMA quick_check(1)").fetchone()) != ("ok",):
            raise sqlite3.DatabaseError(found[0])
    except BaseException:
        database.close()
        raise
    return database


def _tighten(path: Path, allowed: int) -> None:
    """Make a file or folder private, unless it is shared with other users."""
    with contextlib.suppress(OSError):
        mode = stat.S_IMODE(path.stat().st_mode)
        if mode & ~allowed and not mode & stat.S_ISVTX and path != Path.home():
            path.chmod(mode & allowed)

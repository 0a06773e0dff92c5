"""Opens the database; one that can not be used is set aside under another name, never overwritten.

Knows no conversations. Store thread.
"""

import contextlib
import logging
import sqlite3
import time
from pathlib import Path

from app.private import made_private, touch_private
from app.store import schema
from ui.viewmodels.storing import StoreProblem

_log = logging.getLogger(__name__)
# SQLite keeps the newest writes and its shared memory in files beside the database.
_COMPANIONS = ("", "-wal", "-shm")


class UnusableDatabase(Exception):
    """The file is there but can not be used; says why, for a person."""


def opened(path: Path, patience_s: float = 5.0) -> tuple[sqlite3.Connection, StoreProblem | None]:
    """Open the database, made if there is none; returns what a person must know, if anything.

    Args:
        path: The file.
        patience_s: How long to wait for another program's lock, in seconds.

    Raises:
        sqlite3.Error: There is no room, no permission, another program has locked the file, or
            this computer's SQLite is too old.
        OSError: The folder or the file can not be written.
    """
    _check_sqlite()
    made_private(path.parent)
    try:
        return _connected(path, patience_s), None
    except UnusableDatabase as unusable:
        kept = set_aside(path)
        problem = StoreProblem(
            "Your earlier conversations could not be read.",
            f"{unusable} It is kept as {kept.name}, and a new, empty one was begun.",
            kept,
        )
        return _connected(path, patience_s), problem


def set_aside(path: Path) -> Path:
    """Rename a database with its companions; returns the new name, which was free."""
    stamp = time.strftime("%Y%m%d-%H%M%S")
    number = 1
    while True:
        mark = stamp if number == 1 else f"{stamp}-{number}"
        target = path.with_name(f"{path.stem}.set-aside-{mark}{path.suffix}")
        if not any(Path(f"{target}{companion}").exists() for companion in _COMPANIONS):
            break
        number += 1
    for companion in _COMPANIONS:
        with contextlib.suppress(FileNotFoundError):
            Path(f"{path}{companion}").rename(f"{target}{companion}")
    return target


def _check_sqlite() -> None:
    """Raise ``NotSupportedError`` if SQLite lacks what we use; a sound file would look damaged."""
    with contextlib.closing(sqlite3.connect(":memory:")) as empty:
        try:
            empty.execute("CREATE TABLE strict_table (x TEXT) STRICT")
            empty.execute("CREATE VIRTUAL TABLE said USING fts5(text, tokenize='trigram')")
        except sqlite3.Error as error:
            raise sqlite3.NotSupportedError(
                f"SQLite {sqlite3.sqlite_version} lacks strict tables or the trigram search, "
                "which came with 3.37"
            ) from error


def _connected(path: Path, patience_s: float) -> sqlite3.Connection:
    touch_private(path)  # its companions get the same permissions
    connection = sqlite3.connect(path, timeout=patience_s, isolation_level=None)
    try:
        _check_owner(connection, path)
        # Full: a commit is on the disk when it returns, even if the power fails then.
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        # Deleted words are overwritten in the file as well.
        connection.execute("PRAGMA secure_delete = ON")
        _check_health(connection, path)
        schema.migrate(connection)
        connection.execute("SELECT 1 FROM conversations, messages, presets, said LIMIT 0")
    except sqlite3.DatabaseError as error:
        connection.close()
        if _means_damage(error):
            _log.error("%s is damaged", path, exc_info=error)
            raise UnusableDatabase(f"The file {path.name} is damaged.") from error
        raise
    except BaseException:
        connection.close()
        raise
    return connection


def _check_owner(connection: sqlite3.Connection, path: Path) -> None:
    (owner,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if owner != schema.APPLICATION_ID and (owner or version or tables):
        raise UnusableDatabase(f"The file {path.name} belongs to another program.")
    if version > schema.VERSION:
        raise UnusableDatabase(
            f"The file {path.name} was made by a newer version of Fullstop, which can still "
            "read it."
        )


def _check_health(connection: sqlite3.Connection, path: Path) -> None:
    (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if verdict != "ok":
        _log.error("%s: %s", path, verdict)
        raise UnusableDatabase(f"The file {path.name} is damaged.")


def _means_damage(error: sqlite3.DatabaseError) -> bool:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    # The last is the answer where the tables are not those that the version promises.
    return code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)

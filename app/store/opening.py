"""Opens the database; a damaged one is renamed, never overwritten.

Knows no conversations. Store thread.
"""

import contextlib
import logging
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

from app.folders.privacy import made_private, touch_private
from app.store import schema
from ui.records.store import StoreProblem

_log = logging.getLogger(__name__)
# SQLite keeps the newest writes and its shared memory in files beside the database.
COMPANIONS = ("", "-wal", "-shm")
# A file with this suffix next to a damaged database marks it as not recovered yet.
_NOT_RECOVERED = ".not-recovered"
# Exceptions for damaged error messages of SQLite, or damaged values of a row.
_UNREADABLE = (UnicodeDecodeError, TypeError, ValueError, OverflowError)


class UnusableDatabase(Exception):
    """The file exists but cannot be used; the message says why, for a person."""

    def __init__(self, why: str, *, is_damage: bool = False) -> None:
        super().__init__(why)
        self.is_damage = is_damage


def replacing_bad_bytes(content: bytes) -> str:
    """Decode a text of the file; only invalid bytes are replaced."""
    return str(content, "utf-8", "replace")


def opened(
    path: Path,
    prepare: Callable[[sqlite3.Connection], None] = lambda connection: None,
    patience_s: float = 5.0,
) -> tuple[sqlite3.Connection, StoreProblem | None]:
    """Open the database, created if needed; return a notice for the person, if any."""
    _check_sqlite()
    made_private(path.parent)
    try:
        return _connected(path, prepare, patience_s), _not_recovered(path)
    except UnusableDatabase as unusable:
        kept = set_aside(path)
        if unusable.is_damage:
            with contextlib.suppress(OSError):  # it is offered now, but not again
                touch_private(_note_of(kept))
        problem = StoreProblem(
            "Your earlier conversations could not be read.",
            f"{unusable} It is kept as {kept.name}, and a new, empty file was created.",
            kept,
            can_be_recovered=unusable.is_damage,
        )
        return _connected(path, prepare, patience_s), problem


def set_aside(path: Path) -> Path:
    """Rename a database with its companion files; return the new, unused name."""
    stamp = time.strftime("%Y%m%d-%H%M%S")
    number = 1
    while True:
        mark = stamp if number == 1 else f"{stamp}-{number}"
        target = path.with_name(f"{path.stem}.set-aside-{mark}{path.suffix}")
        if not any(Path(f"{target}{companion}").exists() for companion in COMPANIONS):
            break
        number += 1
    for companion in COMPANIONS:
        with contextlib.suppress(FileNotFoundError):
            Path(f"{path}{companion}").rename(f"{target}{companion}")
    return target


def offer_no_more(kept: Path) -> None:
    """Record that a damaged database was recovered, or that the person declined."""
    with contextlib.suppress(OSError):
        _note_of(kept).unlink(missing_ok=True)


def _note_of(kept: Path) -> Path:
    return kept.with_name(kept.name + _NOT_RECOVERED)


def _not_recovered(path: Path) -> StoreProblem | None:
    """Offer the newest damaged database that is undecided; None if there is none."""
    notes = path.parent.glob(f"{path.stem}.set-aside-*{path.suffix}{_NOT_RECOVERED}")
    for note in sorted(notes, reverse=True):
        kept = note.with_name(note.name.removesuffix(_NOT_RECOVERED))
        if kept.is_file():
            return StoreProblem(
                "Some of your earlier conversations have not been recovered.",
                f"They are in {kept.name}, which is damaged. Recover what can be read of it, or "
                "dismiss this message to leave it as it is.",
                kept,
                can_be_recovered=True,
            )
    return None


def _check_sqlite() -> None:
    """Raise ``NotSupportedError`` if SQLite lacks a feature: a sound file would look damaged."""
    with contextlib.closing(sqlite3.connect(":memory:")) as empty:
        try:
            empty.execute("CREATE TABLE strict_table (x TEXT) STRICT")
            empty.execute("CREATE VIRTUAL TABLE said USING fts5(text, tokenize='trigram')")
        except sqlite3.Error as error:
            raise sqlite3.NotSupportedError(
                f"SQLite {sqlite3.sqlite_version} lacks strict tables or the trigram search, "
                "which came with 3.37"
            ) from error


def _connected(
    path: Path, prepare: Callable[[sqlite3.Connection], None], patience_s: float
) -> sqlite3.Connection:
    touch_private(path)  # its companion files get the same permissions
    connection = sqlite3.connect(path, timeout=patience_s, isolation_level=None)
    connection.text_factory = replacing_bad_bytes
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
        connection.execute(
            "SELECT 1 FROM conversations, messages, presets, folders, attached, said LIMIT 0"
        )
        prepare(connection)
    except (sqlite3.DatabaseError, *_UNREADABLE) as error:
        connection.close()
        if _means_damage(error):
            _log.error("%s is damaged", path, exc_info=error)
            raise UnusableDatabase(f"The file {path.name} is damaged.", is_damage=True) from error
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
    if version < 0:
        raise UnusableDatabase(f"The file {path.name} is damaged.", is_damage=True)
    if version > schema.VERSION:
        raise UnusableDatabase(
            f"The file {path.name} was made by a newer version of Fullstop. Use that version to "
            "read it."
        )


def _check_health(connection: sqlite3.Connection, path: Path) -> None:
    (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if verdict != "ok":
        _log.error("%s: %s", path, verdict)
        raise UnusableDatabase(f"The file {path.name} is damaged.", is_damage=True)


def _means_damage(error: Exception) -> bool:
    if isinstance(error, _UNREADABLE):
        return True
    # SQLite's error has no name if the tables differ from those of the file's version.
    return is_damage(error) or _code(error) == sqlite3.SQLITE_ERROR


def is_damage(error: Exception) -> bool:
    """Return whether an error of SQLite says that the file is damaged."""
    return _code(error) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_TOOBIG)


def _code(error: Exception) -> int:
    code: int = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF

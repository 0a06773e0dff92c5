"""The file of the store, and the only thread that uses it."""

import contextlib
import logging
import os
import sqlite3
import threading
import time
import uuid
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import ParamSpec, TypeVar

from app.paths import made_private, touch_private
from app.store import statements
from app.store.rows import (
    ConversationRow,
    FolderRow,
    FoundRows,
    MessageRow,
    MessageSnapshot,
    PresetRow,
)
from app.store.statements import APPLICATION_ID, VERSION, migrate, transaction
from engine.files.causes import os_cause
from ui.records.codec import Preset
from ui.records.conversations import Conversation, ConversationFolder
from ui.records.store import StoreProblem

# The changes that are not in the file yet, kept in order.
#
# A change that fails for an external reason (the disk is full, the file is locked or read-only)
# stays, with all later changes. Put from the main thread, written on the store's thread.

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


# Says in plain words why the database could not be used.

_WORDS = {
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_READONLY: "the file is read-only",
    sqlite3.SQLITE_BUSY: "another program has locked the file",
    sqlite3.SQLITE_LOCKED: "another program has locked the file",
    sqlite3.SQLITE_IOERR: "the disk reported an error",
    sqlite3.SQLITE_CORRUPT: "the file is damaged",
    sqlite3.SQLITE_NOTADB: "the file is not a database",
    sqlite3.SQLITE_CANTOPEN: "the file cannot be opened",
    sqlite3.SQLITE_PERM: "you have no permission to write the file",
    sqlite3.SQLITE_AUTH: "you have no permission to write the file",
    sqlite3.SQLITE_NOMEM: "there is too little memory",
    sqlite3.SQLITE_TOOBIG: "a text is too long for the file",
}


def store_cause(error: sqlite3.Error | OSError) -> str:
    """Return why the database could not be used, as the end of a sentence without its stop."""
    if isinstance(error, OSError):
        return os_cause(error)
    if isinstance(error, sqlite3.NotSupportedError):
        return str(error)  # our own words
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    return _WORDS.get(code, "the database reported an error, which the log names")


# Opens the database; a damaged one is renamed, never overwritten.

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
        migrate(connection)
        connection.execute(
            "SELECT 1 FROM conversations, messages, presets, folders, attached, said, works, "
            "worked LIMIT 0"
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
    if owner != APPLICATION_ID and (owner or version or tables):
        raise UnusableDatabase(f"The file {path.name} belongs to another program.")
    if version < 0:
        raise UnusableDatabase(f"The file {path.name} is damaged.", is_damage=True)
    if version > VERSION:
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


# Tests whether a file accepts the program's writes, without leaving changes.
#
# A table or a trigger may be damaged in a way that reading does not show: every change would then
# fail. Store thread.

# These errors are about the disk, its space or other programs, not about the file.
_OUTER_CAUSES = (
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_PERM,
)


def try_writing(connection: sqlite3.Connection) -> None:
    """Write, change and delete one row of each kind, and roll back."""
    try:
        connection.execute("BEGIN IMMEDIATE")
        try:
            _write(connection)
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        # A damaged search index is rebuilt at the next write.
        if code in _OUTER_CAUSES or is_damage(error):
            return
        raise ValueError(f"the file accepts no changes: {error}") from error


def _write(connection: sqlite3.Connection) -> None:
    name = uuid.uuid4().hex
    statements.save_conversation(
        connection, ConversationRow(name, "", "{}", "[]", "", False, 0.0, 0.0)
    )
    for text, is_running in (("a word", True), ("a word more", False), ("another word", False)):
        row = MessageRow(name, name, None, "user", text, None, is_running, 0.0, 1)
        statements.save_message(connection, MessageSnapshot(row, None))
    statements.mark_deleted(connection, name, True)
    statements.delete_message(connection, name)
    statements.save_preset(connection, PresetRow(name, "{}"))
    statements.delete_preset(connection, name)
    statements.save_folder(connection, FolderRow(name, "{}"))
    statements.delete_folder(connection, name)


# The file of the store, and the only thread that uses it.
#
# ``submit`` accepts work from any thread; everything else runs on the database's own thread, in
# order.

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
        self._connection, self.problem = opened(self._path, self._prepare, patience_ms / 1000)

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
        self.conversations = statements.summaries(self._opened())
        self.presets = statements.presets(self._opened())
        self.folders = statements.folders(self._opened())

    def write(self, pending: PendingWrites, patience_ms: int) -> int:
        """Write pending changes; return how many were unusable."""
        connection = self._opened()
        connection.execute(f"PRAGMA busy_timeout = {patience_ms}")
        try:
            return pending.carry_out(connection)
        except sqlite3.DatabaseError as error:
            if not is_damage(error) or self._is_search_new:
                raise
            # If only the search index is damaged, it is rebuilt from the messages.
            _log.error("the search index is being rebuilt", exc_info=error)
            self._is_search_new = True
            statements.rebuild_search(connection)
            return pending.carry_out(connection)

    def take_over(self, rescued: FoundRows) -> tuple[int, int]:
        """Write those rows of another file that are not here yet; return how many were new."""
        return statements.take_over(self._opened(), rescued)

    def delete_unused_pictures(self, folder: Path, before: float) -> None:
        """Delete the pictures that no message has any more."""
        # Messages that are recovered from another file may need them.
        others = self._path.parent.glob(f"{self._path.stem}.set-aside-*")
        try:
            kept = [file for file in os.scandir(folder) if file.is_file(follow_symlinks=False)]
            if not kept or any(others):
                return
            used = statements.picture_files(self._opened())
            for file in kept:
                if file.name not in used and file.stat(follow_symlinks=False).st_mtime < before:
                    os.unlink(file.path)
        except FileNotFoundError:
            pass
        except (OSError, sqlite3.Error) as error:
            _log.warning("pictures of deleted conversations stay for now", exc_info=error)

    def _opened(self) -> sqlite3.Connection:
        if self._connection is None:
            raise sqlite3.ProgrammingError("the store is not open")
        return self._connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        statements.recover(connection)
        try_writing(connection)
        self.conversations = statements.summaries(connection)
        self.presets = statements.presets(connection)
        self.folders = statements.folders(connection)
        # The window first shows the conversation that was used last.
        last = max(self.conversations, key=lambda c: c.used_at, default=None)
        if last is not None and not last.is_loaded:
            last.fill(statements.messages(connection, last.id))

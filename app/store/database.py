"""Opens the SQLite file of the store; a damaged file is renamed, never overwritten."""

import contextlib
import logging
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from app.damaged_files import set_aside
from app.private_files import made_private, touch_private
from app.store import statements
from app.store.backups import backups_folder
from app.store.schema import APPLICATION_ID, VERSION, migrate
from engine.files.causes import os_cause
from ui.records.codec import Preset
from ui.records.conversations import Conversation, ConversationFolder
from ui.records.facts import Fact
from ui.records.store import Problem

BUSY_TIMEOUT_S = 2.0
COMPANIONS = ("", "-wal", "-shm")
"""The suffixes of a database and of the files that SQLite keeps beside it."""

_CAUSES = {
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
# Python raises these for damaged error messages of SQLite and for damaged values of a row.
_DECODING_ERRORS = (UnicodeDecodeError, TypeError, ValueError, OverflowError)
_log = logging.getLogger(__name__)


class UnusableDatabase(Exception):
    """The file exists but cannot be used; the message is a sentence."""

    def __init__(self, reason: str, *, is_damage: bool = False) -> None:
        super().__init__(reason)
        self.is_damage = is_damage


class Database:
    """The connection to one file, or to memory without one, and the only thread that uses it."""

    def __init__(self, path: Path | None, problem: Problem | None = None) -> None:
        self.problem = problem
        self.conversations: list[Conversation] = []
        self.presets: list[Preset] = []
        self.folders: list[ConversationFolder] = []
        self.facts: list[Fact] = []
        self._path = path
        self.thread = ThreadPoolExecutor(1, "fullstop-store")
        self._connection: sqlite3.Connection | None = None

    @property
    def connection(self) -> sqlite3.Connection:
        if self._connection is None:
            raise sqlite3.ProgrammingError("the store is not open")
        return self._connection

    @property
    def is_open(self) -> bool:
        return self._connection is not None

    def open(self) -> None:
        """Open the file, created if needed, and read the data that the window shows first."""
        if sqlite3.sqlite_version_info < (3, 37):  # a sound file would look damaged
            raise sqlite3.NotSupportedError(
                f"SQLite {sqlite3.sqlite_version} lacks strict tables, which came with 3.37"
            )
        if "ENABLE_FTS5" not in _compile_options():
            raise sqlite3.NotSupportedError("SQLite lacks full-text search (FTS5)")
        path = self._path
        if path is None:
            self._connection = sqlite3.connect(":memory:", isolation_level=None)
            migrate(self._connection)
            return
        made_private(path.parent)
        try:
            self._connection = self._connect(path)
        except UnusableDatabase as unusable:
            aside = set_aside(path, COMPANIONS)
            self.problem = Problem(
                "Your earlier conversations could not be read.",
                f"{unusable} It is kept as {aside.name}, and a new, empty file was created.",
                aside,
                can_be_recovered=unusable.is_damage,
                has_backup=any(backups_folder(path).glob("*.db")),
            )
            self._connection = self._connect(path)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def read_all(self) -> None:
        self.conversations = statements.summaries(self.connection)
        self.presets = statements.presets(self.connection)
        self.folders = statements.folders(self.connection)
        self.facts = statements.facts(self.connection)

    def _connect(self, path: Path) -> sqlite3.Connection:
        touch_private(path)  # its companion files get the same permissions
        connection = sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, isolation_level=None)
        connection.text_factory = decode_text
        try:
            _check_owner(connection, path)
            # Full: a commit is on the disk when it returns, even if the power fails then.
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute("PRAGMA secure_delete = ON")  # deleted text is overwritten
            (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
            if verdict != "ok":
                _log.error("%s: %s", path, verdict)
                raise UnusableDatabase(f"The file {path.name} is damaged.", is_damage=True)
            migrate(connection)
            # The file counts as sound only after the window's first data has been read.
            statements.clean_up(connection)
            self._connection = connection
            self.read_all()
            last = max(self.conversations, key=lambda each: each.used_at, default=None)
            if last is not None and not last.is_loaded:
                last.fill(statements.messages(connection, last.id))
        except BaseException as error:
            connection.close()
            self._connection = None
            self.conversations, self.presets, self.folders, self.facts = [], [], [], []
            # SQLite's error is general if the tables differ from those of the file's version.
            general = (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_SCHEMA)
            if isinstance(error, _DECODING_ERRORS) or is_damage(error) or _code(error) in general:
                _log.error("%s is damaged", path, exc_info=error)
                reason = f"The file {path.name} is damaged."
                raise UnusableDatabase(reason, is_damage=True) from error
            raise
        return connection


def decode_text(content: bytes) -> str:
    """Decode a text of the file; only invalid bytes are replaced."""
    return str(content, "utf-8", "replace")


def describe_error(error: Exception) -> str:
    """Return why the database could not be used, as the end of a sentence."""
    if isinstance(error, MemoryError):
        return _CAUSES[sqlite3.SQLITE_NOMEM]
    if isinstance(error, OSError):
        return os_cause(error)
    if isinstance(error, sqlite3.NotSupportedError):
        return str(error)
    return _CAUSES.get(_code(error), "there was an error, which the log names")


def is_damage(error: BaseException) -> bool:
    """Return whether an error of SQLite means that the file is damaged."""
    return _code(error) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_TOOBIG)


def _code(error: BaseException) -> int:
    code: int = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF


def _compile_options() -> set[str]:
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        return {option for (option,) in connection.execute("PRAGMA compile_options")}


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

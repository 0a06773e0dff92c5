"""Tests whether a file accepts the program's writes, without leaving changes.

A table or a trigger may be damaged in a way that reading does not show: every change would then
fail. Store thread.
"""

import sqlite3
import uuid

from app.store import opening, writing
from app.store.rows import ConversationRow, FolderRow, MessageRow, MessageSnapshot, PresetRow

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
        if code in _OUTER_CAUSES or opening.is_damage(error):
            return
        raise ValueError(f"the file accepts no changes: {error}") from error


def _write(connection: sqlite3.Connection) -> None:
    name = uuid.uuid4().hex
    writing.save_conversation(
        connection, ConversationRow(name, "", "{}", "[]", "", False, 0.0, 0.0)
    )
    for text, is_running in (("a word", True), ("a word more", False), ("another word", False)):
        row = MessageRow(name, name, None, "user", text, None, is_running, 0.0, 1)
        writing.save_message(connection, MessageSnapshot(row, None))
    writing.mark_deleted(connection, name, True)
    writing.delete_message(connection, name)
    writing.save_preset(connection, PresetRow(name, "{}"))
    writing.delete_preset(connection, name)
    writing.save_folder(connection, FolderRow(name, "{}"))
    writing.delete_folder(connection, name)

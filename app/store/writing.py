"""What is done to the database: SQL that reads it, and changes for a ``transaction``.

Store thread.
"""

import contextlib
import sqlite3
import time
from collections.abc import Iterator
from typing import Any

from app.store import rows
from ui.records.conversations import Conversation
from ui.records.messages import ChatMessage
from ui.records.presets import Preset

_SUMMARIES = """
SELECT c.id, c.title, c.settings, c.stops, c.draft, c.is_pinned, c.created_at, c.updated_at,
    coalesce(
        (SELECT substr(m.text, 1, 200) FROM messages m
         WHERE m.conversation_id = c.id AND m.text <> '' ORDER BY m.number DESC LIMIT 1),
        (SELECT '' FROM messages m WHERE m.conversation_id = c.id LIMIT 1)
    )
FROM conversations c WHERE c.deleted_at IS NULL
"""

_SAVE_CONVERSATION = """
INSERT INTO conversations(id, title, settings, stops, draft, is_pinned, created_at, updated_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT(id) DO UPDATE SET title = excluded.title, settings = excluded.settings,
    stops = excluded.stops, draft = excluded.draft, is_pinned = excluded.is_pinned,
    updated_at = excluded.updated_at
"""

_SAVE_MESSAGE = """
INSERT INTO messages(id, conversation_id, parent_id, role, text, run, is_running, created_at,
    shown_rank)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT(id) DO UPDATE SET text = excluded.text, run = excluded.run,
    is_running = excluded.is_running, shown_rank = excluded.shown_rank
"""

_TAKE_CONVERSATION = """
INSERT OR IGNORE INTO conversations(id, title, settings, stops, draft, is_pinned, created_at,
    updated_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
"""

_TAKE_MESSAGE = """
INSERT OR IGNORE INTO messages(id, conversation_id, parent_id, role, text, run, is_running,
    created_at, shown_rank)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
"""

_TAKE_PRESET = "INSERT OR IGNORE INTO presets(name, content) VALUES (?, ?)"

_DELETE_UNUSED = """
DELETE FROM conversations WHERE NOT is_pinned AND draft = ''
    AND NOT EXISTS (SELECT 1 FROM messages m WHERE m.conversation_id = conversations.id)
    AND id <> (SELECT id FROM conversations ORDER BY updated_at DESC LIMIT 1)
"""


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """All that is written within is kept whole, or not at all."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        # A full disk may fail the commit itself, or make SQLite roll back on its own.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def recover(connection: sqlite3.Connection) -> None:
    """Tidy up after the last time: end answers that were cut off, drop what was deleted.

    An answer that is no longer running while its run says so is shown as interrupted. Of
    conversations in which nothing was ever said, only the newest is kept.
    """
    with transaction(connection):
        connection.execute("UPDATE messages SET is_running = 0 WHERE is_running")
        connection.execute("DELETE FROM conversations WHERE deleted_at IS NOT NULL")
        connection.execute(_DELETE_UNUSED)


def summaries(connection: sqlite3.Connection) -> list[Conversation]:
    """Return all conversations, without messages where there are any; the newest comes first."""
    found = connection.execute(_SUMMARIES + "ORDER BY c.is_pinned DESC, c.updated_at DESC")
    return [rows.conversation_from(row[:-1], row[-1]) for row in found]


def messages(connection: sqlite3.Connection, conversation_id: str) -> list[ChatMessage]:
    """Return the messages of a conversation, each after the one it follows."""
    return rows.messages_from(
        connection.execute(
            f"SELECT {rows.MESSAGE_COLUMNS} FROM messages WHERE conversation_id = ? "
            "ORDER BY number",
            (conversation_id,),
        )
    )


def save_conversation(connection: sqlite3.Connection, row: tuple[Any, ...]) -> None:
    """Write a conversation's own row."""
    connection.execute(_SAVE_CONVERSATION, row)


def save_message(connection: sqlite3.Connection, row: rows.MessageRow) -> None:
    """Write a message; an answer that goes on replaces its shorter self."""
    connection.execute(_SAVE_MESSAGE, row.values())


def mark_deleted(connection: sqlite3.Connection, conversation_id: str, is_deleted: bool) -> None:
    """Hide a conversation until the program ends, or show it again."""
    connection.execute(
        "UPDATE conversations SET deleted_at = ? WHERE id = ?",
        (time.time() if is_deleted else None, conversation_id),
    )


def save_preset(connection: sqlite3.Connection, row: tuple[str, str]) -> None:
    """Write a preset."""
    connection.execute("INSERT OR REPLACE INTO presets(name, content) VALUES (?, ?)", row)


def rebuild_search(connection: sqlite3.Connection) -> None:
    """Make the index of words anew, from the messages."""
    with transaction(connection):
        connection.execute("INSERT INTO said(said) VALUES ('rebuild')")
        connection.execute(
            "INSERT INTO said(said, rowid, text) "
            "SELECT 'delete', number, text FROM messages WHERE is_running"
        )


def take_over(
    connection: sqlite3.Connection,
    conversations: list[tuple[Any, ...]],
    messages: list[tuple[Any, ...]],
    presets: list[tuple[Any, ...]],
) -> tuple[int, int]:
    """Write rows from elsewhere, but none whose id, or name, is here already.

    Returns:
        How many conversations and messages were new.
    """
    with transaction(connection):
        new = connection.executemany(_TAKE_CONVERSATION, conversations).rowcount
        new_messages = connection.executemany(_TAKE_MESSAGE, messages).rowcount
        connection.executemany(_TAKE_PRESET, presets)
    return max(new, 0), max(new_messages, 0)


def delete_preset(connection: sqlite3.Connection, name: str) -> None:
    """Remove a preset."""
    connection.execute("DELETE FROM presets WHERE name = ?", (name,))


def presets(connection: sqlite3.Connection) -> list[Preset]:
    """Return all presets."""
    return rows.presets_from(connection.execute("SELECT content FROM presets ORDER BY name"))

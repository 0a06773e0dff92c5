"""The SQL statements that read and change conversations."""

import contextlib
import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any

from app.store import rows
from app.store.rows import ConversationRow, MessageRow, RecoveredRows
from app.store.schema import PASSAGE_BITS
from ui.records.attachments import KEPT_NOTE
from ui.records.codec import Preset
from ui.records.conversations import Conversation, ConversationFolder
from ui.records.facts import Fact, facts_from
from ui.records.messages import ConversationMessage
from ui.records.runs import PastRun


def _inserting(table: str, columns: Sequence[str], verb: str = "INSERT") -> str:
    placeholders = ", ".join("?" * len(columns))
    return f"{verb} INTO {table}({', '.join(columns)}) VALUES ({placeholders})"


def _saving(table: str, columns: Sequence[str], *lasting: str) -> str:
    """Return the statement that writes a row, or all but its lasting columns anew."""
    changing = [name for name in columns if name not in lasting]
    changes = ", ".join(f"{name} = excluded.{name}" for name in changing)
    return f"{_inserting(table, columns)} ON CONFLICT({lasting[0]}) DO UPDATE SET {changes}"


SAVE_CONVERSATION = _saving("conversations", ConversationRow._fields, "id", "created_at")
SAVE_MESSAGE = _saving(
    "messages", MessageRow._fields, "id", "conversation_id", "parent_id", "role", "created_at"
)
SAVE_PRESET = _inserting("presets", rows.PRESETS, "INSERT OR REPLACE")
SAVE_FOLDER = _inserting("folders", rows.FOLDERS, "INSERT OR REPLACE")
# The conversation may be gone meanwhile.
_INSERT_FACT = (
    "facts(id, text, created_at, conversation_id) VALUES (?, ?, ?, "
    "(SELECT id FROM conversations WHERE id = ?))"
)
SAVE_FACT = f"INSERT INTO {_INSERT_FACT} ON CONFLICT(id) DO UPDATE SET text = excluded.text"
SAVE_UNSENT = _inserting("attached", rows.ATTACHED, "INSERT OR REPLACE")
DELETE_UNSENT = "DELETE FROM attached WHERE conversation_id = ?"
DELETE_MESSAGE = "DELETE FROM messages WHERE id = ?"
DELETE_PRESET = "DELETE FROM presets WHERE name = ?"
DELETE_FOLDER = "DELETE FROM folders WHERE id = ?"
DELETE_FACT = "DELETE FROM facts WHERE id = ?"
MARK_DELETED = "UPDATE conversations SET deleted_at = ? WHERE id = ?"
_SHOW_DELETED = "UPDATE conversations SET deleted_at = NULL WHERE id = ? AND deleted_at IS NOT NULL"
# A row whose id, or name, is here already is not replaced.
_ADD_CONVERSATION = _inserting("conversations", ConversationRow._fields, "INSERT OR IGNORE")
_ADD_ATTACHED = _inserting("attached", rows.ATTACHED, "INSERT OR IGNORE")
_ADD_MESSAGE = _inserting("messages", MessageRow._fields, "INSERT OR IGNORE")
_ADD_PRESET = _inserting("presets", rows.PRESETS, "INSERT OR IGNORE")
ADD_PASSAGE = _inserting("passages", rows.PASSAGES)
_ADD_DOCUMENT = _inserting("documents", rows.DOCUMENTS[1:], "INSERT OR IGNORE")
_ADD_FOLDER = _inserting("folders", rows.FOLDERS, "INSERT OR IGNORE")
_ADD_FACT = f"INSERT OR IGNORE INTO {_INSERT_FACT}"

_RECENT_RUNS = """
SELECT c.id, c.title, substr(asked.text, 1, 400), m.text, m.run
    FROM messages m JOIN conversations c ON c.id = m.conversation_id
    LEFT JOIN messages asked ON asked.id = m.parent_id
    WHERE m.role = 'assistant' AND c.deleted_at IS NULL
    AND NOT (json_valid(m.run) AND (
        json_extract(m.run, '$.imported') IS 1 OR json_extract(m.run, '$.state') IS 'unrecorded'
    )) ORDER BY m.created_at DESC, m.number DESC LIMIT ?
"""

_DELETE_UNUSED = """
DELETE FROM conversations WHERE NOT is_pinned AND draft = ''
    AND NOT EXISTS (SELECT 1 FROM attached a WHERE a.conversation_id = conversations.id)
    AND NOT EXISTS (SELECT 1 FROM messages m WHERE m.conversation_id = conversations.id)
    AND id <> (SELECT id FROM conversations ORDER BY updated_at DESC LIMIT 1)
"""

# Also a document whose reading was cut off.
_DELETE_DOCUMENTS = """
DELETE FROM documents WHERE passages <= 0
    OR owner NOT IN (SELECT id FROM conversations UNION ALL SELECT id FROM folders)
"""


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """Make all writes in the block atomic."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield connection
        connection.execute("COMMIT")
    except BaseException:
        # A full disk may fail the commit itself, or make SQLite roll back on its own.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def clean_up(connection: sqlite3.Connection) -> None:
    """End the answers that the last exit cut off; remove deleted and older empty chats."""
    with transaction(connection):
        connection.execute("UPDATE messages SET is_running = 0 WHERE is_running")
        connection.execute("DELETE FROM conversations WHERE deleted_at IS NOT NULL")
        connection.execute(_DELETE_UNUSED)
        connection.execute(_DELETE_DOCUMENTS)


def summaries(connection: sqlite3.Connection) -> list[Conversation]:
    """Return all conversations, the newest first; their messages are not loaded."""
    has_messages = "EXISTS (SELECT 1 FROM messages m WHERE m.conversation_id = conversations.id)"
    cursor = connection.execute(
        f"SELECT {', '.join(ConversationRow._fields)}, {has_messages} FROM conversations "
        "WHERE deleted_at IS NULL ORDER BY is_pinned DESC, updated_at DESC"
    )
    read = [rows.conversation_from(ConversationRow(*row), bool(said)) for *row, said in cursor]
    attached = dict(connection.execute("SELECT conversation_id, content FROM attached"))
    for conversation in read:
        if conversation.id in attached:
            unsent = rows.unsent_from(attached[conversation.id])
            conversation.attachments, conversation.queue = unsent
    return read


def messages(connection: sqlite3.Connection, conversation_id: str) -> list[ConversationMessage]:
    """Return the messages of a conversation, each after the one it follows."""
    cursor = connection.execute(
        f"SELECT {', '.join(MessageRow._fields)} FROM messages "
        "WHERE conversation_id = ? ORDER BY number",
        (conversation_id,),
    )
    return rows.messages_from(MessageRow(*row) for row in cursor)


def recent_runs(connection: sqlite3.Connection, limit: int) -> list[PastRun]:
    """Return the newest answers that were generated here, the newest first."""
    cursor = connection.execute(_RECENT_RUNS, (limit,))
    return [rows.past_run(*row) for row in cursor]


def rebuild_search(connection: sqlite3.Connection) -> None:
    """Rebuild the search index from the messages."""
    with transaction(connection):
        connection.execute("INSERT INTO said(said) VALUES ('rebuild')")
        connection.execute(
            "INSERT INTO said(said, rowid, text) "
            "SELECT 'delete', number, text FROM messages WHERE is_running"
        )
        # SQLite's own rebuilding reads no view that takes JSON apart.
        connection.execute("INSERT INTO worked(worked) VALUES ('delete-all')")
        connection.execute(
            "INSERT INTO worked(rowid, thinking, tools) SELECT number, thinking, tools FROM works"
        )


def merge(
    connection: sqlite3.Connection, recovered: RecoveredRows, *, is_newest: bool
) -> tuple[int, int]:
    """Add rows of another file, except those whose id or name exists; return the new rows.

    A conversation of it that was deleted here is shown again, as it was when it was deleted. Only
    the newest file adds messages to a conversation that is here: of an older one, they are those
    that were deleted since.
    """
    with transaction(connection):
        here = {identity for (identity,) in connection.execute("SELECT id FROM conversations")}
        # The files of an existing conversation may have been sent or removed since.
        attached = [row for row in recovered.attached if row[0] not in here]
        messages = [
            row for row in recovered.messages if is_newest or row.conversation_id not in here
        ]
        identities = [(row.id,) for row in recovered.conversations]
        shown = connection.executemany(_SHOW_DELETED, identities).rowcount
        new = connection.executemany(_ADD_CONVERSATION, recovered.conversations).rowcount
        connection.executemany(_ADD_ATTACHED, attached)
        new_messages = connection.executemany(_ADD_MESSAGE, messages).rowcount
        connection.executemany(_ADD_PRESET, recovered.presets)
        connection.executemany(_ADD_FOLDER, recovered.folders)
        connection.executemany(_ADD_FACT, recovered.facts)
        _add_documents(connection, recovered)
    return max(shown, 0) + max(new, 0), max(new_messages, 0)


def _add_documents(connection: sqlite3.Connection, recovered: RecoveredRows) -> None:
    """Add the documents of folders that are not here, with their passages."""
    passages: dict[int, list[tuple[Any, ...]]] = {}
    for row in recovered.passages:
        passages.setdefault(row[0] >> PASSAGE_BITS, []).append(row)
    for number, *facts, _ in recovered.documents:
        own = passages.get(number, ())
        added = connection.execute(_ADD_DOCUMENT, (*facts, len(own)))
        if added.rowcount > 0 and added.lastrowid is not None:
            first = added.lastrowid - number << PASSAGE_BITS
            moved = ((first + row[0], *row[1:]) for row in own)
            connection.executemany(ADD_PASSAGE, moved)


def picture_files(connection: sqlite3.Connection) -> set[str]:
    """Return the names of the pictures' files that messages and unsent attachments have."""
    # Of questions, only those with files have something in ``run``.
    queries = (
        "SELECT text FROM messages WHERE role = 'user' AND run IS NOT NULL",
        "SELECT run FROM messages WHERE role = 'assistant' AND instr(run, '\"pictures\"')",
        "SELECT content FROM attached",
    )
    texts = (text for query in queries for (text,) in connection.execute(query))
    return {note["file"] for text in texts for note in KEPT_NOTE.finditer(text)}


def presets(connection: sqlite3.Connection) -> list[Preset]:
    """Return all presets."""
    return rows.presets_from(connection.execute("SELECT name, content FROM presets ORDER BY name"))


def folders(connection: sqlite3.Connection) -> list[ConversationFolder]:
    """Return all folders."""
    return rows.folders_from(connection.execute("SELECT id, content FROM folders"))


def facts(connection: sqlite3.Connection) -> list[Fact]:
    """Return all readable facts, the oldest first."""
    selected = f"SELECT {', '.join(rows.FACTS)} FROM facts ORDER BY created_at, id"
    return facts_from(connection.execute(selected))

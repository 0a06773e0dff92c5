"""The SQL of the store: its schema, its reads, its changes and its search."""

import contextlib
import sqlite3
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from app.store import rows
from app.store.rows import (
    AttachedRow,
    ConversationRow,
    FolderRow,
    FoundRows,
    MessageRow,
    MessageSnapshot,
    PresetRow,
)
from ui.records.attachments import KEPT_NOTE
from ui.records.codec import Preset
from ui.records.conversations import Conversation, ConversationFolder, title_from_file
from ui.records.messages import ConversationMessage
from ui.records.runs import PastRun
from ui.records.store import (
    EVERYWHERE,
    MOST_HITS,
    Hit,
    SearchFilter,
    Speaker,
    named_hit,
    snippet_of,
    words_of,
)

# The tables, and the steps from one version of them to the next.
#
# A step is never edited once it has been released: files made by it exist. The version of a file
# is its ``user_version``, the number of steps it has had.

# "FULS": tells our files from other programs' databases.
APPLICATION_ID = 0x46554C53

_TABLES = """
CREATE TABLE conversations (
    id TEXT PRIMARY KEY,
    title TEXT NOT NULL,
    settings TEXT NOT NULL,
    stops TEXT NOT NULL,
    draft TEXT NOT NULL DEFAULT '',
    is_pinned INTEGER NOT NULL DEFAULT 0,
    created_at REAL NOT NULL,
    updated_at REAL NOT NULL,
    deleted_at REAL
) STRICT;

CREATE TABLE messages (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    conversation_id TEXT NOT NULL REFERENCES conversations(id) ON DELETE CASCADE,
    parent_id TEXT,
    role TEXT NOT NULL,
    text TEXT NOT NULL,
    run TEXT,
    is_running INTEGER NOT NULL DEFAULT 0,
    created_at REAL NOT NULL,
    shown_rank INTEGER NOT NULL
) STRICT;
CREATE INDEX messages_of_conversation ON messages(conversation_id, number);
CREATE INDEX messages_running ON messages(is_running) WHERE is_running;

CREATE TABLE presets (
    name TEXT PRIMARY KEY,
    content TEXT NOT NULL
) STRICT;
"""

# Running answers are left out: their text changes twice a second, and a word of it can be seen
# on the screen anyway.
_SEARCH = """
CREATE VIRTUAL TABLE said USING fts5(
    text, content='messages', content_rowid='number', tokenize='trigram'
);
INSERT INTO said(rowid, text) SELECT number, text FROM messages WHERE NOT is_running;
CREATE TRIGGER said_insert AFTER INSERT ON messages WHEN NOT new.is_running BEGIN
    INSERT INTO said(rowid, text) VALUES (new.number, new.text);
END;
CREATE TRIGGER said_delete AFTER DELETE ON messages WHEN NOT old.is_running BEGIN
    INSERT INTO said(said, rowid, text) VALUES ('delete', old.number, old.text);
END;
CREATE TRIGGER said_update_old BEFORE UPDATE OF text, is_running ON messages
WHEN NOT old.is_running AND (new.is_running OR new.text <> old.text) BEGIN
    INSERT INTO said(said, rowid, text) VALUES ('delete', old.number, old.text);
END;
CREATE TRIGGER said_update_new AFTER UPDATE OF text, is_running ON messages
WHEN NOT new.is_running AND (old.is_running OR new.text <> old.text) BEGIN
    INSERT INTO said(rowid, text) VALUES (new.number, new.text);
END;
"""

_FOLDERS = """
ALTER TABLE conversations ADD COLUMN folder_id TEXT NOT NULL DEFAULT '';
ALTER TABLE conversations ADD COLUMN tags TEXT NOT NULL DEFAULT '';
ALTER TABLE conversations ADD COLUMN is_archived INTEGER NOT NULL DEFAULT 0;
ALTER TABLE conversations ADD COLUMN origin TEXT NOT NULL DEFAULT '';
ALTER TABLE conversations ADD COLUMN stops_from TEXT NOT NULL DEFAULT '';
CREATE TABLE folders (
    id TEXT PRIMARY KEY,
    content TEXT NOT NULL
) STRICT;
"""

# Apart from the conversations, whose rows are written each time something is typed.
_ATTACHED = """
CREATE TABLE attached (
    conversation_id TEXT PRIMARY KEY REFERENCES conversations(id) ON DELETE CASCADE,
    content TEXT NOT NULL
) STRICT;
"""

# The reasoning, the calls and their results are searched as well. They stay where they are, in the
# runs: the view reads them there, for whole answers alone, so that nothing is stored twice.
_WORKED = """
CREATE VIEW works AS
SELECT number,
    coalesce(json_extract(run, '$.thinking'), '') AS thinking,
    coalesce((SELECT group_concat(
        json_extract(value, '$.name') || ' ' || json_extract(value, '$.arguments'), char(10)
    ) FROM json_each(run, '$.tool_calls')), '') || char(10) ||
    coalesce((SELECT group_concat(json_extract(value, '$.text'), char(10))
        FROM json_each(run, '$.results')), '') AS tools
FROM messages
WHERE CASE WHEN is_running OR role <> 'assistant' OR NOT json_valid(run) THEN 0
    ELSE json_type(run, '$.thinking') = 'text' OR json_type(run, '$.tool_calls') = 'array' END;
CREATE VIRTUAL TABLE worked USING fts5(
    thinking, tools, content='works', content_rowid='number', tokenize='trigram'
);
INSERT INTO worked(rowid, thinking, tools) SELECT number, thinking, tools FROM works;
CREATE TRIGGER worked_insert AFTER INSERT ON messages BEGIN
    INSERT INTO worked(rowid, thinking, tools)
        SELECT number, thinking, tools FROM works WHERE number = new.number;
END;
CREATE TRIGGER worked_delete BEFORE DELETE ON messages BEGIN
    INSERT INTO worked(worked, rowid, thinking, tools)
        SELECT 'delete', number, thinking, tools FROM works WHERE number = old.number;
END;
CREATE TRIGGER worked_update_old BEFORE UPDATE OF run, is_running ON messages
WHEN old.run IS NOT new.run OR old.is_running <> new.is_running BEGIN
    INSERT INTO worked(worked, rowid, thinking, tools)
        SELECT 'delete', number, thinking, tools FROM works WHERE number = old.number;
END;
CREATE TRIGGER worked_update_new AFTER UPDATE OF run, is_running ON messages
WHEN old.run IS NOT new.run OR old.is_running <> new.is_running BEGIN
    INSERT INTO worked(rowid, thinking, tools)
        SELECT number, thinking, tools FROM works WHERE number = new.number;
END;
"""

# Reports of imports, which earlier versions kept; nothing reads or writes them now.
_IMPORTS = """
CREATE TABLE imports (
    id TEXT PRIMARY KEY,
    imported_at REAL NOT NULL,
    content TEXT NOT NULL
) STRICT;
"""

STEPS = (_TABLES, _SEARCH, _FOLDERS, _ATTACHED, _WORKED, _IMPORTS)
VERSION = len(STEPS)


def migrate(connection: sqlite3.Connection) -> None:
    """Bring a file to the present version: each step is taken whole or not at all."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    for number in range(version, VERSION):
        connection.executescript(
            f"BEGIN IMMEDIATE;\n{STEPS[number]}\n"
            f"PRAGMA application_id = {APPLICATION_ID};\n"
            f"PRAGMA user_version = {number + 1};\nCOMMIT;"
        )


_BLANKS = "' ' || char(9, 10, 13)"
# The start of the newest text, for the list: what is shown, where there are no versions. Empty
# text means that there are messages all the same; NULL, that there are none. Of a question with
# files (``{"attached_chars": 9}``) it is what was typed, as in ``Conversation.preview``.
_PREVIEW = f"""
    coalesce(
        (SELECT coalesce(
            CASE WHEN m.role = 'user' AND m.run IS NOT NULL THEN nullif(
                substr(ltrim(substr(
                    m.text, 1 + CAST(substr(m.run, instr(m.run, ':') + 1) AS INTEGER)
                ), {_BLANKS}), 1, 200), '')
            END,
            substr(ltrim(m.text, {_BLANKS}), 1, 200))
         FROM messages m
         WHERE m.conversation_id = conversations.id AND trim(m.text, {_BLANKS}) <> ''
         ORDER BY m.number DESC LIMIT 1),
        (SELECT '' FROM messages m WHERE m.conversation_id = conversations.id LIMIT 1)
    )
"""


def columns(row: type[NamedTuple]) -> str:
    """Return the columns of a row, for a statement."""
    return ", ".join(row._fields)


def _inserting(table: str, row: type[NamedTuple], verb: str = "INSERT") -> str:
    places = ", ".join("?" * len(row._fields))
    return f"{verb} INTO {table}({columns(row)}) VALUES ({places})"


def _saving(table: str, row: type[NamedTuple], *lasting: str) -> str:
    """Return the statement that writes a row, or all but its lasting columns anew."""
    changing = [name for name in row._fields if name not in lasting]
    changes = ", ".join(f"{name} = excluded.{name}" for name in changing)
    return f"{_inserting(table, row)} ON CONFLICT({lasting[0]}) DO UPDATE SET {changes}"


_SAVE_CONVERSATION = _saving("conversations", ConversationRow, "id", "created_at")
_SAVE_MESSAGE = _saving(
    "messages", MessageRow, "id", "conversation_id", "parent_id", "role", "created_at"
)
_SAVE_PRESET = _inserting("presets", PresetRow, "INSERT OR REPLACE")
_SAVE_FOLDER = _inserting("folders", FolderRow, "INSERT OR REPLACE")
# Whose id, or name, is here already stays as it is.
_TAKE_CONVERSATION = _inserting("conversations", ConversationRow, "INSERT OR IGNORE")
_TAKE_ATTACHED = _inserting("attached", AttachedRow, "INSERT OR IGNORE")
_TAKE_MESSAGE = _inserting("messages", MessageRow, "INSERT OR IGNORE")
_TAKE_PRESET = _inserting("presets", PresetRow, "INSERT OR IGNORE")
_TAKE_FOLDER = _inserting("folders", FolderRow, "INSERT OR IGNORE")

# Conversations in which some message is followed by several versions. Without versions each
# message but the first follows one of its own.
_WITH_VERSIONS = """
SELECT conversation_id FROM messages GROUP BY conversation_id
    HAVING count(*) > 1 + count(DISTINCT parent_id)
"""
# As in ``MessageRow``, without the runs, which a preview does not need.
_SAID = ", ".join("NULL" if name == "run" else name for name in MessageRow._fields)

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


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Make all writes in the block atomic."""
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
    """Clean up after the last run: end answers that were cut off, remove deleted conversations.

    No answer can be running at a start. One that still says so was cut off, and is shown as
    interrupted. Empty conversations are deleted, except for the newest.
    """
    with transaction(connection):
        connection.execute("UPDATE messages SET is_running = 0 WHERE is_running")
        connection.execute("DELETE FROM conversations WHERE deleted_at IS NOT NULL")
        connection.execute(_DELETE_UNUSED)


def summaries(connection: sqlite3.Connection) -> list[Conversation]:
    """Return all conversations, the newest first; their messages are not loaded."""
    cursor = connection.execute(
        f"SELECT {columns(ConversationRow)}, {_PREVIEW} FROM conversations "
        "WHERE deleted_at IS NULL ORDER BY is_pinned DESC, updated_at DESC"
    )
    read = [rows.conversation_from(ConversationRow(*row), preview) for *row, preview in cursor]
    attached = dict(connection.execute("SELECT conversation_id, content FROM attached"))
    for conversation in read:
        if conversation.id in attached:
            unsent = rows.unsent_from(attached[conversation.id])
            conversation.attachments, conversation.queue = unsent
    with_versions = {identity for (identity,) in connection.execute(_WITH_VERSIONS)}
    for conversation in read:
        if conversation.id in with_versions:
            conversation.unload(_shown_preview(connection, conversation.id))
    return read


def _shown_preview(connection: sqlite3.Connection, conversation_id: str) -> str:
    """Return the preview of the versions that are shown."""
    cursor = connection.execute(
        f"SELECT {_SAID} FROM messages WHERE conversation_id = ? ORDER BY number",
        (conversation_id,),
    )
    conversation = Conversation()
    conversation.tree.fill(rows.messages_from(MessageRow(*row) for row in cursor))
    return conversation.preview


def messages(connection: sqlite3.Connection, conversation_id: str) -> list[ConversationMessage]:
    """Return the messages of a conversation, each after the one it follows."""
    cursor = connection.execute(
        f"SELECT {columns(MessageRow)} FROM messages WHERE conversation_id = ? ORDER BY number",
        (conversation_id,),
    )
    return rows.messages_from(MessageRow(*row) for row in cursor)


def recent_runs(connection: sqlite3.Connection, limit: int) -> list[PastRun]:
    """Return the newest answers that were generated here, the newest first."""
    cursor = connection.execute(_RECENT_RUNS, (limit,))
    return [rows.past_run(*row) for row in cursor]


def save_conversation(connection: sqlite3.Connection, row: ConversationRow) -> None:
    """Write a conversation's own row."""
    connection.execute(_SAVE_CONVERSATION, row)


def save_unsent(connection: sqlite3.Connection, conversation_id: str, unsent: rows.Unsent) -> None:
    """Write what waits to be sent in a conversation."""
    if any(unsent):
        connection.execute(
            "INSERT OR REPLACE INTO attached(conversation_id, content) VALUES (?, ?)",
            (conversation_id, rows.unsent_json(unsent)),
        )
    else:
        connection.execute("DELETE FROM attached WHERE conversation_id = ?", (conversation_id,))


def save_message(connection: sqlite3.Connection, message: MessageSnapshot) -> None:
    """Write a message; a growing answer replaces its earlier text."""
    connection.execute(_SAVE_MESSAGE, message.values())


def delete_message(connection: sqlite3.Connection, message_id: str) -> None:
    """Remove a message, which is removed from the search by a trigger."""
    connection.execute("DELETE FROM messages WHERE id = ?", (message_id,))


def mark_deleted(connection: sqlite3.Connection, conversation_id: str, is_deleted: bool) -> None:
    """Hide a conversation until the program ends, or show it again."""
    connection.execute(
        "UPDATE conversations SET deleted_at = ? WHERE id = ?",
        (time.time() if is_deleted else None, conversation_id),
    )


def save_preset(connection: sqlite3.Connection, row: PresetRow) -> None:
    """Write a preset."""
    connection.execute(_SAVE_PRESET, row)


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


def take_over(connection: sqlite3.Connection, rescued: FoundRows) -> tuple[int, int]:
    """Write rows of another file, except those whose id or name exists already."""
    with transaction(connection):
        # Of a conversation that is here, a person may have sent or removed the files since.
        attached = [
            row for row in rescued.attached if not _is_here(connection, row.conversation_id)
        ]
        new = connection.executemany(_TAKE_CONVERSATION, rescued.conversations).rowcount
        connection.executemany(_TAKE_ATTACHED, attached)
        new_messages = connection.executemany(_TAKE_MESSAGE, rescued.messages).rowcount
        connection.executemany(_TAKE_PRESET, rescued.presets)
        connection.executemany(_TAKE_FOLDER, rescued.folders)
    return max(new, 0), max(new_messages, 0)


def _is_here(connection: sqlite3.Connection, conversation_id: str) -> bool:
    query = "SELECT 1 FROM conversations WHERE id = ?"
    return connection.execute(query, (conversation_id,)).fetchone() is not None


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


def delete_preset(connection: sqlite3.Connection, name: str) -> None:
    """Remove a preset."""
    connection.execute("DELETE FROM presets WHERE name = ?", (name,))


def presets(connection: sqlite3.Connection) -> list[Preset]:
    """Return all presets."""
    cursor = connection.execute(f"SELECT {columns(PresetRow)} FROM presets ORDER BY name")
    return rows.presets_from(PresetRow(*row) for row in cursor)


def save_folder(connection: sqlite3.Connection, row: FolderRow) -> None:
    """Write a folder."""
    connection.execute(_SAVE_FOLDER, row)


def delete_folder(connection: sqlite3.Connection, folder_id: str) -> None:
    """Remove a folder; the caller moves its conversations."""
    connection.execute("DELETE FROM folders WHERE id = ?", (folder_id,))


def folders(connection: sqlite3.Connection) -> list[ConversationFolder]:
    """Return all folders."""
    cursor = connection.execute(f"SELECT {columns(FolderRow)} FROM folders")
    return rows.folders_from(FolderRow(*row) for row in cursor)


# Searches all messages by the trigram indexes: what was said, and the work behind an answer.
#
# Trigrams find substrings of three or more characters in any language. Shorter words are compared
# with every message, or with those that match the longer words.

_INDEXED_CHARS = 3
# Beyond this many matches the newest are ranked: nobody reads more, and ranking all is slow.
_RANKED = 1000


class _Index(NamedTuple):
    """A text that is searched: the role of its hits, its index, its column, whose words it has."""

    role: str
    name: str
    text: str
    speakers: tuple[Speaker, ...]


_INDEXES = (
    _Index("m.role", "said", "m.text", (Speaker.YOU, Speaker.MODEL)),
    _Index("'thinking'", "worked", "w.thinking", (Speaker.MODEL,)),
    _Index("'tool'", "worked", "w.tools", (Speaker.TOOL,)),
)
_ROLES = {Speaker.YOU: "user", Speaker.MODEL: "assistant"}


def search(
    connection: sqlite3.Connection,
    query: str,
    wanted: SearchFilter = EVERYWHERE,
    limit: int = MOST_HITS,
) -> list[Hit]:
    """Return the matches of all words of a query: titles first, then messages,
    best first.
    """
    words = words_of(query)
    if not words:
        return []
    named = _named(connection, words, wanted, limit) if wanted.speaker is Speaker.ANYONE else []
    matches: list[_Match] = []
    for index in _INDEXES:
        if wanted.speaker is Speaker.ANYONE or wanted.speaker in index.speakers:
            matches += _matches(connection, words, wanted, index, limit)
    matches.sort(key=lambda match: match.rank)
    return (named + [_hit(match, words) for match in _once(matches)])[:limit]


class _Match(NamedTuple):
    conversation_id: str
    message_id: str
    title: str
    role: str
    said_at: float
    text: str
    rank: float


def _once(matches: Sequence[_Match]) -> list[_Match]:
    """Leave out copies: a version of an answer repeats the messages after it."""
    kept: dict[tuple[Any, ...], _Match] = {}
    for match in matches:
        said = (match.conversation_id, match.role, match.said_at, match.text)
        kept.setdefault(said, match)
    return list(kept.values())


def _narrowed(wanted: SearchFilter, said_at: str) -> tuple[str, list[Any]]:
    """Return the condition for the conversations and times of a search, and its values."""
    parts, values = ["c.deleted_at IS NULL"], list[Any]()
    if wanted.folder_id:
        parts.append("c.folder_id = ?")
        values.append(wanted.folder_id)
    if wanted.since:
        parts.append(f"{said_at} >= ?")
        values.append(wanted.since)
    return " AND ".join(parts), values


def _named(
    connection: sqlite3.Connection, words: Sequence[str], wanted: SearchFilter, limit: int
) -> list[Hit]:
    """Return the conversations that have the words in their titles."""
    condition, values = _all_like("c.title", words)
    narrowed, more = _narrowed(wanted, "c.updated_at")
    cursor = connection.execute(
        "SELECT c.id, c.title, c.updated_at FROM conversations c "
        f"WHERE {narrowed} AND {condition} ORDER BY c.updated_at DESC LIMIT ?",
        (*more, *values, min(limit, 10)),
    ).fetchall()
    hits = (
        named_hit(identity, title_from_file(title), updated_at, words)
        for identity, title, updated_at in cursor
    )
    return [hit for hit in hits if hit is not None]


def _matches(
    connection: sqlite3.Connection,
    words: Sequence[str],
    wanted: SearchFilter,
    index: _Index,
    limit: int,
) -> list[_Match]:
    long = [word for word in words if len(word) >= _INDEXED_CHARS]
    short = [word for word in words if len(word) < _INDEXED_CHARS]
    condition, values = _all_like(index.text, short)
    narrowed, more = _narrowed(wanted, "m.created_at")
    if index.name == "said" and wanted.speaker is not Speaker.ANYONE:
        narrowed += " AND m.role = ?"
        more.append(_ROLES[wanted.speaker])
    columns = f"m.conversation_id, m.id, c.title, {index.role}, m.created_at, {index.text}"
    beside = "JOIN conversations c ON c.id = m.conversation_id"
    if index.name == "worked":
        beside += " JOIN works w ON w.number = m.number"
    if not long:
        cursor = connection.execute(
            f"SELECT {columns}, 0.0 FROM messages m {beside} "
            f"WHERE {narrowed} AND {condition} ORDER BY m.number DESC LIMIT ?",
            (*more, *values, limit),
        )
        return [_Match(*row) for row in cursor]
    match = " AND ".join('"' + word.replace('"', '""') + '"' for word in long)
    if index.name == "worked":
        match = f"{index.text.removeprefix('w.')} : ({match})"
    matching = f"FROM {index.name} AS i JOIN messages m ON m.number = i.rowid {beside}"
    matching += f" WHERE {index.name} MATCH ?"
    ranked = max(_RANKED, limit)
    if wanted == EVERYWHERE:  # the index alone is faster
        newest = f"FROM {index.name} AS i WHERE {index.name} MATCH ?", (match,)
    else:
        newest = f"{matching} AND {narrowed}", (match, *more)
    floor = connection.execute(
        f"SELECT i.rowid {newest[0]} ORDER BY i.rowid DESC LIMIT 1 OFFSET ?", (*newest[1], ranked)
    ).fetchone()
    cursor = connection.execute(
        f"SELECT {columns}, i.rank {matching} AND i.rowid > ? AND {narrowed} AND {condition} "
        "ORDER BY i.rank, m.number DESC LIMIT ?",
        (match, floor[0] if floor else -1, *more, *values, limit),
    )
    return [_Match(*row) for row in cursor]


def _all_like(column: str, words: Sequence[str]) -> tuple[str, list[str]]:
    """Return a condition for columns with all words, and its values.

    LIKE ignores case only in ASCII, so other letters are searched in both cases.
    """
    parts: list[str] = []
    values: list[str] = []
    for word in words:
        forms = dict.fromkeys((word, word.lower(), word.upper(), word.capitalize()))
        if word.isascii():
            forms = dict.fromkeys((word,))
        parts.append("(" + " OR ".join(f"{column} LIKE ? ESCAPE '\\'" for _ in forms) + ")")
        for form in forms:
            escaped = form.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
            values.append(f"%{escaped}%")
    return " AND ".join(parts) or "1", values


def _hit(match: _Match, words: Sequence[str]) -> Hit:
    line, spans = snippet_of(match.text, words)
    shown = title_from_file(match.title)
    return Hit(
        match.conversation_id, match.message_id, shown, match.role, match.said_at, line, spans
    )

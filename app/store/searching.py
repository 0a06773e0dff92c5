"""Searches all messages by the trigram index. Store thread.

Trigrams find substrings of three or more characters in any language. Shorter words are compared
with every message, or with those that match the longer words.
"""

import sqlite3
from collections.abc import Sequence
from typing import Any

from ui.records.conversations import title_from_file
from ui.records.store import Hit, named_hit, snippet_of, words_of

_INDEXED_CHARS = 3
# Beyond this many matches the newest are ranked: nobody reads more, and ranking all is slow.
_RANKED = 1000

_COLUMNS = "m.conversation_id, m.id, c.title, m.role, m.created_at, m.text"


def search(connection: sqlite3.Connection, query: str, limit: int) -> list[Hit]:
    """Return the matches of all words of a query: titles and tags first, then messages,
    best first.
    """
    words = words_of(query)
    if not words:
        return []
    named = _named(connection, words, limit)
    found = _messages(connection, words, limit - len(named)) if len(named) < limit else []
    return named + [_hit(row, words) for row in _once(found)]


def _once(found: Sequence[Any]) -> list[Any]:
    """Leave out copies: a version of an answer repeats the messages after it."""
    seen: set[tuple[Any, ...]] = set()
    kept = []
    for row in found:
        conversation_id, _, _, role, said_at, text = row
        said = (conversation_id, role, said_at, text)
        if said not in seen:
            seen.add(said)
            kept.append(row)
    return kept


def _named(connection: sqlite3.Connection, words: Sequence[str], limit: int) -> list[Hit]:
    """Return the conversations that have the words in their titles and tags."""
    condition, values = _all_like("(c.title || ' ' || c.tags)", words)
    found = connection.execute(
        "SELECT c.id, c.title, c.tags, c.updated_at FROM conversations c "
        f"WHERE c.deleted_at IS NULL AND {condition} ORDER BY c.updated_at DESC LIMIT ?",
        (*values, min(limit, 10)),
    ).fetchall()
    hits = (
        named_hit(identity, title_from_file(title), tags.split("\n"), updated_at, words)
        for identity, title, tags, updated_at in found
    )
    return [hit for hit in hits if hit is not None]


def _messages(connection: sqlite3.Connection, words: Sequence[str], limit: int) -> list[Any]:
    long = [word for word in words if len(word) >= _INDEXED_CHARS]
    short = [word for word in words if len(word) < _INDEXED_CHARS]
    condition, values = _all_like("m.text", short)
    if not long:
        return connection.execute(
            f"SELECT {_COLUMNS} FROM messages m JOIN conversations c ON c.id = m.conversation_id "
            f"WHERE c.deleted_at IS NULL AND {condition} ORDER BY m.number DESC LIMIT ?",
            (*values, limit),
        ).fetchall()
    match = " AND ".join('"' + word.replace('"', '""') + '"' for word in long)
    newest = "SELECT rowid FROM said WHERE said MATCH ? ORDER BY rowid DESC LIMIT 1 OFFSET ?"
    floor = connection.execute(newest, (match, _RANKED)).fetchone()
    return connection.execute(
        f"SELECT {_COLUMNS} FROM said JOIN messages m ON m.number = said.rowid "
        "JOIN conversations c ON c.id = m.conversation_id "
        f"WHERE said MATCH ? AND said.rowid > ? AND c.deleted_at IS NULL AND {condition} "
        "ORDER BY said.rank, m.number DESC LIMIT ?",
        (match, floor[0] if floor else -1, *values, limit),
    ).fetchall()


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


def _hit(row: Sequence[Any], words: Sequence[str]) -> Hit:
    conversation_id, message_id, title, role, said_at, text = row
    line, spans = snippet_of(text, words)
    shown = title_from_file(title)
    return Hit(conversation_id, message_id, shown, role, said_at, line, spans)

"""Full-text search in all messages, by trigram indexes of texts, reasoning and tool calls.

Trigrams find substrings of three or more characters in any language. Shorter terms are compared
with every message, or with the matches of the longer terms.
"""

import sqlite3
from collections.abc import Sequence
from typing import Any, NamedTuple

from ui.records.store import (
    MAX_HITS,
    Hit,
    named_hit,
    query_terms,
    snippet_of,
)
from ui.records.titles import title_from_file

_INDEXED_CHARS = 3
_IS_KEPT = "c.deleted_at IS NULL"


class _Index(NamedTuple):
    """A text that is searched: the role of its hits, its index, its column."""

    role: str
    name: str
    text: str


_INDEXES = (
    _Index("m.role", "said", "m.text"),
    _Index("'thinking'", "worked", "w.thinking"),
    _Index("'tool'", "worked", "w.tools"),
)


def search(connection: sqlite3.Connection, query: str, limit: int = MAX_HITS) -> list[Hit]:
    """Return the matches of all terms of a query: titles first, then messages, best first."""
    terms = query_terms(query)
    if not terms:
        return []
    titles = _title_hits(connection, terms, limit)
    matches: list[tuple[float, Hit]] = []
    for index in _INDEXES:
        matches += _find_matches(connection, terms, index, limit)
    # A version of an answer repeats the messages after it: the first copy is enough.
    unique: dict[tuple[Any, ...], Hit] = {}
    for _, hit in sorted(matches, key=lambda match: match[0]):
        unique.setdefault((hit.conversation_id, hit.role, hit.sent_at, hit.snippet), hit)
    return [*titles, *unique.values()][:limit]


def _title_hits(connection: sqlite3.Connection, terms: Sequence[str], limit: int) -> list[Hit]:
    condition, values = _like_condition("c.title", terms)
    cursor = connection.execute(
        "SELECT c.id, c.title, c.updated_at FROM conversations c "
        f"WHERE {_IS_KEPT} AND {condition} ORDER BY c.updated_at DESC LIMIT ?",
        (*values, min(limit, 10)),
    ).fetchall()
    hits = (
        named_hit(identity, title_from_file(title), updated_at, terms)
        for identity, title, updated_at in cursor
    )
    return [hit for hit in hits if hit is not None]


def _find_matches(
    connection: sqlite3.Connection,
    terms: Sequence[str],
    index: _Index,
    limit: int,
) -> list[tuple[float, Hit]]:
    """Return the ranks and hits of an index."""
    long_terms = [term for term in terms if len(term) >= _INDEXED_CHARS]
    short_terms = [term for term in terms if len(term) < _INDEXED_CHARS]
    condition, values = _like_condition(index.text, short_terms)
    columns = f"m.conversation_id, m.id, c.title, {index.role}, m.created_at, {index.text}"
    joins = "JOIN conversations c ON c.id = m.conversation_id"
    if index.name == "worked":
        joins += " JOIN works w ON w.number = m.number"
    if not long_terms:
        cursor = connection.execute(
            f"SELECT {columns}, 0.0 FROM messages m {joins} "
            f"WHERE {_IS_KEPT} AND {condition} ORDER BY m.number DESC LIMIT ?",
            (*values, limit),
        )
        return _hits(cursor, terms)
    match = " AND ".join('"' + term.replace('"', '""') + '"' for term in long_terms)
    if index.name == "worked":
        match = f"{index.text.removeprefix('w.')} : ({match})"
    matching = f"FROM {index.name} AS i JOIN messages m ON m.number = i.rowid {joins}"
    matching += f" WHERE {index.name} MATCH ?"
    # Beyond this many matches the newest are ranked: nobody reads more, and ranking all is slow.
    ranked = max(1000, limit)
    floor = connection.execute(
        f"SELECT i.rowid FROM {index.name} AS i WHERE {index.name} MATCH ? "
        "ORDER BY i.rowid DESC LIMIT 1 OFFSET ?",
        (match, ranked),
    ).fetchone()
    cursor = connection.execute(
        f"SELECT {columns}, i.rank {matching} AND i.rowid > ? AND {_IS_KEPT} "
        f"AND {condition} ORDER BY i.rank, m.number DESC LIMIT ?",
        (match, floor[0] if floor else -1, *values, limit),
    )
    return _hits(cursor, terms)


def _hits(cursor: sqlite3.Cursor, terms: Sequence[str]) -> list[tuple[float, Hit]]:
    hits = []
    for conversation_id, message_id, title, role, sent_at, text, rank in cursor:
        shown = title_from_file(title)
        line, spans = snippet_of(text, terms)
        hits.append((rank, Hit(conversation_id, message_id, shown, role, sent_at, line, spans)))
    return hits


def _like_condition(column: str, terms: Sequence[str]) -> tuple[str, list[str]]:
    """Return a condition with all terms, and its values; both cases, as LIKE knows ASCII's only."""
    parts: list[str] = []
    values: list[str] = []
    for term in terms:
        forms = dict.fromkeys((term, term.lower(), term.upper(), term.capitalize()))
        if term.isascii():
            forms = dict.fromkeys((term,))
        parts.append("(" + " OR ".join(f"{column} LIKE ? ESCAPE '\\'" for _ in forms) + ")")
        for form in forms:
            escaped = form.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
            values.append(f"%{escaped}%")
    return " AND ".join(parts) or "1", values

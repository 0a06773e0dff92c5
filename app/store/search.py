"""Full-text search in all messages, by trigram indexes of texts, reasoning and tool calls.

Trigrams find substrings of three or more characters in any language. Shorter terms are compared
with every message, or with the matches of the longer terms.
"""

import sqlite3
from collections.abc import Sequence
from typing import Any, NamedTuple

from ui.records.store import (
    EVERYWHERE,
    MAX_HITS,
    Hit,
    SearchFilter,
    Speaker,
    named_hit,
    query_terms,
    snippet_of,
)
from ui.records.titles import title_from_file

_INDEXED_CHARS = 3
_ROLES = {"you": "user", "model": "assistant"}


class _Index(NamedTuple):
    """A text that is searched: the role of its hits, its index, its column, whose terms it has."""

    role: str
    name: str
    text: str
    speakers: tuple[Speaker, ...]


_INDEXES = (
    _Index("m.role", "said", "m.text", ("you", "model")),
    _Index("'thinking'", "worked", "w.thinking", ("model",)),
    _Index("'tool'", "worked", "w.tools", ("tool",)),
)


def search(
    connection: sqlite3.Connection,
    query: str,
    filter_: SearchFilter = EVERYWHERE,
    limit: int = MAX_HITS,
) -> list[Hit]:
    """Return the matches of all terms of a query: titles first, then messages, best first."""
    terms = query_terms(query)
    if not terms:
        return []
    titles = _title_hits(connection, terms, filter_, limit) if not filter_.speaker else []
    matches: list[tuple[float, Hit]] = []
    for index in _INDEXES:
        if not filter_.speaker or filter_.speaker in index.speakers:
            matches += _find_matches(connection, terms, filter_, index, limit)
    # A version of an answer repeats the messages after it: the first copy is enough.
    unique: dict[tuple[Any, ...], Hit] = {}
    for _, hit in sorted(matches, key=lambda match: match[0]):
        unique.setdefault((hit.conversation_id, hit.role, hit.sent_at, hit.snippet), hit)
    return [*titles, *unique.values()][:limit]


def _filter_condition(filter_: SearchFilter, created_at: str) -> tuple[str, list[Any]]:
    """Return the condition for the conversations and times of a search, and its values."""
    parts, values = ["c.deleted_at IS NULL"], list[Any]()
    if filter_.folder_id:
        parts.append("c.folder_id = ?")
        values.append(filter_.folder_id)
    if filter_.in_archive:
        parts.append("c.is_archived = 1")
    if filter_.searching_id:
        parts.append("c.is_archived = 0 AND c.id <> ?")
        values.append(filter_.searching_id)
    if filter_.without_folders:
        parts.append(f"c.folder_id NOT IN ({', '.join('?' * len(filter_.without_folders))})")
        values += filter_.without_folders
    if filter_.since:
        parts.append(f"{created_at} >= ?")
        values.append(filter_.since)
    return " AND ".join(parts), values


def _title_hits(
    connection: sqlite3.Connection, terms: Sequence[str], filter_: SearchFilter, limit: int
) -> list[Hit]:
    condition, values = _like_condition("c.title", terms)
    filter_condition, filter_values = _filter_condition(filter_, "c.updated_at")
    cursor = connection.execute(
        "SELECT c.id, c.title, c.updated_at FROM conversations c "
        f"WHERE {filter_condition} AND {condition} ORDER BY c.updated_at DESC LIMIT ?",
        (*filter_values, *values, min(limit, 10)),
    ).fetchall()
    hits = (
        named_hit(identity, title_from_file(title), updated_at, terms)
        for identity, title, updated_at in cursor
    )
    return [hit for hit in hits if hit is not None]


def _find_matches(
    connection: sqlite3.Connection,
    terms: Sequence[str],
    filter_: SearchFilter,
    index: _Index,
    limit: int,
) -> list[tuple[float, Hit]]:
    long_terms = [term for term in terms if len(term) >= _INDEXED_CHARS]
    short_terms = [term for term in terms if len(term) < _INDEXED_CHARS]
    condition, values = _like_condition(index.text, short_terms)
    filter_condition, filter_values = _filter_condition(filter_, "m.created_at")
    if index.name == "said" and filter_.speaker:
        filter_condition += " AND m.role = ?"
        filter_values.append(_ROLES[filter_.speaker])
    columns = f"m.conversation_id, m.id, c.title, {index.role}, m.created_at, {index.text}"
    joins = "JOIN conversations c ON c.id = m.conversation_id"
    if index.name == "worked":
        joins += " JOIN works w ON w.number = m.number"
    if not long_terms:
        cursor = connection.execute(
            f"SELECT {columns}, 0.0 FROM messages m {joins} "
            f"WHERE {filter_condition} AND {condition} ORDER BY m.number DESC LIMIT ?",
            (*filter_values, *values, limit),
        )
        return _hits(cursor, terms, filter_.snippet_chars)
    match = " AND ".join('"' + term.replace('"', '""') + '"' for term in long_terms)
    if index.name == "worked":
        match = f"{index.text.removeprefix('w.')} : ({match})"
    matching = f"FROM {index.name} AS i JOIN messages m ON m.number = i.rowid {joins}"
    matching += f" WHERE {index.name} MATCH ?"
    # Beyond this many matches the newest are ranked: nobody reads more, and ranking all is slow.
    ranked = max(1000, limit)
    if filter_ == EVERYWHERE:  # the index alone is faster
        newest_query = f"FROM {index.name} AS i WHERE {index.name} MATCH ?", (match,)
    else:
        newest_query = f"{matching} AND {filter_condition}", (match, *filter_values)
    floor = connection.execute(
        f"SELECT i.rowid {newest_query[0]} ORDER BY i.rowid DESC LIMIT 1 OFFSET ?",
        (*newest_query[1], ranked),
    ).fetchone()
    cursor = connection.execute(
        f"SELECT {columns}, i.rank {matching} AND i.rowid > ? AND {filter_condition} "
        f"AND {condition} ORDER BY i.rank, m.number DESC LIMIT ?",
        (match, floor[0] if floor else -1, *filter_values, *values, limit),
    )
    return _hits(cursor, terms, filter_.snippet_chars)


def _hits(
    cursor: sqlite3.Cursor, terms: Sequence[str], snippet_chars: int
) -> list[tuple[float, Hit]]:
    hits = []
    for conversation_id, message_id, title, role, sent_at, text, rank in cursor:
        shown = title_from_file(title)
        line, spans = snippet_of(text, terms, snippet_chars)
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

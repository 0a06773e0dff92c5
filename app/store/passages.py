"""Full-text search in the passages of documents, by words and BM25. Store's thread.

A document belongs to a conversation, whose messages have its text, or to a folder of conversations.
Those of a conversation are indexed when they are searched, so that the index may be lost at any
time, and is removed with messages and drafts. Characters of Chinese, Japanese and Korean are
indexed one by one, between zero-width spaces, and searched in pairs.
"""

import json
import logging
import re
import sqlite3
from array import array
from collections.abc import Iterable, Sequence
from contextlib import closing
from itertools import pairwise
from operator import mul
from unicodedata import combining, normalize

from app.store.database import is_damage
from app.store.schema import PASSAGE_BITS, migrate
from app.store.statements import ADD_PASSAGE, transaction
from ui.records.passages import (
    CJK,
    Document,
    Found,
    IndexedDocument,
    Passage,
    PassageSearch,
    QuestionVector,
    is_about_all,
    merge_rankings,
    passages_of,
    spread,
    words_of,
)

_MAX_FOUND = 500
# Every passage has a distance to a question; as many are about it as most models have room for.
_MAX_NEAR = 20
_MAX_TERMS = 100
# How often a word occurs raises its score in BM25 up to k1 + 1 times; FTS5 has k1 = 1.2.
_SATURATION = 2.2
# Shorter words are in too many others; longer texts are no words.
_COMPOUND_CHARS, _MAX_WORD_CHARS = 5, 64
_APART = "\u200b"
_SEPARATED = re.compile(f"([{CJK}])")

_KNOWN = "SELECT id FROM documents WHERE owner = ?"
_ADD_DOCUMENT = "INSERT INTO documents(owner, id, name, passages, remark) VALUES (?, ?, ?, ?, ?)"
_SHOW = (
    "UPDATE documents SET passages = ? * abs(passages) WHERE owner = ? AND id = ? AND passages <> 0"
)
_SEARCHED = (
    "SELECT number, id, name, passages, remark, owner FROM documents "
    "WHERE owner IN (?, ?) AND passages > 0 "
    "ORDER BY owner = ?, number"
)
_WITHIN = "passage_words MATCH ? AND rowid BETWEEN ? AND ?"
_COUNT = f"SELECT count(*) FROM passage_words WHERE {_WITHIN}"
_RANK = (
    f"SELECT rowid, bm25(passage_words) FROM passage_words WHERE {_WITHIN} ORDER BY 2, 1 LIMIT ?"
)
_COMPOUNDS = (
    "WITH words AS MATERIALIZED (SELECT value FROM json_each(?)) "
    "SELECT term FROM passage_vocabulary WHERE length(term) >= ? AND EXISTS (SELECT 1 FROM words "
    "WHERE instr(term, value) OR instr(value, term)) ORDER BY length(term) LIMIT ?"
)
_VECTORS = "SELECT number, vector FROM passages WHERE number BETWEEN ? AND ? AND embedded_by = ?"
_WITHOUT_VECTOR = (
    "SELECT p.number, p.text FROM documents d JOIN passages p "
    f"ON p.number BETWEEN d.number << {PASSAGE_BITS} AND (d.number + 1 << {PASSAGE_BITS}) - 1 "
    "WHERE d.owner IN (?, ?) AND d.passages > 0 AND p.embedded_by <> ? LIMIT ?"
)
_PASSAGE = "SELECT number, text, page, last_page, heading FROM passages WHERE number = ?"

_log = logging.getLogger(__name__)


def folder_documents(connection: sqlite3.Connection, folder_id: str) -> list[IndexedDocument]:
    """Return the documents of a folder that can be searched."""
    rows = connection.execute(
        "SELECT number, id, name, passages, remark FROM documents WHERE owner = ? AND passages > 0 "
        "ORDER BY number",
        (folder_id,),
    )
    return [IndexedDocument(*row) for row in rows]


def _range_of(document: IndexedDocument) -> tuple[int, int]:
    """Return the first and the last number that its passages may have."""
    return document.number << PASSAGE_BITS, (document.number + 1 << PASSAGE_BITS) - 1


def find_passages(connection: sqlite3.Connection, search: PassageSearch) -> Found:
    """Return the passages about questions.

    A damaged index is rebuilt; if the file cannot be used, as on a full disk, the conversation's
    documents are searched in memory.
    """
    try:
        try:
            return _find(connection, search)
        except sqlite3.DatabaseError as error:
            if not is_damage(error):
                raise
            _log.error("the index of passages is being rebuilt", exc_info=error)
            connection.execute("INSERT INTO passage_words(passage_words) VALUES ('rebuild')")
            return _find(connection, search)
    except sqlite3.DatabaseError as error:
        _log.error("passages are searched in memory", exc_info=error)
        return find_in_memory(search)


def find_in_memory(search: PassageSearch) -> Found:
    """Return the passages about questions, from an index that is dropped then; any thread."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as memory:
        migrate(memory)
        return _find(memory, search)


def _find(connection: sqlite3.Connection, search: PassageSearch) -> Found:
    own_id, folder_id, questions = search.conversation_id, search.folder_id, search.questions
    _index(connection, own_id, search.documents, keeps_others=search.is_draft)
    known = connection.execute(_SEARCHED, (own_id, folder_id, folder_id))
    own = {document.id for document in search.documents}
    searched = [
        IndexedDocument(*row) for *row, owner in known if (owner == own_id) == (row[1] in own)
    ]
    numbers: list[int] = []
    if questions and not is_about_all(questions[-1]):
        rankings = [_rank(connection, searched, questions[-1:])]
        if len(questions) > 1:  # such as "and in 2023?"
            rankings.append(_rank(connection, searched, questions))
        if search.vector is not None:
            rankings.append(_near(connection, searched, search.vector))
        numbers = merge_rankings(rankings)
    is_spread = not numbers
    if is_spread:
        orders = [
            [_range_of(document)[0] + position for position in spread(document.passages)]
            for document in searched
            if document.id in own or is_about_all(questions[-1] if questions else "")
        ]
        numbers = merge_rankings(orders)
    owners = {document.number: document.id for document in searched}
    rows = (connection.execute(_PASSAGE, (number,)) for number in numbers[:_MAX_FOUND])
    ranked = [(owners[row[0] >> PASSAGE_BITS], _passage(*row)) for cursor in rows for row in cursor]
    return Found(searched, ranked, is_spread)


def _index(
    connection: sqlite3.Connection,
    owner: str,
    documents: Sequence[Document],
    *,
    keeps_others: bool,
) -> None:
    """Index the documents of a conversation."""
    by_id = {document.id: document for document in documents}
    known = {identity for (identity,) in connection.execute(_KNOWN, (owner,))}
    unused = set() if keeps_others else known - by_id.keys()
    if not unused and by_id.keys() <= known:
        return
    with transaction(connection):
        for identity in unused:
            remove_document(connection, owner, identity)
        for identity, document in by_id.items():
            if identity not in known:
                number = begin_document(connection, owner, document)
                count = add_passages(connection, number, passages_of(document))
                end_document(connection, number, count)


def begin_document(
    connection: sqlite3.Connection, owner: str, document: Document, remark: str = ""
) -> int:
    """Add a document without passages, which is not searched yet; return its number."""
    remove_document(connection, owner, document.id)
    row = (owner, document.id, document.name, 0, remark)
    return connection.execute(_ADD_DOCUMENT, row).lastrowid or 0


def add_passages(connection: sqlite3.Connection, document: int, passages: Iterable[Passage]) -> int:
    """Add passages to a document; return their count."""
    rows = (
        (
            (document << PASSAGE_BITS) + passage.number,
            passage.page,
            passage.last_page,
            _separated(passage.heading),
            _separated(passage.text),
        )
        for passage in passages
    )
    return connection.executemany(ADD_PASSAGE, rows).rowcount


def end_document(connection: sqlite3.Connection, number: int, passages: int) -> None:
    """Let a document be searched."""
    connection.execute("UPDATE documents SET passages = ? WHERE number = ?", (passages, number))


def remove_document(connection: sqlite3.Connection, owner: str, identity: str) -> None:
    """Remove a document with its passages."""
    connection.execute("DELETE FROM documents WHERE owner = ? AND id = ?", (owner, identity))


def show_document(
    connection: sqlite3.Connection, owner: str, identity: str, *, is_shown: bool
) -> bool:
    """Show a whole document, or hide it until the next start removes it; False without one."""
    row = (1 if is_shown else -1, owner, identity)
    return connection.execute(_SHOW, row).rowcount > 0


def _separated(text: str) -> str:
    text = text.replace(_APART, "")
    return _SEPARATED.sub(f"{_APART}\\1{_APART}", text)


def _passage(number: int, text: str, page: int, last_page: int, heading: str) -> Passage:
    heading, text = heading.replace(_APART, ""), text.replace(_APART, "")
    return Passage(number & (1 << PASSAGE_BITS) - 1, text, page, last_page, heading)


def _rank(
    connection: sqlite3.Connection, documents: Sequence[IndexedDocument], questions: Sequence[str]
) -> list[int]:
    """Return the numbers of the passages with words of questions, best first.

    Words of more than half of the passages are left out, unless there are no others. Words that
    occur nowhere are replaced by those that contain them or are part of them, as in compounds.
    Of many passages, those that lack words of the best one, and not only occurrences, are left out;
    few are all used, and are too few to rate words as rare.
    """
    terms = dict.fromkeys(term for question in questions for term in _terms(question))
    total = sum(document.passages for document in documents)
    rare: list[str] = []
    common: list[str] = []
    unknown: list[str] = []
    for term in [*terms][-_MAX_TERMS:]:
        count = sum(
            connection.execute(_COUNT, (term, *_range_of(document))).fetchone()[0]
            for document in documents
        )
        if count:
            (rare if count * 2 <= total else common).append(term)
        else:
            unknown.append(term.strip('"'))
    rare += _compounds(connection, unknown)
    found: list[tuple[float, int]] = []
    if query := " OR ".join(rare or common):
        for document in documents:
            rows = connection.execute(_RANK, (query, *_range_of(document), _MAX_FOUND))
            found += ((score, number) for number, score in rows)
    found.sort()
    if len(found) > _MAX_NEAR:
        threshold = found[0][0] / _SATURATION
        found = [(score, number) for score, number in found if score <= threshold]
    return [number for _, number in found]


def _near(
    connection: sqlite3.Connection, documents: Sequence[IndexedDocument], question: QuestionVector
) -> list[int]:
    """Return the numbers of the passages whose vectors are nearest to a question's."""
    vector = array("f", question.vector)
    near: list[tuple[float, int]] = []
    for document in documents:
        for number, stored in connection.execute(_VECTORS, (*_range_of(document), question.model)):
            if len(stored) == len(question.vector):
                near.append((-sum(map(mul, vector, array("f", stored))), number))
    return [number for _, number in sorted(near)[:_MAX_NEAR]]


def passages_without_vector(
    connection: sqlite3.Connection, owners: tuple[str, str], model: str, count: int
) -> list[tuple[int, str]]:
    """Return the numbers and texts of some passages that have no vector of a model yet."""
    rows = connection.execute(_WITHOUT_VECTOR, (*owners, model, count))
    return [(number, text.replace(_APART, "")) for number, text in rows]


def save_vectors(
    connection: sqlite3.Connection, model: str, vectors: Iterable[tuple[int, bytes]]
) -> None:
    """Save the vectors of passages, by their numbers."""
    rows = ((model, vector, number) for number, vector in vectors)
    connection.executemany("UPDATE passages SET embedded_by = ?, vector = ? WHERE number = ?", rows)


def _terms(question: str) -> list[str]:
    """Return the words of a text as strings of FTS5; of Chinese and its like, pairs."""
    words = words_of(question.casefold())
    terms: list[str] = []
    is_paired = False
    for word, after in pairwise([*words, ""]):
        if not re.fullmatch(f"[{CJK}]", word):
            terms.append(f'"{word}"')
            is_paired = False
        elif re.fullmatch(f"[{CJK}]", after):
            terms.append(f'"{word} {after}"')
            is_paired = True
        else:
            terms += [] if is_paired else [f'"{word}"']
            is_paired = False
    return terms


def _compounds(connection: sqlite3.Connection, words: Iterable[str]) -> list[str]:
    """Return the indexed words that contain one of some words, or that one contains."""
    plain = ["".join(c for c in normalize("NFKD", word) if not combining(c)) for word in words]
    parts = [word for word in plain if _COMPOUND_CHARS <= len(word) <= _MAX_WORD_CHARS]
    if not parts:
        return []
    rows = connection.execute(_COMPOUNDS, (json.dumps(parts), _COMPOUND_CHARS, _MAX_TERMS))
    return [f'"{term}"' for (term,) in rows]

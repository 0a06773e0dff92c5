"""Reads the rows of a backup, or the readable rows of a damaged file. Blocks."""

import contextlib
import math
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from app.store.database import COMPANIONS, decode_text
from app.store.rows import (
    ATTACHED,
    DOCUMENTS,
    FACTS,
    FOLDERS,
    PASSAGES,
    PRESETS,
    ConversationRow,
    MessageRow,
    Pair,
    RecoveredRows,
    fact_row,
    unsent_from,
)
from ui.records.codec import moment, shown_rank
from ui.records.facts import Fact, facts_from

_BATCH_ROWS = 256
# Damaged rows in succession after which the rest of a table is given up: some seconds.
_MAX_DAMAGED_ROWS = 100_000
_NO_TITLE = "Recovered conversation"
# SQLite's errors, and Python's errors for their damaged messages.
_ERRORS = (sqlite3.Error, UnicodeDecodeError, OverflowError, MemoryError)

Row = tuple[Any, ...]


def readable_rows(path: Path) -> tuple[RecoveredRows, int]:
    """Return the readable rows of a file, valid for another one, and the number of the others."""
    with _open_copy(path) as connection:
        reader = _Reader(connection)
        return reader.read(), reader.unreadable


@contextlib.contextmanager
def _open_copy(path: Path) -> Iterator[sqlite3.Connection]:
    with tempfile.TemporaryDirectory(prefix="fullstop-") as folder:
        copy = Path(folder) / "copy.db"
        for companion in COMPANIONS:
            with contextlib.suppress(FileNotFoundError):
                shutil.copyfile(f"{path}{companion}", f"{copy}{companion}")
        connection = sqlite3.connect(copy, isolation_level=None)
        connection.text_factory = decode_text
        try:
            # A schema with a damaged entry is used as far as it is readable.
            connection.execute("PRAGMA writable_schema = ON")
            connection.execute("PRAGMA cell_size_check = ON")
            connection.execute("PRAGMA trusted_schema = OFF")
            yield connection
        finally:
            connection.close()


class _Reader:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self.unreadable = 0
        self._connection = connection
        self._conversations: dict[str, ConversationRow] = {}
        self._deleted: set[str] = set()

    def read(self) -> RecoveredRows:
        for row in self._rows("conversations", (*ConversationRow._fields, "deleted_at")):
            self._take_conversation(ConversationRow(*row[:-1]), is_deleted=row[-1] is not None)
        messages = self._messages()
        attached = [
            (row[0], row[1])
            for row in self._rows("attached", ATTACHED)
            if self._is_valid(_is_text(row[0]) and any(unsent_from(_text(row[1]))))
            and self._has_owner(row[0], time.time())
        ]
        presets = list(self._named("presets", PRESETS))
        folders = list(self._named("folders", FOLDERS))
        conversations = list(self._conversations.values())
        facts = [fact_row(fact) for fact in self._facts()]
        documents = self._typed("documents", DOCUMENTS, (int, str, str, str, str, int))
        of_folders = {identity for identity, _ in folders}
        documents = [row for row in documents if row[1] in of_folders and row[5] > 0]
        passages: list[Row] = []
        if documents:
            passages = self._typed("passages", PASSAGES, (int, int, int, str, str))
        return RecoveredRows(
            conversations, attached, messages, presets, folders, facts, documents, passages
        )

    def _take_conversation(self, row: ConversationRow, *, is_deleted: bool) -> None:
        if not self._is_valid(_is_text(row.id)):
            return
        if is_deleted:
            self._deleted.add(row.id)
            return
        defaults = ConversationRow._field_defaults
        missing = {name: value for name, value in defaults.items() if getattr(row, name) is None}
        self._conversations[row.id] = row._replace(**missing)._replace(
            title=_text(row.title) or _NO_TITLE,
            settings=_text(row.settings) or "{}",
            stops=_text(row.stops) or "[]",
            draft=_text(row.draft),
            is_pinned=row.is_pinned == 1,
            created_at=_time(row.created_at),
            updated_at=_time(row.updated_at),
            folder_id=_text(row.folder_id),
            is_archived=row.is_archived == 1,
            origin=_text(row.origin),
            stops_from=_text(row.stops_from),
        )

    def _messages(self) -> list[MessageRow]:
        """Return the messages; one whose parent is lost follows the message before it."""
        messages: list[MessageRow] = []
        earlier: dict[str, dict[str, None]] = {}
        for values in self._rows("messages", MessageRow._fields):
            row = MessageRow(*values)
            owner = row.conversation_id
            is_usable = _is_text(row.id) and _is_text(owner) and row.role in ("user", "assistant")
            created_at = _time(row.created_at)
            if not self._is_valid(is_usable and isinstance(row.text, str)):
                continue
            if not self._has_owner(owner, created_at):
                continue
            siblings, parent = earlier.setdefault(owner, {}), row.parent_id
            if parent is not None and parent not in siblings:
                parent = next(reversed(siblings), None)
            siblings[row.id] = None
            messages.append(
                row._replace(
                    parent_id=parent,
                    run=row.run if isinstance(row.run, str) else None,
                    is_running=False,
                    created_at=created_at,
                    shown_rank=shown_rank(row.shown_rank if isinstance(row.shown_rank, int) else 0),
                )
            )
        return messages

    def _has_owner(self, conversation_id: str, created_at: float) -> bool:
        """Return whether a row's conversation is not deleted; replace one whose row is lost."""
        if conversation_id in self._deleted:
            return False
        if conversation_id not in self._conversations:
            self._conversations[conversation_id] = ConversationRow(
                conversation_id, _NO_TITLE, "{}", "[]", "", False, created_at, created_at
            )
        return True

    def _named(self, table: str, columns: Sequence[str]) -> Iterator[Pair]:
        for row in self._rows(table, columns):
            if self._is_valid(_is_text(row[0]) and isinstance(row[1], str)):
                yield row[0], row[1]

    def _typed(self, table: str, columns: Sequence[str], types: Sequence[type]) -> list[Row]:
        return [
            row
            for row in self._rows(table, columns)
            if self._is_valid(all(map(isinstance, row, types)))
        ]

    def _facts(self) -> Iterator[Fact]:
        for row in self._rows("facts", FACTS):
            facts = facts_from([(row[0], row[1], row[2], row[3])])
            if self._is_valid(bool(facts)):
                yield from facts

    def _is_valid(self, is_valid: bool) -> bool:
        self.unreadable += not is_valid
        return is_valid

    def _rows(self, table: str, columns: Sequence[str]) -> Iterator[Row]:
        """Yield the readable rows of a table in their order; a missing column is NULL."""
        if self._query(f"SELECT 1 FROM {table} LIMIT 0") is None:
            return  # a table that a file of an earlier version lacks
        info = self._query(f"PRAGMA table_info({table})") or []
        known = {row[1] for row in info} or set(columns)
        selected = ", ".join(name if name in known else "NULL" for name in columns)
        query = (
            f"SELECT rowid, {selected} FROM {table} NOT INDEXED WHERE rowid >= ? "
            "ORDER BY rowid LIMIT ?"
        )
        first, count, damaged = 1, _BATCH_ROWS, 0
        while damaged <= _MAX_DAMAGED_ROWS:
            rows = self._query(query, first, count)
            if rows is None and count > 1:
                count = 1  # find the damaged row
            elif rows is None:
                damaged += 1
                first += 1
            else:
                self.unreadable += damaged
                if not rows:
                    return
                yield from (row[1:] for row in rows)
                first, count, damaged = rows[-1][0] + 1, _BATCH_ROWS, 0
        self.unreadable += 1  # how many follow is unknown

    def _query(self, query: str, *values: int) -> list[Row] | None:
        try:
            return self._connection.execute(query, values).fetchall()
        except _ERRORS:
            return None


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _time(value: object) -> float:
    is_number = isinstance(value, int | float) and math.isfinite(value)
    return moment(float(value)) if is_number else time.time()  # type: ignore[arg-type]

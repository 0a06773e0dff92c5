"""Copies the rows of a backup, or the readable rows of a damaged file, into the open database."""

import contextlib
import math
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from app.store.database import COMPANIONS, decode_text
from app.store.rows import (
    AttachedRow,
    ConversationRow,
    FolderRow,
    MessageRow,
    PresetRow,
    RecoveredRows,
    unsent_from,
)
from ui.records.codec import moment, shown_rank
from ui.records.store import Recovered

_BATCH_ROWS = 256
# The queries of a recovery: it ends within seconds, whatever the damage.
_MAX_QUERIES = 100_000
# The rows that are tried if even the last rowid cannot be read.
_ROWS_IF_UNKNOWN = 1 << 20
_MAX_ROWID = (1 << 63) - 2
_MAX_PROGRESS = 500_000_000  # progress bars use 32-bit numbers
_NO_TITLE = "Recovered conversation"
# SQLite's errors, and Python's errors for their damaged messages.
_ERRORS = (sqlite3.Error, UnicodeDecodeError, OverflowError, MemoryError)

Row = tuple[Any, ...]
Merge = Callable[[RecoveredRows], tuple[int, int]]


def recover_file(
    path: Path, merge: Merge, advance: Callable[[int, int], None], is_cancelled: Callable[[], bool]
) -> Recovered:
    """Copy all readable rows, some at a time; blocks.

    Args:
        path: The file, which is not changed.
        merge: Adds rows to the open database; returns the numbers of new conversations and
            messages.
        advance: Called with the number of rows read and of all rows.
        is_cancelled: Returns whether to end early.
    """
    conversations = messages = 0
    with _open_copy(path) as connection:
        rows = _RecoverableRows(connection)
        for batch in rows.batches():
            if is_cancelled():
                break
            new, new_messages = merge(batch)
            conversations, messages = conversations + new, messages + new_messages
            advance(rows.done, rows.total)
        return Recovered(conversations, messages, rows.unreadable)


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


class _RecoverableRows:
    """The readable rows of a file, made valid for another one."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.done = self.unreadable = 0
        self._connection = connection
        self._queries = 0
        self._conversations: set[str] = set()
        self._deleted: set[str] = set()
        self._messages: dict[str, list[str]] = {}
        tables = ("conversations", "messages", "attached", "presets", "folders")
        self._last_rowids = {table: self._last_rowid(table) for table in tables}
        self.total = sum(min(rowid, _MAX_PROGRESS) for rowid in self._last_rowids.values())

    def batches(self) -> Iterator[RecoveredRows]:
        """Yield the rows, each conversation before its messages."""
        attached = self._attached()
        for rows in self._batched("conversations", (*ConversationRow._fields, "deleted_at")):
            conversations = [new for row in rows if (new := self._conversation(row)) is not None]
            yield RecoveredRows(conversations, self._take_attached(attached, conversations))
        for rows in self._batched("messages", MessageRow._fields):
            lost: list[ConversationRow] = []
            messages = [self._message(row, lost) for row in rows]
            yield RecoveredRows(
                lost, self._take_attached(attached, lost), [each for each in messages if each]
            )
        lost = [_lost_conversation(each, time.time()) for each in attached.keys() - self._deleted]
        presets = [
            PresetRow(*row)
            for rows in self._batched("presets", PresetRow._fields)
            for row in rows
            if self._is_valid(_is_text(row[0]) and isinstance(row[1], str))
        ]
        folders = [
            FolderRow(*row)
            for rows in self._batched("folders", FolderRow._fields)
            for row in rows
            if self._is_valid(_is_text(row[0]) and isinstance(row[1], str))
        ]
        yield RecoveredRows(lost, self._take_attached(attached, lost), [], presets, folders)

    def _conversation(self, values: Row) -> ConversationRow | None:
        row, is_deleted = ConversationRow(*values[:-1]), values[-1] is not None
        if not self._is_valid(_is_text(row.id)):
            return None
        if is_deleted:
            self._deleted.add(row.id)
            return None
        self._conversations.add(row.id)
        return ConversationRow(
            id=row.id,
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

    def _message(self, values: Row, lost: list[ConversationRow]) -> MessageRow | None:
        """Return a valid message; adds the conversation of one whose conversation is lost."""
        row = MessageRow(*values)
        owner = row.conversation_id
        is_usable = _is_text(row.id) and _is_text(owner) and row.role in ("user", "assistant")
        if not self._is_valid(is_usable and isinstance(row.text, str)) or owner in self._deleted:
            return None
        created_at = _time(row.created_at)
        if owner not in self._conversations:
            self._conversations.add(owner)
            lost.append(_lost_conversation(owner, created_at))
        earlier = self._messages.setdefault(owner, [])
        parent = row.parent_id
        if parent is not None and parent not in earlier:
            parent = earlier[-1] if earlier else None  # the message that it followed is lost
        earlier.append(row.id)
        return row._replace(
            parent_id=parent,
            run=row.run if isinstance(row.run, str) else None,
            is_running=False,
            created_at=created_at,
            shown_rank=shown_rank(row.shown_rank if isinstance(row.shown_rank, int) else 0),
        )

    def _attached(self) -> dict[str, str]:
        """Return the files that wait to be sent, by conversation."""
        return {
            row[0]: row[1]
            for rows in self._batched("attached", AttachedRow._fields)
            for row in rows
            if self._is_valid(_is_text(row[0]) and any(unsent_from(_text(row[1]))))
        }

    def _take_attached(
        self, attached: dict[str, str], conversations: Sequence[ConversationRow]
    ) -> list[AttachedRow]:
        return [
            AttachedRow(each.id, attached.pop(each.id))
            for each in conversations
            if each.id in attached
        ]

    def _is_valid(self, is_valid: bool) -> bool:
        self.unreadable += not is_valid
        return is_valid

    def _last_rowid(self, table: str) -> int:
        try:
            (rowid,) = self._connection.execute(f"SELECT max(rowid) FROM {table}").fetchone()
        except _ERRORS:
            exists = self._query(f"SELECT 1 FROM {table} LIMIT 0") is not None
            return _ROWS_IF_UNKNOWN if exists else 0
        return min(rowid, _MAX_ROWID) if isinstance(rowid, int) and rowid > 0 else 0

    def _batched(self, table: str, columns: Sequence[str]) -> Iterator[list[Row]]:
        """Yield the rows of a table in their order, without unreadable ones."""
        info = self._query(f"PRAGMA table_info({table})") or []
        known = {row[1] for row in info} or set(columns)
        selected = ", ".join(name if name in known else "NULL" for name in columns)
        query = (
            f"SELECT rowid, {selected} FROM {table} NOT INDEXED WHERE rowid >= ? "
            "ORDER BY rowid LIMIT ?"
        )
        before, last = self.done, self._last_rowids[table]
        first, count = 1, _BATCH_ROWS
        while first <= last:
            rows = self._query(query, first, count)
            if rows is None and count > 1:
                count = 1
                continue
            if rows is None:
                following = self._readable_after(query, first, last) or last + 1
                lost = following - first
                self.unreadable += lost if lost < _ROWS_IF_UNKNOWN else 1
                first = following
                continue
            if not rows:
                break
            first = rows[-1][0] + 1
            count = min(count * 2, _BATCH_ROWS)
            self.done = before + min(first - 1, last, _MAX_PROGRESS)
            yield [row[1:] for row in rows]
        self.done = before + min(last, _MAX_PROGRESS)

    def _readable_after(self, query: str, bad: int, last: int) -> int | None:
        """Return the first readable row after a damaged one, by binary search."""
        step = 1
        while self._query(query, bad + step, 1) is None:
            if bad + step >= last:
                return None
            step = min(step * 2, last - bad)
        low, high = bad + step // 2, bad + step
        while high - low > 1:
            middle = (low + high) // 2
            if self._query(query, middle, 1) is None:
                low = middle
            else:
                high = middle
        return high

    def _query(self, query: str, *values: int) -> list[Row] | None:
        """Return the rows of a query; None if they cannot be read."""
        self._queries += 1
        if self._queries > _MAX_QUERIES:
            return None
        try:
            return self._connection.execute(query, values).fetchall()
        except _ERRORS:
            return None


def _lost_conversation(identity: str, created_at: float) -> ConversationRow:
    """Return the row of a conversation whose own row is lost."""
    return ConversationRow(identity, _NO_TITLE, "{}", "[]", "", False, created_at, created_at)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _time(value: object) -> float:
    is_number = isinstance(value, int | float) and math.isfinite(value)
    return moment(float(value)) if is_number else time.time()  # type: ignore[arg-type]

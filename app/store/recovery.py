"""Recovers what can be read of a damaged file, and brings it over into a sound one."""

import asyncio
import contextlib
import logging
import math
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.store.database import COMPANIONS, Database, replacing_bad_bytes, store_cause
from app.store.rows import (
    AttachedRow,
    ConversationRow,
    FolderRow,
    FoundRows,
    MessageRow,
    PresetRow,
    unsent_from,
)
from ui.records.codec import moment, shown_rank
from ui.records.store import Recovered

# Reads the rows of a damaged database that can still be read.
#
# Rows are read some at a time; if that fails, a binary search finds the next readable row.

_CONVERSATIONS = ("conversations", (*ConversationRow._fields, "deleted_at"))
_ATTACHED = ("attached", AttachedRow._fields)
_MESSAGES = ("messages", MessageRow._fields)
_PRESETS = ("presets", PresetRow._fields)
_FOLDERS = ("folders", FolderRow._fields)
# The number of rows to try if even the last row's number cannot be read.
_ROWS_IF_UNKNOWN = 1 << 20
# A limit of queries that ends within some seconds, whatever the damage.
_MOST_QUESTIONS = 100_000
# Files are read first, and conversations are worth more.
_MOST_QUESTIONS_FOR_FILES = 10_000
# One step further must still be a valid number for SQLite.
_LAST_ROW = (1 << 63) - 2
# Progress bars use 32-bit numbers.
_MOST_SHOWN = 500_000_000
# SQLite's errors, and Python's errors for their damaged messages.
_UNREADABLE = (sqlite3.Error, UnicodeDecodeError, OverflowError, MemoryError)
ROWS_AT_ONCE = 256
_NAMELESS = "Recovered conversation"

Row = tuple[Any, ...]


@dataclass(slots=True)
class Salvaged:
    """The progress of reading."""

    done: int = 0
    total: int = 0
    unreadable: int = 0


class Salvage:
    """The rows of a damaged database, ready to be written into a sound one."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._questions = 0
        self._conversations: set[str] = set()
        self._deleted: set[str] = set()
        # The readable messages of each conversation, to which orphans are attached.
        self._messages: dict[str, set[str]] = {}
        self._last: dict[str, str] = {}
        self._attached: dict[str, str] | None = None
        self._tables = (_ATTACHED, _CONVERSATIONS, _MESSAGES, _PRESETS, _FOLDERS)
        self.state = Salvaged()
        self._ends = {table: self._end_of(table) for table, _ in self._tables}
        self.state.total = sum(min(end, _MOST_SHOWN) for end in self._ends.values())

    def attached_to(self, conversations: Iterable[ConversationRow]) -> list[AttachedRow]:
        """Return the files that wait to be sent in these conversations."""
        files = self._attached_files()
        return [
            AttachedRow(conversation.id, files[conversation.id])
            for conversation in conversations
            if conversation.id in files
        ]

    def known_by_files(self) -> list[ConversationRow]:
        """Return rows of conversations of which only the files that wait to be sent are left.

        All conversations and messages have to be read before.
        """
        names = self._attached_files().keys() - self._conversations - self._deleted
        return [_lost(name, time.time()) for name in sorted(names)]

    def conversations(self) -> Iterator[ConversationRow]:
        """Yield the rows of conversations that were not deleted."""
        self._attached_files()
        for *values, deleted_at in self._rows(*_CONVERSATIONS):
            row = ConversationRow(*values)
            if not _is_text(row.id):
                self.state.unreadable += 1
            elif deleted_at is not None:
                self._deleted.add(row.id)
            else:
                self._conversations.add(row.id)
                yield ConversationRow(
                    id=row.id,
                    title=_text(row.title) or _NAMELESS,
                    settings=_text(row.settings) or "{}",
                    stops=_text(row.stops) or "[]",
                    draft=_text(row.draft),
                    is_pinned=row.is_pinned == 1,
                    created_at=_moment(row.created_at),
                    updated_at=_moment(row.updated_at),
                    folder_id=_text(row.folder_id),
                    is_archived=row.is_archived == 1,
                    origin=_text(row.origin),
                    stops_from=_text(row.stops_from),
                )

    def messages(self) -> Iterator[tuple[ConversationRow | None, MessageRow]]:
        """Yield messages, each with the row of its conversation where that one was lost."""
        for values in self._rows(*_MESSAGES):
            row = MessageRow(*values)
            holder, parent = row.conversation_id, row.parent_id
            is_usable = _is_text(row.id) and _is_text(holder) and row.role in ("user", "assistant")
            if not is_usable or not isinstance(row.text, str):
                self.state.unreadable += 1
                continue
            if holder in self._deleted:
                continue
            said_at = _moment(row.created_at)
            lost: ConversationRow | None = None
            if holder not in self._conversations:
                self._conversations.add(holder)
                lost = _lost(holder, said_at)
            known = self._messages.setdefault(holder, set())
            if parent is not None and parent not in known:
                parent = self._last.get(holder)  # what it followed was lost
            known.add(row.id)
            self._last[holder] = row.id
            yield (
                lost,
                row._replace(
                    parent_id=parent,
                    run=row.run if isinstance(row.run, str) else None,
                    is_running=False,
                    created_at=said_at,
                    shown_rank=shown_rank(row.shown_rank if isinstance(row.shown_rank, int) else 0),
                ),
            )

    def presets(self) -> Iterator[PresetRow]:
        for values in self._rows(*_PRESETS):
            row = PresetRow(*values)
            if _is_text(row.name) and isinstance(row.content, str):
                yield row
            else:
                self.state.unreadable += 1

    def folders(self) -> Iterator[FolderRow]:
        for values in self._rows(*_FOLDERS):
            row = FolderRow(*values)
            if _is_text(row.id) and isinstance(row.content, str):
                yield row
            else:
                self.state.unreadable += 1

    def _attached_files(self) -> dict[str, str]:
        """Return the files that wait to be sent, by conversation; few have any."""
        if self._attached is None:
            self._attached = {}
            self._questions = _MOST_QUESTIONS - _MOST_QUESTIONS_FOR_FILES
            for values in self._rows(*_ATTACHED):
                row = AttachedRow(*values)
                if _is_text(row.conversation_id) and any(unsent_from(_text(row.content))):
                    self._attached[row.conversation_id] = row.content
                else:
                    self.state.unreadable += 1
            self._questions = 0
        return self._attached

    def _end_of(self, table: str) -> int:
        try:
            (end,) = self._connection.execute(f"SELECT max(rowid) FROM {table}").fetchone()
        except _UNREADABLE:
            return _ROWS_IF_UNKNOWN if self._exists(table) else 0
        return min(end, _LAST_ROW) if isinstance(end, int) and end > 0 else 0

    def _exists(self, table: str) -> bool:
        try:
            self._connection.execute(f"SELECT 1 FROM {table} LIMIT 0")
        except _UNREADABLE:
            return False
        return True

    def _selected(self, table: str, columns: Sequence[str]) -> str:
        """Return the columns for a query; those that the file does not have are NULL."""
        try:
            table_info = self._connection.execute(f"PRAGMA table_info({table})").fetchall()
        except _UNREADABLE:
            table_info = []
        known = {row[1] for row in table_info} or set(columns)
        return ", ".join(name if name in known else "NULL" for name in columns)

    def _rows(self, table: str, columns: Sequence[str]) -> Iterator[Row]:
        """Yield the rows of a table in their order, without those that cannot be read."""
        query = (
            f"SELECT rowid, {self._selected(table, columns)} FROM {table} NOT INDEXED "
            "WHERE rowid >= ? "
            "ORDER BY rowid LIMIT ?"
        )
        done_before, end = self.state.done, self._ends[table]
        first, count = 1, ROWS_AT_ONCE
        while first <= end:
            batch = self._ask(query, first, count)
            if batch is None and count > 1:
                count = 1
                continue
            if batch is None:
                following = self._readable_after(query, first, end)
                lost = (following or end + 1) - first
                self.state.unreadable += lost if lost < _ROWS_IF_UNKNOWN else 1
                first = following or end + 1
                continue
            if not batch:
                break
            first = batch[-1][0] + 1
            count = min(count * 2, ROWS_AT_ONCE)
            self.state.done = done_before + min(first - 1, end, _MOST_SHOWN)
            yield from (row[1:] for row in batch)
        self.state.done = done_before + min(end, _MOST_SHOWN)

    def _readable_after(self, query: str, bad: int, end: int) -> int | None:
        """Return the first readable row after a damaged one; None if there is none."""
        step = 1
        while self._ask(query, bad + step, 1) is None:
            if bad + step >= end:
                return None
            step = min(step * 2, end - bad)
        low, high = bad + step // 2, bad + step
        while high - low > 1:
            middle = (low + high) // 2
            if self._ask(query, middle, 1) is None:
                low = middle
            else:
                high = middle
        return high

    def _ask(self, query: str, first: int, count: int) -> list[Row] | None:
        """Return some rows; None if they cannot be read."""
        self._questions += 1
        if self._questions > _MOST_QUESTIONS:
            return None
        try:
            return self._connection.execute(query, (first, count)).fetchall()
        except _UNREADABLE:
            return None


def _lost(identity: str, moment_s: float) -> ConversationRow:
    """Return the row of a conversation whose own row was lost."""
    return ConversationRow(
        identity, _NAMELESS, "{}", "[]", "", is_pinned=False, created_at=moment_s,
        updated_at=moment_s,
    )  # fmt: skip


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _moment(value: object) -> float:
    is_number = isinstance(value, int | float) and math.isfinite(value)
    return moment(float(value)) if is_number else time.time()  # type: ignore[arg-type]


# Copies the readable rows of a damaged database to a sound one.
#
# Reads from a copy: the damaged file stays as it is.

Take = Callable[[FoundRows], tuple[int, int]]


def bring_over(
    path: Path, take: Take, advance: Callable[[int, int], None], is_cancelled: Callable[[], bool]
) -> tuple[int, int, int]:
    """Copy all readable rows, some at a time."""
    conversations = messages = 0
    with _copied(path) as connection:
        salvage = Salvage(connection)

        def hand_over(rescued: FoundRows) -> None:
            nonlocal conversations, messages
            new, new_messages = take(rescued)
            conversations, messages = conversations + new, messages + new_messages
            advance(salvage.state.done, salvage.state.total)

        for some in _in_steps(salvage.conversations()):
            hand_over(FoundRows(some, salvage.attached_to(some)))
            if is_cancelled():
                break
        for pairs in _in_steps(salvage.messages()):
            if is_cancelled():
                break
            lost = [conversation for conversation, _ in pairs if conversation is not None]
            hand_over(FoundRows(lost, salvage.attached_to(lost), [row for _, row in pairs]))
        if not is_cancelled():
            lost = salvage.known_by_files()
            hand_over(
                FoundRows(
                    lost,
                    salvage.attached_to(lost),
                    presets=list(salvage.presets()),
                    folders=list(salvage.folders()),
                )
            )
        return conversations, messages, salvage.state.unreadable


def _in_steps(rows: Iterator[Any]) -> Iterator[list[Any]]:
    step: list[Any] = []
    for row in rows:
        step.append(row)
        if len(step) == ROWS_AT_ONCE:
            yield step
            step = []
    if step:
        yield step


@contextlib.contextmanager
def _copied(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a private copy of a damaged database for reading."""
    with tempfile.TemporaryDirectory(prefix="salvage-", dir=path.parent) as folder:
        copy = Path(folder) / "copy.db"
        for companion in COMPANIONS:
            with contextlib.suppress(FileNotFoundError):
                shutil.copyfile(f"{path}{companion}", f"{copy}{companion}")
        connection = sqlite3.connect(copy, isolation_level=None)
        connection.text_factory = replacing_bad_bytes
        try:
            # A schema with a damaged entry is used as far as it is readable.
            connection.execute("PRAGMA writable_schema = ON")
            connection.execute("PRAGMA cell_size_check = ON")
            connection.execute("PRAGMA trusted_schema = OFF")
            yield connection
        finally:
            connection.close()


# Recovers what can be read of a damaged database while the sound one is used. Main thread.

_log = logging.getLogger(__name__)


async def recover(
    path: Path,
    database: Database,
    advance: Callable[[int, int], None],
    is_cancelled: Callable[[], bool],
) -> Recovered:
    """Copy the readable rows of a damaged file, and read the sound file again."""
    loop = asyncio.get_running_loop()

    def take(rescued: FoundRows) -> tuple[int, int]:
        # Read on a separate thread, and written on the store's thread in small steps.
        return database.submit(database.take_over, rescued).result()

    def tell(done: int, total: int) -> None:
        loop.call_soon_threadsafe(advance, done, total)

    recovered, cause = (0, 0, 0), ""
    try:
        recovered = await asyncio.to_thread(bring_over, path, take, tell, is_cancelled)
    except (sqlite3.Error, OSError, ValueError) as error:
        _log.error("%s: not all could be recovered", path, exc_info=error)
        cause = "nothing in the file can be read"
        if isinstance(error, sqlite3.Error | OSError):
            cause = store_cause(error)
    await asyncio.wrap_future(database.submit(database.read_all))
    return Recovered(*recovered, cause)

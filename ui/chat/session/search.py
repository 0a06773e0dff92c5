"""The search in all conversations. Main thread."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from PySide6.QtCore import QAbstractListModel, QObject, Qt, QTimer, Signal

from engine.wording import counted
from ui.kit.labels import plain_tooltip
from ui.kit.rows import DISPLAY, NO_PARENT, Index
from ui.kit.tasks import finish_tasks, start_task
from ui.records.store import EVERYWHERE, MAX_HITS, ConversationStore, Hit, SearchFilter, query_terms

_ROLES = {
    "user": "You",
    "assistant": "Answer",
    "thinking": "Thinking",
    "tool": "Tool",
    "title": "Title",
}


def role_label(hit: Hit) -> str:
    """Return what a hit was found in."""
    return _ROLES[hit.role]


def since_days(days: int) -> float:
    """Return the Unix time at which the day began that was some days ago."""
    midnight = datetime.now().replace(hour=0, minute=0, second=0, microsecond=0)
    return (midnight - timedelta(days)).timestamp()


@dataclass(frozen=True, slots=True)
class FoundConversation:
    """A conversation with hits: their heading, or a hit itself, if its title or its only one."""

    conversation_id: str
    title: str
    hits: int
    sent_at: float  # of the newest hit
    hit: Hit | None = None

    @property
    def is_lone(self) -> bool:
        """Whether the row has the conversation's only hit below the title."""
        return self.hit is not None and self.hit.message_id is not None


@dataclass(frozen=True, slots=True)
class MoreHits:
    """A row that shows more."""

    conversation_id: str = ""
    count: int = 0

    @property
    def label(self) -> str:
        return f"{self.count} more" if self.count else "Show More"


SearchRow = FoundConversation | Hit | MoreHits


class Search(QAbstractListModel):
    """The hits of the newest query by conversation, that with the best hit first."""

    changed = Signal()

    row_role = int(Qt.ItemDataRole.UserRole) + 1

    def __init__(self, store: ConversationStore, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._store = store
        self._hits: list[Hit] = []
        self._rows: list[SearchRow] = []
        self._limit = MAX_HITS
        self._has_more = False
        # The conversations whose hits are all shown.
        self._whole: set[str] = set()
        self.query = ""
        self.filter = EVERYWHERE
        self.is_searching = False
        self._wait = QTimer(self, singleShot=True, interval=60)
        self._wait.timeout.connect(self._begin)

    @property
    def is_active(self) -> bool:
        return bool(query_terms(self.query))

    @property
    def found_conversations(self) -> int:
        return len({hit.conversation_id for hit in self._hits})

    @property
    def summary(self) -> str:
        """The number of rows below headings, and of headings, as text; empty for none."""
        if not self._hits:
            return ""
        found = counted(self.found_conversations, "conversation")
        if results := sum(hit.message_id is not None for hit in self._hits):
            found = f"{counted(results, 'result')} in {found}"
        return f"{found}, and more" if self._has_more else found

    def rowCount(self, parent: Index = NO_PARENT) -> int:
        return 0 if parent.isValid() else len(self._rows)

    def data(self, index: Index, role: int = DISPLAY) -> Any:
        if not index.isValid() or index.row() >= len(self._rows):
            return None
        row = self._rows[index.row()]
        if role == self.row_role:
            return row
        if role == Qt.ItemDataRole.ToolTipRole:
            return plain_tooltip(row.title) if isinstance(row, FoundConversation) else None
        if role in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.AccessibleTextRole):
            return _row_label(row, is_spoken=role == Qt.ItemDataRole.AccessibleTextRole)
        return None

    def flags(self, index: Index) -> Qt.ItemFlag:
        """Return that a heading can be chosen only if the words are in it."""
        row = self._rows[index.row()] if index.isValid() else None
        if isinstance(row, FoundConversation) and row.hit is None:
            return Qt.ItemFlag.NoItemFlags
        return super().flags(index)

    def at(self, row: int) -> SearchRow:
        return self._rows[row]

    def hit_at(self, row: int) -> Hit | None:
        """Return the hit of a row, or of a heading with the words; None for another row."""
        line = self._rows[row]
        if isinstance(line, FoundConversation):
            return line.hit
        return line if isinstance(line, Hit) else None

    def first_hit(self) -> int:
        """Return the row of the first hit; -1 if there is none."""
        return next((n for n in range(len(self._rows)) if self.hit_at(n) is not None), -1)

    def look_for(self, query: str) -> None:
        """Search for the words of a query; an empty one ends the search."""
        self.query = query
        self._ask_anew()

    def narrow(self, target: SearchFilter) -> None:
        if target != self.filter:
            self.filter = target
            self._ask_anew()

    def show_more(self, more: MoreHits) -> None:
        """Show the other hits of a conversation, or more hits of all."""
        if more.conversation_id:
            self._whole.add(more.conversation_id)
            self._lay_out()
        else:
            self._limit += MAX_HITS
            self._begin()

    async def finish(self) -> None:
        self._wait.stop()
        await finish_tasks(self)

    # -- inside ----------------------------------------------------------------------------

    def _ask_anew(self) -> None:
        self._limit = MAX_HITS
        self._whole.clear()
        self.is_searching = self.is_active
        if self.is_active:
            self._wait.start()
        else:
            self._wait.stop()
            self._show([])
        self.changed.emit()

    def _begin(self) -> None:
        start_task(self, self._search(self.query, self.filter, self._limit), "search")

    async def _search(self, query: str, target: SearchFilter, limit: int) -> None:
        hits = await self._store.search(query, target, limit + 1)
        if (query, target, limit) == (self.query, self.filter, self._limit):
            self.is_searching = False
            self._show(hits)
            self.changed.emit()

    def _show(self, hits: list[Hit]) -> None:
        self._hits, self._has_more = hits[: self._limit], len(hits) > self._limit
        self._lay_out()

    def _lay_out(self) -> None:
        """Show the hits by conversation; views keep their place where only rows are added."""
        rows = self._grouped()
        old = self._rows
        same = next((n for n, (a, b) in enumerate(zip(old, rows, strict=False)) if a != b), None)
        if same is None:
            same = min(len(old), len(rows))
        if same < len(old):
            self.beginRemoveRows(NO_PARENT, same, len(old) - 1)
            self._rows = old[:same]
            self.endRemoveRows()
        if same < len(rows):
            self.beginInsertRows(NO_PARENT, same, len(rows) - 1)
            self._rows = rows
            self.endInsertRows()

    def _grouped(self) -> list[SearchRow]:
        by_conversation: dict[str, list[Hit]] = {}
        for hit in self._hits:
            by_conversation.setdefault(hit.conversation_id, []).append(hit)
        rows: list[SearchRow] = []
        for identity, hits in by_conversation.items():
            newest = max(hit.sent_at for hit in hits)
            named = next((hit for hit in hits if hit.message_id is None), None)
            below = [hit for hit in hits if hit.message_id is not None]
            if named is None and len(below) == 1:
                rows.append(FoundConversation(identity, hits[0].title, 1, newest, below[0]))
                continue
            rows.append(FoundConversation(identity, hits[0].title, len(below), newest, named))
            is_whole = identity in self._whole or len(below) <= 3
            shown = below if is_whole else below[:2]
            shown = sorted(shown, key=lambda hit: hit.sent_at)  # as they are read
            rows += shown
            if len(shown) < len(below):
                rows.append(MoreHits(identity, len(below) - len(shown)))
        return [*rows, MoreHits()] if self._has_more else rows


def _row_label(row: SearchRow, *, is_spoken: bool) -> str:
    if isinstance(row, MoreHits):
        return f"{counted(row.count, 'more result')} here" if is_spoken and row.count else row.label
    if isinstance(row, FoundConversation):
        if not is_spoken:
            return row.title
        if row.is_lone and row.hit is not None:
            return _row_label(row.hit, is_spoken=True)
        where = f", {role_label(row.hit)} has the words" if row.hit else ""
        return f"Conversation {row.title}{where}, {counted(row.hits, 'result')}"
    return f"{role_label(row)} in {row.title}: {row.snippet}" if is_spoken else row.snippet

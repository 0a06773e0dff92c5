"""The search in all conversations. Main thread."""

from typing import Any

from PySide6.QtCore import (
    QAbstractListModel,
    QObject,
    Qt,
    QTimer,
    Signal,
)

from ui.kit.rows import DISPLAY, NO_PARENT, Index
from ui.kit.tasks import finish_tasks, start_task
from ui.records.store import ConversationStore, Hit, words_of

_WAIT_MS = 60


class Search(QAbstractListModel):
    """The hits of the newest query, best first.

    Signals:
        changed: The hits or the query have changed.
    """

    changed = Signal()

    hit_role = int(Qt.ItemDataRole.UserRole) + 1

    def __init__(self, store: ConversationStore, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._store = store
        self._hits: list[Hit] = []
        self.query = ""
        self.is_searching = False
        self._wait = QTimer(self, singleShot=True, interval=_WAIT_MS)
        self._wait.timeout.connect(self._begin)

    @property
    def is_active(self) -> bool:
        """Whether there is a query."""
        return bool(words_of(self.query))

    def rowCount(self, parent: Index = NO_PARENT) -> int:
        return 0 if parent.isValid() else len(self._hits)

    def data(self, index: Index, role: int = DISPLAY) -> Any:
        """Return a hit, or its text."""
        if not index.isValid() or index.row() >= len(self._hits):
            return None
        hit = self._hits[index.row()]
        if role == self.hit_role:
            return hit
        if role == Qt.ItemDataRole.DisplayRole:
            return hit.snippet
        if role == Qt.ItemDataRole.ToolTipRole:
            return hit.title
        if role == Qt.ItemDataRole.AccessibleTextRole:
            who = {"user": "You", "assistant": "Answer", "tag": "Tag"}.get(hit.role, "Title")
            return f"{who} in {hit.title}: {hit.snippet}"
        return None

    def at(self, row: int) -> Hit:
        return self._hits[row]

    def look_for(self, query: str) -> None:
        """Search for the words of a query; an empty one ends the search."""
        self.query = query
        self.is_searching = self.is_active
        if self.is_active:
            self._wait.start()
        else:
            self._wait.stop()
            self._show([])
        self.changed.emit()

    async def finish(self) -> None:
        """Wait until the search has ended."""
        self._wait.stop()
        await finish_tasks(self)

    def _begin(self) -> None:
        start_task(self, self._search(self.query), "search")

    async def _search(self, query: str) -> None:
        hits = await self._store.search(query)
        if query == self.query:
            self.is_searching = False
            self._show(hits)
            self.changed.emit()

    def _show(self, hits: list[Hit]) -> None:
        self.beginResetModel()
        self._hits = hits
        self.endResetModel()

"""The search field of the sidebar and its results. Main thread."""

from PySide6.QtCore import QModelIndex, Qt, Signal
from PySide6.QtGui import QFont, QKeyEvent
from PySide6.QtWidgets import QListView, QWidget

from ui.chat.session.search import FoundConversation, MoreHits, Search, role_label
from ui.chat.sidebar_rows import when_text
from ui.kit.fields import is_typed_text
from ui.kit.labels import label
from ui.kit.layouts import column
from ui.kit.rows import Index, RowContent, RowDelegate, RowPart
from ui.kit.theme import current_theme
from ui.records.store import Hit

_ELIDE = Qt.TextElideMode.ElideRight


class SearchResults(QWidget):
    """The hits by conversation, or a message that there are none."""

    chosen = Signal(object)  # Hit
    left = Signal()

    def __init__(self, search: Search) -> None:
        super().__init__()
        self._search = search
        self.list = _ResultList()
        self.list.setObjectName("conversation_list")
        self.list.setAccessibleName("Search results")
        self.list.setModel(search)
        self.list.setItemDelegate(_ResultDelegate(self.list))
        self.list.setMouseTracking(True)
        self.list.setVerticalScrollMode(QListView.ScrollMode.ScrollPerPixel)
        self.list.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.count = label("", "faint", 0.92, is_wrapped=True)
        self.count.setContentsMargins(16, 2, 16, 4)
        column(self.count, (self.list, 1), spacing=0, on=self)
        # Whether the user came here from the field by keyboard, and has not chosen a hit yet.
        self._is_entered = False
        self.list.clicked.connect(self._take)
        self.list.activated.connect(self._take)
        self.list.left.connect(self.left)
        search.changed.connect(self._refresh)
        self._refresh()

    def enter(self) -> None:
        first = self._search.first_hit()
        if first >= 0:
            if not self.list.currentIndex().isValid():
                self.list.setCurrentIndex(self._search.index(first))
            self.list.setFocus()
            self._is_entered = True
            self._choose(self.list.currentIndex())

    @property
    def is_walked(self) -> bool:
        return self._is_entered and self.list.hasFocus()

    def _take(self, index: QModelIndex) -> None:
        self._is_entered = False
        self._choose(index)

    def _choose(self, index: QModelIndex) -> None:
        if not index.isValid():
            return
        row = self._search.at(index.row())
        if isinstance(row, MoreHits):
            self._search.show_more(row)
            self.list.setCurrentIndex(self._search.index(index.row()))
        elif (hit := self._search.hit_at(index.row())) is not None:
            self.chosen.emit(hit)

    def _refresh(self) -> None:
        search = self._search
        if search.summary:
            self.count.setText(search.summary)
        elif search.is_searching:
            self.count.setText("Searching…")
        else:
            self.count.setText(
                f"No results for “{search.query.strip()}”. Try fewer or shorter words."
            )


class _ResultList(QListView):
    """A list that leaves letters to the composer."""

    left = Signal()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        before = self.currentIndex()
        if is_typed_text(event):
            event.ignore()
        elif event.key() == Qt.Key.Key_Escape:
            self.left.emit()
        else:
            super().keyPressEvent(event)
            if event.key() == Qt.Key.Key_Up and self.currentIndex() == before:
                self.left.emit()


class _ResultDelegate(RowDelegate):
    """Conversations as headings, hits on two lines with the matches in bold, and "more" rows."""

    @property
    def selected_color(self) -> str:
        return "bubble" if current_theme().colors.is_dark else "raised"

    def content(self, index: Index) -> RowContent | None:
        row, colors = index.data(Search.row_role), current_theme().colors
        if isinstance(row, Hit):
            return RowContent(
                RowPart(role_label(row), colors.muted),
                right=RowPart(when_text(row.sent_at)),
                subtitle=RowPart(row.snippet, colors.text, bold=row.spans),
                weight=QFont.Weight.Normal,
                inset_px=10,
            )
        if isinstance(row, FoundConversation):
            named = row.named
            title = (
                RowPart(row.title) if named is None else RowPart(named.snippet, bold=named.spans)
            )
            hits = RowPart(str(row.hits) if row.hits else "")
            has_ground = named is not None
            return RowContent(
                title, right=hits, weight=QFont.Weight.DemiBold, has_ground=has_ground
            )
        if isinstance(row, MoreHits):
            inset_px = 10 if row.conversation_id else 0
            title = RowPart(row.label, colors.link)
            return RowContent(title, weight=QFont.Weight.Normal, inset_px=inset_px)
        return None

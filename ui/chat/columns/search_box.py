"""The search field of the sidebar and its results. Main thread."""

from PySide6.QtCore import QModelIndex, QRect, QSize, Qt, Signal
from PySide6.QtGui import QColor, QFont, QFontMetrics, QKeyEvent, QPainter
from PySide6.QtWidgets import (
    QLineEdit,
    QListView,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QWidget,
)

from engine import counted
from ui.chat.columns.sidebar_rows import when_words
from ui.chat.storage.search import Search
from ui.kit.fields import add_clear_button, add_leading_icon, is_typed_text
from ui.kit.icons import draw_row_ground
from ui.kit.labels import label
from ui.kit.layouts import column
from ui.kit.rows import Index
from ui.kit.theme import current_theme
from ui.records.store import MOST_HITS, Hit

_ROLES = {"user": "You", "assistant": "Answer", "title": "Title", "tag": "Tag"}
_ELIDE = Qt.TextElideMode.ElideRight


class SearchField(QLineEdit):
    """The field for the words.

    Signals:
        entered: Down or Enter was pressed, to go to the list.
    """

    entered = Signal()

    def __init__(self, search: Search) -> None:
        super().__init__()
        self.setPlaceholderText("Search conversations")
        self.setAccessibleName("Search conversations")
        self.setToolTip("Search conversations (Ctrl+Alt+F)")
        add_leading_icon(self, "search")
        add_clear_button(self, "Clear the search")
        self.textChanged.connect(search.look_for)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Go to the list with Down or Enter, clear with Escape."""
        if event.key() in (Qt.Key.Key_Down, Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self.entered.emit()
        elif event.key() == Qt.Key.Key_Escape and self.text():
            self.clear()
        else:
            super().keyPressEvent(event)


class SearchResults(QWidget):
    """The hits, best first, or a message that there are none.

    Signals:
        chosen: A person chose a hit; carries the ``Hit``.
    """

    chosen = Signal(object)

    def __init__(self, search: Search) -> None:
        super().__init__()
        self._search = search
        self.list = _ResultList()
        self.list.setObjectName("conversation_list")
        self.list.setAccessibleName("Search results")
        self.list.setModel(search)
        self.list.setItemDelegate(_HitDelegate(self.list))
        self.list.setMouseTracking(True)
        self.list.setVerticalScrollMode(QListView.ScrollMode.ScrollPerPixel)
        self.list.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.count = label("", "faint", 0.92, is_wrapped=True)
        self.count.setContentsMargins(16, 2, 16, 4)
        column(self.count, (self.list, 1), spacing=0, on=self)
        # Whether a person came here from the field by keyboard, and has not chosen a hit yet.
        self._is_entered = False
        self.list.clicked.connect(self._take)
        self.list.activated.connect(self._take)
        search.changed.connect(self._refresh)
        self._refresh()

    def enter(self) -> None:
        """Take the focus and show the first hit, or the chosen one."""
        if self._search.rowCount():
            if not self.list.currentIndex().isValid():
                self.list.setCurrentIndex(self._search.index(0))
            self.list.setFocus()
            self._is_entered = True
            self._choose(self.list.currentIndex())

    @property
    def is_walked(self) -> bool:
        """Whether a person moves through the list with the keyboard."""
        return self._is_entered and self.list.hasFocus()

    def _take(self, index: QModelIndex) -> None:
        self._is_entered = False
        self._choose(index)

    def _choose(self, index: QModelIndex) -> None:
        if index.isValid():
            self.chosen.emit(self._search.at(index.row()))

    def _refresh(self) -> None:
        count = self._search.rowCount()
        if self._search.is_searching and not count:
            self.count.setText("Searching…")
        elif not count:
            self.count.setText(
                f"No results for “{self._search.query.strip()}”. Try fewer or shorter words."
            )
        else:
            more = " or more" if count == MOST_HITS else ""
            self.count.setText(f"{counted(count, 'result')}{more}{', best first' * (count > 1)}")


class _ResultList(QListView):
    """A list that leaves letters to the composer."""

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Move through the rows."""
        if is_typed_text(event):
            event.ignore()
        else:
            super().keyPressEvent(event)


class _HitDelegate(QStyledItemDelegate):
    """Draws two lines: role, conversation and time; then the text with the matches in bold."""

    def __init__(self, view: QWidget) -> None:
        super().__init__(view)
        self._view = view

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        return QSize(120, self._view.fontMetrics().lineSpacing() * 2 + 20)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """Draw the row."""
        hit = index.data(Search.hit_role)
        if not isinstance(hit, Hit):
            return
        colors = current_theme().colors
        area: QRect = option.rect.adjusted(8, 1, -8, -1)
        painter.save()
        chosen = colors.bubble if colors.is_dark else colors.raised
        has_ring = self._view.hasFocus()
        draw_row_ground(painter, area, option.state, colors, chosen=chosen, has_ring=has_ring)
        inner = area.adjusted(10, 7, -10, -7)
        half = inner.height() // 2
        self._paint_head(painter, QRect(inner.topLeft(), QSize(inner.width(), half)), hit)
        rest = QRect(inner.left(), inner.top() + half, inner.width(), inner.height() - half)
        self._paint_snippet(painter, rest, hit)
        painter.restore()

    def _paint_head(self, painter: QPainter, area: QRect, hit: Hit) -> None:
        theme = current_theme()
        small = QFont(self._view.font())
        small.setPointSizeF(small.pointSizeF() * 0.9)
        metrics = QFontMetrics(small)
        when = when_words(hit.said_at)
        painter.setFont(small)
        painter.setPen(QColor(theme.colors.faint))
        painter.drawText(area, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignRight, when)
        painter.setPen(QColor(theme.colors.muted))
        room = area.width() - metrics.horizontalAdvance(when) - 10
        head = metrics.elidedText(f"{_ROLES[hit.role]} · {hit.title}", _ELIDE, room)
        painter.drawText(area, Qt.AlignmentFlag.AlignVCenter, head)

    def _paint_snippet(self, painter: QPainter, area: QRect, hit: Hit) -> None:
        plain, bold = QFont(self._view.font()), QFont(self._view.font())
        bold.setWeight(QFont.Weight.DemiBold)
        colors = current_theme().colors
        left, place = area.left(), 0
        ends = [(hit.snippet[a : a + n], a, a + n) for a, n in hit.spans]
        for marked, start, end in [*ends, ("", len(hit.snippet), len(hit.snippet))]:
            for words, font, color in (
                (hit.snippet[place:start], plain, colors.text),
                (marked, bold, colors.link),
            ):
                metrics = QFontMetrics(font)
                room = area.right() - left
                if not words or room <= 0:
                    continue
                shown = metrics.elidedText(words, _ELIDE, room)
                painter.setFont(font)
                painter.setPen(QColor(color))
                spot = QRect(left, area.top(), room, area.height())
                painter.drawText(spot, Qt.AlignmentFlag.AlignVCenter, shown)
                left += metrics.horizontalAdvance(shown)
            place = end

"""The list of models that a hub offers: a row of two lines each. Main thread."""

from typing import Any

from PySide6.QtCore import (
    QAbstractListModel,
    QModelIndex,
    QObject,
    QPersistentModelIndex,
    QRect,
    QRectF,
    QSize,
    Qt,
    Signal,
)
from PySide6.QtGui import QColor, QFont, QFontMetrics, QKeyEvent, QPainter
from PySide6.QtWidgets import (
    QAbstractItemView,
    QListView,
    QStyledItemDelegate,
    QStyleOptionViewItem,
)

from ui.kit.look import icons
from ui.kit.look.row_ground import draw_row_ground
from ui.kit.look.theme import Theme
from ui.models.finding.finder import Finder
from ui.models.finding.offers import Offer, fit_state, row_words
from ui.models.finding.possession import Possession

Index = QModelIndex | QPersistentModelIndex

_OFFER = int(Qt.ItemDataRole.UserRole) + 1
_LINES = 2.0
_PAD_PX, _EDGE_PX, _GAP_PX, _ICON_PX = 9, 12, 12, 14


class OfferModel(QAbstractListModel):
    """The offers of a finder, with the state of each on this computer."""

    def __init__(self, finder: Finder, possession: Possession, parent: QObject) -> None:
        super().__init__(parent)
        self._finder = finder
        self._possession = possession
        finder.changed.connect(self._reset)
        finder.offer_changed.connect(self._row_changed)
        possession.changed.connect(self._all_changed)

    def rowCount(self, parent: Index | None = None) -> int:
        """Return the number of offers."""
        return 0 if parent is not None and parent.isValid() else len(self._finder.offers)

    def data(self, index: Index, role: int = int(Qt.ItemDataRole.DisplayRole)) -> Any:
        """Return an offer, or its words."""
        if not index.isValid() or index.row() >= len(self._finder.offers):
            return None
        offer = self._finder.offers[index.row()]
        match role:
            case Qt.ItemDataRole.DisplayRole:
                return offer.name
            case Qt.ItemDataRole.AccessibleTextRole:
                return self._spoken(offer)
        return offer if role == _OFFER else None

    def row_of(self, name: str) -> int:
        """Return the row of a name; -1 if it is not in the list."""
        names = [one.name for one in self._finder.offers]
        return names.index(name) if name in names else -1

    def state(self, offer: Offer) -> str:
        """Return what is here of an offer, in a few words."""
        return self._possession.words(offer.name)

    def _spoken(self, offer: Offer) -> str:
        fit = fit_state(offer, self._finder.memory)[0]
        words = (offer.name, offer.spoken, f"fit: {fit}", self.state(offer))
        return ", ".join(one for one in words if one)

    def _reset(self) -> None:
        self.beginResetModel()
        self.endResetModel()

    def _row_changed(self, row: int) -> None:
        self.dataChanged.emit(self.index(row), self.index(row))

    def _all_changed(self) -> None:
        if self.rowCount():
            self.dataChanged.emit(self.index(0), self.index(self.rowCount() - 1))


class OfferList(QListView):
    """Shows the offers.

    Signals:
        picked: An offer is the current one now; carries its name, which is empty for none.
        wanted: Enter was pressed on the current offer.
    """

    picked = Signal(str)
    wanted = Signal()

    def __init__(self, theme: Theme, finder: Finder, possession: Possession) -> None:
        super().__init__()
        self._picked = ""
        self.offers = OfferModel(finder, possession, self)
        self.setObjectName("offer_list")
        self.setAccessibleName("Models on the hub")
        self.setModel(self.offers)
        self.setItemDelegate(_OfferDelegate(theme, finder, self))
        self.setMouseTracking(True)
        self.setUniformItemSizes(True)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.offers.modelReset.connect(self._pick_again)
        theme.changed.connect(self.doItemsLayout)

    @property
    def current(self) -> Offer | None:
        """The offer that is shown beside the list."""
        offer = self.currentIndex().data(_OFFER)
        return offer if isinstance(offer, Offer) else None

    def pick(self, row: int) -> None:
        """Make an offer the current one."""
        self.setCurrentIndex(self.offers.index(row))

    def currentChanged(self, now: Index, before: Index) -> None:
        """Tell which offer is the current one."""
        super().currentChanged(now, before)
        offer = now.data(_OFFER)
        name = offer.name if isinstance(offer, Offer) else ""
        if name != self._picked:
            self._picked = name
            self.picked.emit(name)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Choose the current offer with Enter."""
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and self.current is not None:
            self.wanted.emit()
            event.accept()
            return
        super().keyPressEvent(event)

    def _pick_again(self) -> None:
        """Keep the current offer where the new list has it; otherwise its first one."""
        row = max(self.offers.row_of(self._picked), 0)
        if self.offers.rowCount():
            self.setCurrentIndex(self.offers.index(row))
        else:
            self.currentChanged(QModelIndex(), QModelIndex())


class _OfferDelegate(QStyledItemDelegate):
    """Name and fit above, facts and what is here below."""

    def __init__(self, theme: Theme, finder: Finder, view: OfferList) -> None:
        super().__init__(view)
        self._theme = theme
        self._finder = finder
        self._view = view

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        """Return the height of two lines."""
        line = self._view.fontMetrics().lineSpacing()
        return QSize(160, round(line * _LINES) + 2 * self._theme.gap(_PAD_PX) + 6)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """Draw the row."""
        offer = index.data(_OFFER)
        if not isinstance(offer, Offer):
            return
        colors, area = self._theme.colors, option.rect.adjusted(1, 1, -1, -1)
        painter.save()
        has_ring = self._view.hasFocus()
        draw_row_ground(
            painter, area, option.state, colors, chosen=colors.accent_soft, has_ring=has_ring
        )
        edge, pad = self._theme.gap(_EDGE_PX), self._theme.gap(_PAD_PX)
        inner = area.adjusted(edge, pad, -edge, -pad)
        half = inner.height() // 2
        self._paint_head(painter, QRect(inner.left(), inner.top(), inner.width(), half), offer)
        below = QRect(inner.left(), inner.top() + half, inner.width(), inner.height() - half)
        self._paint_facts(painter, below, offer)
        painter.restore()

    def _paint_head(self, painter: QPainter, line: QRect, offer: Offer) -> None:
        colors = self._theme.colors
        word, icon, tone = fit_state(offer, self._finder.memory)
        color = colors.tone(tone)[0]
        small = self._small()
        metrics, size = QFontMetrics(small), self._theme.px(_ICON_PX)
        width = metrics.horizontalAdvance(word)
        end = line.right() + 1
        painter.setFont(small)
        painter.setPen(QColor(color))
        painter.drawText(
            QRect(end - width, line.top(), width, line.height()),
            Qt.AlignmentFlag.AlignVCenter,
            word,
        )
        left = end - width - size - 4
        place = QRectF(left, line.top() + (line.height() - size) / 2, size, size)
        icons.draw(painter, place, icon, color)
        bold = QFont(self._view.font())
        bold.setWeight(QFont.Weight.Medium)
        room = QRect(line.left(), line.top(), left - line.left() - _GAP_PX, line.height())
        painter.setFont(bold)
        painter.setPen(QColor(colors.text))
        # The end of a name tells size and quantization, so its middle is left out.
        above = QFontMetrics(bold)
        name = above.elidedText(offer.name, Qt.TextElideMode.ElideMiddle, room.width())
        painter.drawText(room, Qt.AlignmentFlag.AlignVCenter, name)
        room.setLeft(room.left() + above.horizontalAdvance(name) + _GAP_PX)
        purpose = metrics.elidedText(offer.purpose, Qt.TextElideMode.ElideRight, room.width())
        if len(purpose) > 1:  # more than an ellipsis
            painter.setFont(small)
            painter.setPen(QColor(colors.match))
            painter.drawText(room, Qt.AlignmentFlag.AlignVCenter, purpose)

    def _paint_facts(self, painter: QPainter, line: QRect, offer: Offer) -> None:
        colors, small = self._theme.colors, self._small()
        metrics = QFontMetrics(small)
        painter.setFont(small)
        said = self._view.offers.state(offer)
        if said:
            width = metrics.horizontalAdvance(said)
            painter.setPen(QColor(colors.match))
            painter.drawText(
                line, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignRight, said
            )
            line = line.adjusted(0, 0, -width - _GAP_PX, 0)
        painter.setPen(QColor(colors.muted))
        facts = metrics.elidedText(row_words(offer), Qt.TextElideMode.ElideRight, line.width())
        painter.drawText(line, Qt.AlignmentFlag.AlignVCenter, facts)

    def _small(self) -> QFont:
        small = QFont(self._view.font())
        small.setPointSizeF(small.pointSizeF() * 0.9)
        return small

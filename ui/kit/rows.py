"""Rows of lists and tables: what models and delegates name in every room. Main thread."""

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QRect, QSize, Qt
from PySide6.QtGui import QColor, QFont, QFontMetrics, QPainter
from PySide6.QtWidgets import QListWidget, QStyledItemDelegate, QStyleOptionViewItem

from ui.kit.theme import current_theme

Index = QModelIndex | QPersistentModelIndex
# The role of what a cell shows, and the parent that rows of a list have.
DISPLAY = int(Qt.ItemDataRole.DisplayRole)
NO_PARENT = QModelIndex()

# The text of an item is the name, a line break, and the description.

_SIDE_PX, _ABOVE_PX, _BETWEEN_PX = 9, 6, 1
_WRAPPED = Qt.TextFlag.TextWordWrap | Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignTop
_SMALLER = 0.92


class TwoLinesDelegate(QStyledItemDelegate):
    """Draws the name in medium weight, and the description muted and wrapped."""

    def __init__(self, view: QListWidget) -> None:
        super().__init__(view)
        self._view = view
        view.setResizeMode(QListWidget.ResizeMode.Adjust)
        view.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        current_theme().changed.connect(view.scheduleDelayedItemsLayout)

    def initStyleOption(self, option: QStyleOptionViewItem, index: Index) -> None:  # noqa: N802
        """Leave the text to ``paint``; the style draws the background."""
        super().initStyleOption(option, index)
        option.text = ""

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        width = self._view.viewport().width() - 2 * self._view.spacing()
        name, rest = self._areas(index, QRect(0, 0, width, 1 << 16))
        return QSize(width, (rest if rest.height() else name).bottom() + 1 + _ABOVE_PX)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """Draw the row."""
        super().paint(painter, option, index)
        name, rest = _texts(index)
        medium, small = self._fonts()
        name_area, rest_area = self._areas(index, option.rect)
        colors = current_theme().colors
        painter.save()
        painter.setFont(medium)
        painter.setPen(QColor(colors.text))
        elided = QFontMetrics(medium).elidedText(
            name, Qt.TextElideMode.ElideMiddle, name_area.width()
        )
        painter.drawText(name_area, Qt.AlignmentFlag.AlignLeft, elided)
        painter.setFont(small)
        painter.setPen(QColor(colors.muted))
        painter.drawText(rest_area, _WRAPPED, rest)
        painter.restore()

    def _fonts(self) -> tuple[QFont, QFont]:
        medium, small = QFont(self._view.font()), QFont(self._view.font())
        medium.setWeight(QFont.Weight.Medium)
        small.setPointSizeF(small.pointSizeF() * _SMALLER)
        return medium, small

    def _areas(self, index: Index, room: QRect) -> tuple[QRect, QRect]:
        """Return the areas of the name and of the description in a row."""
        medium, small = self._fonts()
        inner = room.adjusted(_SIDE_PX, _ABOVE_PX, -_SIDE_PX, 0)
        name = QRect(inner.topLeft(), QSize(inner.width(), QFontMetrics(medium).lineSpacing()))
        below = inner.adjusted(0, name.height() + _BETWEEN_PX, 0, 0)
        rest = _texts(index)[1]
        height = QFontMetrics(small).boundingRect(below, _WRAPPED, rest).height() if rest else 0
        return name, QRect(below.topLeft(), QSize(below.width(), height))


def _texts(index: Index) -> tuple[str, str]:
    name, _, rest = str(index.data(DISPLAY) or "").partition("\n")
    return name, rest

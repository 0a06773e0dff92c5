"""Paints a model of the switcher: name and size, and below them facts and whether it fits.

Main thread.
"""

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QRect, QSize, Qt
from PySide6.QtGui import QColor, QFont, QFontMetrics, QPainter
from PySide6.QtWidgets import QStyledItemDelegate, QStyleOptionViewItem, QWidget

from ui.chat.switching.model_rows import ModelRow, ModelRows
from ui.kit.look import icons
from ui.kit.look.row_ground import draw_row_ground
from ui.kit.look.theme import Theme

_MARK_PX = 15
_ELIDE = Qt.TextElideMode.ElideMiddle  # the end of a model's name tells its quantization
_LEFT = Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft
_RIGHT = Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignRight


class ModelDelegate(QStyledItemDelegate):
    """Draws two lines per row; the model of the open conversation has a tick."""

    def __init__(self, theme: Theme, view: QWidget) -> None:
        super().__init__(view)
        self._theme = theme
        self._view = view
        theme.changed.connect(view.update)

    def sizeHint(
        self, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex
    ) -> QSize:
        """Return the height of two lines."""
        return QSize(120, self._view.fontMetrics().lineSpacing() * 2 + 18)

    def paint(
        self,
        painter: QPainter,
        option: QStyleOptionViewItem,
        index: QModelIndex | QPersistentModelIndex,
    ) -> None:
        """Draw the row."""
        row = index.data(ModelRows.row_role)
        if not isinstance(row, ModelRow):
            return
        colors = self._theme.colors
        area: QRect = option.rect.adjusted(6, 1, -6, -1)
        painter.save()
        draw_row_ground(
            painter, area, option.state, colors, chosen=colors.accent_soft, has_ring=True
        )
        mark = self._theme.px(_MARK_PX)
        if row.is_chosen:
            image = icons.pixmap("tick", colors.match, mark)
            painter.drawPixmap(area.left() + 9, area.center().y() - mark // 2, image)
        inner = area.adjusted(mark + 18, 7, -11, -7)
        half = inner.height() // 2
        name_color = colors.text if row.can_be_loaded else colors.muted
        medium, small = QFont(self._view.font()), QFont(self._view.font())
        medium.setWeight(QFont.Weight.Medium)
        small.setPointSizeF(small.pointSizeF() * 0.9)
        word, tone = row.state
        top = QRect(inner.left(), inner.top(), inner.width(), half)
        low = QRect(inner.left(), inner.top() + half, inner.width(), inner.height() - half)
        _draw(
            painter,
            top,
            (row.model.found.name, medium, name_color),
            (row.size, small, colors.muted),
        )
        _draw(painter, low, (row.facts, small, colors.muted), (word, small, colors.tone(tone)[0]))
        painter.restore()


Words = tuple[str, QFont, str]
"""Text with its font and color."""


def _draw(painter: QPainter, area: QRect, left: Words, right: Words) -> None:
    """Draw text at both ends of a line; the text at the right is never shortened."""
    words, font, color = right
    painter.setFont(font)
    painter.setPen(QColor(color))
    painter.drawText(area, _RIGHT, words)
    room = area.width() - (QFontMetrics(font).horizontalAdvance(words) + 12 if words else 0)
    words, font, color = left
    painter.setFont(font)
    painter.setPen(QColor(color))
    painter.drawText(area, _LEFT, QFontMetrics(font).elidedText(words, _ELIDE, max(0, room)))

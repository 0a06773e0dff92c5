"""Rows of lists, and the delegate that draws them. Main thread."""

from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QRect, QSize, Qt
from PySide6.QtGui import QColor, QFont, QFontMetrics, QPainter
from PySide6.QtWidgets import QAbstractItemView, QStyledItemDelegate, QStyleOptionViewItem, QWidget

from ui.kit import icons
from ui.kit.theme import current_theme

Index = QModelIndex | QPersistentModelIndex
DISPLAY = int(Qt.ItemDataRole.DisplayRole)
CONTENT = int(Qt.ItemDataRole.UserRole) + 100
"""The role of a row's ``RowContent``."""
NO_PARENT = QModelIndex()

_MARGIN_PX, _SIDE_PX, _ABOVE_PX, _ICON_PX = 8, 10, 7, 14
_MIDDLE = Qt.AlignmentFlag.AlignVCenter


@dataclass(frozen=True, slots=True)
class RowPart:
    """A text of a row, with an icon before it."""

    text: str = ""
    color: str = ""  # empty for the default of its position
    icon: str = ""  # empty for none
    icon_color: str = ""  # empty for that of the text
    bold: Sequence[tuple[int, int]] = ()


_EMPTY = RowPart()


@dataclass(frozen=True, slots=True)
class RowContent:
    """A row of a list: title and right text above, subtitle and detail below."""

    title: RowPart
    arrow: str = ""  # the icon before the title of a row that unfolds others
    note: RowPart = _EMPTY
    right: RowPart = _EMPTY
    subtitle: RowPart = _EMPTY
    detail: RowPart = _EMPTY
    weight: QFont.Weight = QFont.Weight.Medium
    scale: float = 1.0  # of the title's size
    elide: Qt.TextElideMode = Qt.TextElideMode.ElideRight
    inset_px: int = 0
    kept_px: int = 0  # at the right, for a button that the delegate draws
    has_ground: bool = True


def _below(content: RowContent) -> list[RowPart]:
    """Return the lines below the title."""
    return [part for part in (content.subtitle, content.detail) if part.text]


class RowDelegate(QStyledItemDelegate):
    """Draws rows of one to three lines."""

    def __init__(self, view: QAbstractItemView, field: QWidget | None = None) -> None:
        """Draw the rows of a view; the arrow keys of a ``field`` may move in it, too."""
        super().__init__(view)
        self._view, self._field = view, field

    def content(self, index: Index) -> RowContent | None:
        """Return the content that the model has for a row, or else the two lines of its text."""
        content = index.data(CONTENT)
        if isinstance(content, RowContent):
            return content
        title, _, subtitle = str(index.data(DISPLAY) or "").partition("\n")
        elide = Qt.TextElideMode.ElideMiddle
        return RowContent(RowPart(title), subtitle=RowPart(subtitle), elide=elide)

    def ground(self, row: QRect) -> QRect:
        """Return the area of a row's ground; a scroll bar takes the place of its margin."""
        bar = self._view.verticalScrollBar()
        right_px = max(0, _MARGIN_PX - bar.width()) if bar.isVisible() else _MARGIN_PX
        return row.adjusted(_MARGIN_PX, 1, -right_px, -1)

    def height_px(self, lines: int) -> int:
        """Return the height of a row of so many lines."""
        return lines * self._view.fontMetrics().lineSpacing() + 2 * _ABOVE_PX + 2

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        content = self.content(index)
        return QSize(120, self.height_px(1 if content is None else 1 + len(_below(content))))

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        content = self.content(index)
        if content is None:
            return
        colors = current_theme().colors
        area = self.ground(option.rect).adjusted(content.inset_px, 0, 0, 0)
        painter.save()
        if content.has_ground:
            is_current = self._has_focus and index == self._view.currentIndex()
            icons.draw_row_ground(painter, area, option.state, colors, has_focus=is_current)
        inner = area.adjusted(_SIDE_PX, _ABOVE_PX, -_SIDE_PX - content.kept_px, -_ABOVE_PX)
        small = self._font(0.9, QFont.Weight.Normal)
        below = _below(content)
        inner.setHeight(inner.height() // (1 + len(below)))
        for number, part in enumerate(below, 1):
            line = inner.translated(0, number * inner.height())
            self._draw(painter, line, part, small, colors.muted)
        inner = self._draw_right(painter, inner, content.right, small, colors.faint)
        font = self._font(content.scale, content.weight)
        inner.setLeft(
            self._draw(painter, inner, RowPart("", "", content.arrow), font, colors.muted)
        )
        end = self._draw(painter, inner, content.title, font, colors.text, content.elide)
        inner.setLeft(end + _SIDE_PX)
        self._draw(painter, inner, content.note, small, colors.match)
        painter.restore()

    @property
    def _has_focus(self) -> bool:
        return self._view.hasFocus() or (self._field is not None and self._field.hasFocus())

    def _font(self, scale: float, weight: QFont.Weight) -> QFont:
        font = QFont(self._view.font())
        font.setPointSizeF(font.pointSizeF() * scale)
        font.setWeight(weight)
        return font

    def _draw_right(
        self, painter: QPainter, line: QRect, part: RowPart, font: QFont, color: str
    ) -> QRect:
        """Draw a part at the end of a line; return the rest of the line."""
        if not part.text and not part.icon:
            return QRect(line)
        width = QFontMetrics(font).horizontalAdvance(part.text) + 1  # advances have fractions
        width += (_ICON_PX + 4 if part.text else _ICON_PX) if part.icon else 0
        right = QRect(line.right() + 1 - width, line.top(), width, line.height())
        self._draw(painter, right, part, font, color)
        return line.adjusted(0, 0, -width - _SIDE_PX, 0)

    def _draw(
        self,
        painter: QPainter,
        line: QRect,
        part: RowPart,
        font: QFont,
        color: str,
        elide: Qt.TextElideMode = Qt.TextElideMode.ElideRight,
    ) -> int:
        """Draw a part at the beginning of a line; return where it ends."""
        left, right, position = line.left(), line.right() + 1, 0
        ink = QColor(part.color or color)
        if part.icon:
            image = icons.pixmap(part.icon, part.icon_color or part.color or color, _ICON_PX)
            painter.drawPixmap(left, line.center().y() - _ICON_PX // 2, image)
            left += _ICON_PX + 4
        bold = QFont(font)
        bold.setWeight(QFont.Weight.DemiBold)
        link = QColor(current_theme().colors.match)
        spans = [(begin, begin + length) for begin, length in part.bold]
        for begin, end in [*spans, (len(part.text), len(part.text))]:
            plain = part.text[position:begin]
            for text, look, pen in ((plain, font, ink), (part.text[begin:end], bold, link)):
                metrics = QFontMetrics(look)
                shown = metrics.elidedText(text, elide, max(0, right - left))
                if shown and (shown == text or len(shown) > 1):  # more than an ellipsis
                    painter.setFont(look)
                    painter.setPen(pen)
                    area = QRect(left, line.top(), right - left, line.height())
                    painter.drawText(area, _MIDDLE, shown)
                    left += metrics.horizontalAdvance(shown)
                if shown != text:
                    return left  # no later part stands behind an ellipsis
            position = end
        return left

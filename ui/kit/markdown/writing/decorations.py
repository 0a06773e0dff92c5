"""Places and paints cards, bars, rules and the lines of tables. Main thread."""

from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import (
    QColor,
    QFont,
    QPainter,
    QPainterPath,
    QPen,
    QTextBlock,
    QTextCursor,
    QTextDocument,
    QTextTable,
)

from ui.kit.markdown.writing.markdown_style import Decoration, MarkdownStyle

_CARD_RADIUS, _TABLE_RADIUS = 9, 6


@dataclass(frozen=True, slots=True)
class Grid:
    """The lines of a table: the edges of its columns and rows."""

    columns: tuple[float, ...]
    rows: tuple[float, ...]

    @property
    def area(self) -> QRectF:
        """The area of the table."""
        left, top = self.columns[0], self.rows[0]
        return QRectF(left, top, self.columns[-1] - left, self.rows[-1] - top)


def table_at(block: QTextBlock) -> QTextTable | None:
    """Return the table that a block is in; None if it is in none."""
    # Qt's type stubs do not say that the result may be None.
    found: QTextTable | None = QTextCursor(block).currentTable()
    return found


class Decorations:
    """Computes the geometry of the decorations beneath a document's text, and paints them."""

    def __init__(self, document: QTextDocument, style: MarkdownStyle) -> None:
        self._document = document
        self._style = style
        # Kept for one state of the layout, because measuring a row reads the document.
        self._grids: dict[Decoration, Grid] = {}
        self._grids_are_of: tuple[int, float] = (-1, 0.0)

    def area(self, one: Decoration, width: float, all_of_them: Sequence[Decoration]) -> QRectF:
        """Return the area of a decoration."""
        if one.kind == "table":
            return self.grid(one).area
        if one.kind == "quote":
            inner = [d for d in all_of_them if d.kind in ("code", "table")]
            top = self._end_of(one.start, width, inner).top()
            bottom = self._end_of(one.end, width, inner).bottom()
        else:
            top = self._block_area(one.start).top()
            bottom = self._block_area(one.end).bottom()
        if one.kind == "code":
            top, bottom = top - self._style.code_head_px, bottom + self._style.code_foot_px
        return QRectF(one.left_px, top, width - one.left_px, bottom - top)

    def grid(self, one: Decoration) -> Grid:
        """Return the lines of a table."""
        state = self._document.revision(), self._document.textWidth()
        if state != self._grids_are_of:
            self._grids_are_of, self._grids = state, {}
        grid = self._grids.get(one)
        if grid is None:
            grid = self._grids[one] = self._measured(one)
        return grid

    def _measured(self, one: Decoration) -> Grid:
        table = self.table(one)
        layout = self._document.documentLayout()
        pad = self._style.cell_pad_px
        tops = []
        for row in range(table.rows()):
            block = table.cellAt(row, 0).firstCursorPosition().block()
            tops.append(layout.blockBoundingRect(block).top() - pad)
        form = table.format()
        height = layout.frameBoundingRect(table).height() - form.topMargin() - form.bottomMargin()
        widths = [length.rawValue() for length in form.columnWidthConstraints()]
        first = layout.blockBoundingRect(table.cellAt(0, 0).firstCursorPosition().block())
        edges = [first.left() - pad]
        for width in widths:
            edges.append(edges[-1] + width)
        return Grid(tuple(edges), (*tops, tops[0] + height))

    def table(self, one: Decoration) -> QTextTable:
        """Return the table that is decorated."""
        table = table_at(self._document.findBlock(one.start))
        if table is None:
            raise LookupError(f"there is no table at {one.start}")
        return table

    def paint(self, painter: QPainter, one: Decoration, area: QRectF) -> None:
        """Paint one decoration beneath the text."""
        style = self._style
        match one.kind:
            case "quote":
                painter.setPen(Qt.PenStyle.NoPen)
                painter.setBrush(QColor(style.line))
                bar = QRectF(area.left() + 1, area.top(), style.px(3), area.height())
                painter.drawRoundedRect(bar, 1.5, 1.5)
            case "rule":
                painter.setPen(QPen(QColor(style.line), 1))
                middle = round(area.center().y()) + 0.5
                painter.drawLine(QPointF(area.left(), middle), QPointF(area.right(), middle))
            case "table":
                self._paint_table(painter, self.grid(one))
            case "code":
                self._paint_card(painter, one, area)
            case _:
                pass

    def _paint_card(self, painter: QPainter, one: Decoration, area: QRectF) -> None:
        style = self._style
        painter.setPen(QPen(QColor(style.line), 1))
        painter.setBrush(QColor(style.code_background))
        outline = QRectF(area.toAlignedRect()).adjusted(0.5, 0.5, -0.5, -0.5)
        painter.drawRoundedRect(outline, _CARD_RADIUS, _CARD_RADIUS)
        font = QFont(style.font)
        font.setPointSizeF(font.pointSizeF() * 0.86)
        painter.setFont(font)
        painter.setPen(QColor(style.muted))
        pad = style.code_pad_px
        height = style.code_head_px - 3
        head = QRectF(area.left() + pad, area.top() + 1, area.width() - style.px(100), height)
        label = painter.fontMetrics().elidedText(
            one.label or "code", Qt.TextElideMode.ElideRight, int(head.width())
        )
        painter.drawText(head, Qt.AlignmentFlag.AlignVCenter, label)

    def _paint_table(self, painter: QPainter, grid: Grid) -> None:
        style = self._style
        outline = QRectF(grid.area.toAlignedRect()).adjusted(0.5, 0.5, -0.5, -0.5)
        path = QPainterPath()
        path.addRoundedRect(outline, _TABLE_RADIUS, _TABLE_RADIUS)
        painter.save()
        painter.setClipPath(path, Qt.ClipOperation.IntersectClip)
        if len(grid.rows) > 1:
            head = QRectF(
                outline.left(), outline.top(), outline.width(), grid.rows[1] - outline.top()
            )
            painter.fillRect(head, QColor(style.code_background))
        painter.setPen(QPen(QColor(style.line), 1))
        for x in grid.columns[1:-1]:
            at = round(x) + 0.5
            painter.drawLine(QPointF(at, outline.top()), QPointF(at, outline.bottom()))
        for y in grid.rows[1:-1]:
            at = round(y) + 0.5
            painter.drawLine(QPointF(outline.left(), at), QPointF(outline.right(), at))
        painter.restore()
        painter.setPen(QPen(QColor(style.line), 1))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawRoundedRect(outline, _TABLE_RADIUS, _TABLE_RADIUS)

    def _block_area(self, position: int) -> QRectF:
        block = self._document.findBlock(position)
        return self._document.documentLayout().blockBoundingRect(block)

    def _end_of(self, position: int, width: float, inner: Sequence[Decoration]) -> QRectF:
        block = self._document.findBlock(position)
        begin, end = block.position(), block.position() + block.length()
        for one in inner:
            if one.start <= position <= one.end or begin <= one.end < end:
                return self.area(one, width, ())
        return self._block_area(position)

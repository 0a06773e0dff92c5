"""Draws the marks of the tape: bars, hatching, outlines, and lines above the letters.

Nothing lies behind or over a letter, so that each stays as readable as plain text. Main thread.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import cast

from PySide6.QtCore import QPoint, QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPen, QTextLine
from PySide6.QtWidgets import QTextEdit

from engine import TokenOrigin
from ui.kit.look.colors import Colors

_BAR_SHARE = 0.09  # of the height of a letter
_HATCH_SHARE = 0.24
_LINE_SHARE = 0.1
_HATCH_STEP_PX = 4
_ROUND_PX = 3


class MarkKind(Enum):
    """A mark of the tape; the legend explains it."""

    GUESSED = auto()
    FORCED = auto()
    HELD = auto()
    MATCHED = auto()


_OF_ORIGINS = {
    TokenOrigin.LOOKUP: MarkKind.GUESSED,
    TokenOrigin.PREDICTION: MarkKind.GUESSED,
    TokenOrigin.DRAFT: MarkKind.GUESSED,
    TokenOrigin.FORCED: MarkKind.FORCED,
    TokenOrigin.BUDGET: MarkKind.FORCED,
}


@dataclass(frozen=True, slots=True)
class Range:
    """Characters of the document, from the first to before the last."""

    begin: int
    end: int


@dataclass(slots=True)
class TapeMarks:
    """Where each token is on the tape, and which text is marked."""

    begins: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    marked: dict[MarkKind, list[Range]] = field(
        default_factory=lambda: {kind: [] for kind in MarkKind}
    )

    @property
    def kinds(self) -> list[MarkKind]:
        """The kinds of marks that are on the tape."""
        return [kind for kind, ranges in self.marked.items() if ranges]

    def mark(self, kind: MarkKind, written: Range) -> None:
        """Mark some text."""
        add(self.marked[kind], written)

    def mark_origin(self, origin: TokenOrigin, written: Range) -> None:
        """Mark a token's text by the token's origin, such as a guess."""
        kind = _OF_ORIGINS.get(origin)
        if kind is not None:
            self.mark(kind, written)

    def place_of(self, position: int) -> int:
        """Return the place of the token that a character belongs to, -1 before the first."""
        return bisect_right(self.begins, position) - 1

    def draw(self, view: QTextEdit, painter: QPainter, colors: Colors, chosen: int) -> None:
        """Draw the marks of the part that is in sight."""
        seen = _seen(view)
        height = view.fontMetrics().height()
        bar = max(2.0, height * _BAR_SHARE)
        first = max(0, self.place_of(seen.begin))
        last = bisect_left(self.begins, seen.end)
        color = QColor(colors.token)
        for place in range(first + (first + 1) % 2, last, 2):  # every other token
            for box in _boxes(view, Range(self.begins[place], self.ends[place])):
                painter.fillRect(QRectF(box.left(), box.bottom(), box.width(), bar), color)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        for kind, ranges in self.marked.items():
            for marked in _overlapping(ranges, seen):
                for box in _boxes(view, marked):
                    draw_mark(painter, box, kind, colors)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        if first <= chosen < last:
            painter.setPen(QPen(QColor(colors.text), 1.6))
            for box in _boxes(view, Range(self.begins[chosen], self.ends[chosen])):
                painter.drawRoundedRect(box.adjusted(-1, -1, 1, 1), _ROUND_PX, _ROUND_PX)


def add(ranges: list[Range], written: Range) -> None:
    """Add a range, or extend the one before it."""
    if ranges and ranges[-1].end == written.begin:
        ranges[-1] = Range(ranges[-1].begin, written.end)
    else:
        ranges.append(written)


def draw_mark(painter: QPainter, box: QRectF, kind: MarkKind, colors: Colors) -> None:
    """Draw one mark; its shape alone shows its kind, without color."""
    height = box.height()
    painter.setBrush(Qt.BrushStyle.NoBrush)
    match kind:
        case MarkKind.GUESSED | MarkKind.FORCED:
            thick = max(1.6, height * _LINE_SHARE)
            is_guessed = kind is MarkKind.GUESSED
            pen = QPen(QColor(colors.done if is_guessed else colors.tool), thick)
            pen.setCapStyle(Qt.PenCapStyle.FlatCap)
            if is_guessed:
                pen.setDashPattern([1.5, 1.5])
            painter.setPen(pen)
            y = box.top() - thick / 2
            painter.drawLine(QPointF(box.left() + 1, y), QPointF(box.right() - 1, y))
        case MarkKind.HELD:
            hatch = max(4.0, height * _HATCH_SHARE)
            _hatch(painter, QRectF(box.left(), box.bottom(), box.width(), hatch), colors)
        case MarkKind.MATCHED:
            painter.setPen(QPen(QColor(colors.match), 1.4))
            painter.drawRoundedRect(box.adjusted(0.5, 0, -0.5, 0), _ROUND_PX, _ROUND_PX)


def _hatch(painter: QPainter, area: QRectF, colors: Colors) -> None:
    """Fill an area with slanting lines that stay in place while the text scrolls."""
    painter.save()
    painter.setClipRect(area)
    painter.fillRect(area, QColor(colors.limit_soft))
    painter.setPen(QPen(QColor(colors.limit), 1.2))
    left, step = area.left() - area.height(), _HATCH_STEP_PX
    for number in range(int((area.width() + area.height()) / step) + 1):
        x = left + number * step
        painter.drawLine(QPointF(x, area.bottom()), QPointF(x + area.height(), area.top()))
    painter.restore()


def _overlapping(ranges: list[Range], seen: Range) -> Iterator[Range]:
    first = bisect_left(ranges, seen.begin, key=lambda one: one.end)
    for one in ranges[first:]:
        if one.begin > seen.end:
            return
        yield one


def _seen(view: QTextEdit) -> Range:
    size = view.viewport().size()
    corner = QPoint(size.width(), size.height())
    first = view.cursorForPosition(QPoint(0, 0)).position()
    return Range(first, view.cursorForPosition(corner).position() + 1)


def _boxes(view: QTextEdit, wanted: Range) -> Iterator[QRectF]:
    """Yield the rectangle of the letters for each line that the characters are in."""
    document = view.document()
    layout = document.documentLayout()
    across, down = view.horizontalScrollBar().value(), view.verticalScrollBar().value()
    block = document.findBlock(wanted.begin)
    while block.isValid() and block.position() < wanted.end:
        corner = layout.blockBoundingRect(block).topLeft()
        text, start = block.layout(), block.position()
        for number in range(text.lineCount()):
            line = text.lineAt(number)
            begin = max(wanted.begin - start, line.textStart())
            end = min(wanted.end - start, line.textStart() + line.textLength())
            if begin < end:
                left, right = _x_of(line, begin), _x_of(line, end)
                yield QRectF(
                    corner.x() + min(left, right) - across,
                    corner.y() + line.y() - down,
                    abs(right - left),
                    line.ascent() + line.descent(),
                )
        block = block.next()


def _x_of(line: QTextLine, position: int) -> float:
    x, _ = cast("tuple[float, int]", line.cursorToX(position))
    return x

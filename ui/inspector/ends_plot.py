"""The plot of several answers: a line for each, with a mark where it ended. Main thread."""

import math

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QFocusEvent,
    QFont,
    QFontMetricsF,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
)
from PySide6.QtWidgets import QSizePolicy, QWidget

from engine.recording.ends import SeededAnswer, Side
from engine.values.verdict import UNKNOWN_CONTEXT, shortest
from engine.wording import counted, percent, quoted
from ui.kit import icons
from ui.kit.theme import current_theme
from ui.words import verdict

_MARK_PX, _MIN_ROW_PX, _MAX_ROW_PX = 13, 8, 20
_GAP_PX = 24
_RIGHT_PX = 24  # half a mark and the number of its stop
_STEPS = {Qt.Key.Key_Up: -1, Qt.Key.Key_Down: 1}
_ENTER = (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Space)


def describe_answer(side: Side, answer: SeededAnswer) -> str:
    """Return how an answer ended, in one line."""
    parts = [f"Seed {answer.seed}", side.name]
    if answer.is_whole:
        parts.append(f"{shortest(answer.stop)}, {counted(answer.output_tokens, 'token')}")
        if answer.stop.dropped:
            parts.append(f"cut {quoted(answer.stop.dropped, 40)}")
        if (odds := answer.eos_probability) is not None:
            parts.append(f"odds of an end token {percent(odds)}")
    else:
        parts.append(f"has not ended, {counted(answer.output_tokens, 'token')}")
    return " · ".join(parts)


class EndsPlot(QWidget):
    """One or two sides beside each other, on the same seeds and the same scale.

    A click on a mark, or Return, opens its answer; the arrow keys walk through the answers.
    """

    opened = Signal(object, object)  # Side, SeededAnswer
    described = Signal(str)  # the answer below the pointer or the keyboard; empty for none

    def __init__(self) -> None:
        super().__init__()
        self._sides: list[Side] = []
        self._chosen: tuple[int, int] | None = None  # side, answer
        self.setAccessibleName("Ends of the answers")
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setMouseTracking(True)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        current_theme().changed.connect(self.update)

    def show_sides(self, sides: list[Side]) -> None:
        if sides is not self._sides:
            self._sides, self._chosen = sides, None
            self.updateGeometry()
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(480, round(self._frame_px + self._rows * 13))

    def minimumSizeHint(self) -> QSize:
        return QSize(240, round(self._frame_px + self._rows * _MIN_ROW_PX))

    def mark_at(self, side: int, row: int) -> QPointF:
        """Return the middle of an answer's mark."""
        area, answer = self._area(side), self._sides[side].answers[row]
        y = area.top() + (row + 0.5) * area.height() / self._rows
        return QPointF(area.left() + answer.output_tokens / self._longest * area.width(), y)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        found = self._find(event.position())
        if found is not None and event.button() == Qt.MouseButton.LeftButton:
            self._choose(found)
            self._open()

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        found = self._find(event.position())
        shape = Qt.CursorShape.ArrowCursor if found is None else Qt.CursorShape.PointingHandCursor
        self.setCursor(shape)
        self._describe(found or self._chosen)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        key = Qt.Key(event.key())
        if not self._sides:
            super().keyPressEvent(event)
        elif key in _STEPS:
            side, row = self._chosen or (0, -1 if key == Qt.Key.Key_Down else self._rows)
            self._choose((side, max(0, min(self._rows - 1, row + _STEPS[key]))))
        elif key in (Qt.Key.Key_Left, Qt.Key.Key_Right):
            _, row = self._chosen or (0, 0)
            self._choose((len(self._sides) - 1 if key == Qt.Key.Key_Right else 0, row))
        elif key in _ENTER and self._chosen is not None:
            self._open()
        else:
            super().keyPressEvent(event)

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        if self._chosen is None and self._sides:
            self._choose((0, 0))
        self.update()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self.update()

    def leaveEvent(self, event: QEvent) -> None:
        super().leaveEvent(event)
        self._describe(self._chosen)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        for number, side in enumerate(self._sides):
            self._paint_side(painter, number, side)
        self._paint_legend(painter)
        painter.end()

    # -- inside ----------------------------------------------------------------------------

    @property
    def _rows(self) -> int:
        return len(self._sides[0].answers) if self._sides else 1

    @property
    def _longest(self) -> int:
        return max((a.output_tokens for side in self._sides for a in side.answers), default=0) or 1

    @property
    def _stop_numbers(self) -> dict[str, str]:
        """The numbers of the stops of both sides, which tell their marks apart; none for one."""
        texts = dict.fromkeys(text for side in self._sides for text in side.request.stops.strings)
        numbers = {text: f"{number}" for number, text in enumerate(texts, 1)}
        return numbers if len(numbers) > 1 else {}

    @property
    def _frame_px(self) -> float:
        return 4.2 * self.fontMetrics().height() + 6

    def _area(self, number: int) -> QRectF:
        count, line = len(self._sides), self.fontMetrics().height()
        left = self.fontMetrics().averageCharWidth() * 4
        width = (self.width() - (count - 1) * _GAP_PX) / count
        height = min(self.height() - self._frame_px, self._rows * _MAX_ROW_PX)
        begin = number * (width + _GAP_PX) + left
        return QRectF(begin, 1.3 * line, width - left - _RIGHT_PX, height)

    def _paint_side(self, painter: QPainter, number: int, side: Side) -> None:
        area = self._area(number)
        self._paint_scale(painter, area, side)
        colors, line = current_theme().colors, painter.fontMetrics().height()
        numbers, pitch = self._stop_numbers, area.height() / self._rows
        numbered = max(1, math.ceil(line / pitch))  # each that has room
        size = min(_MARK_PX, max(8.0, pitch))
        for row, answer in enumerate(side.answers):
            middle = self.mark_at(number, row)
            if row % numbered == 0:
                painter.setPen(QColor(colors.faint))
                before = QRectF(0, middle.y() - line / 2, area.left() - 8, line)
                before.moveRight(area.left() - 8)
                painter.drawText(before, int(Qt.AlignmentFlag.AlignRight), f"{answer.seed}")
            painter.setPen(QPen(QColor(colors.strong_line), 1.4))
            painter.drawLine(QPointF(area.left(), middle.y()), middle)
            mark = QRectF(middle.x() - size / 2, middle.y() - size / 2, size, size)
            if self._chosen == (number, row) and self.hasFocus():
                painter.setPen(QPen(QColor(colors.accent), 1.6))
                painter.setBrush(Qt.BrushStyle.NoBrush)
                painter.drawEllipse(mark.adjusted(-3, -3, 3, 3))
            painter.setPen(Qt.PenStyle.NoPen)
            if answer.is_whole and answer.finished is not None:
                look = verdict(answer.finished, UNKNOWN_CONTEXT)
                painter.setBrush(QColor(colors.canvas))
                painter.drawEllipse(mark)
                icons.draw(painter, mark, look.icon, colors.tone(look.tone)[0])
                if number_of_stop := numbers.get(str(answer.stop.value)):
                    painter.setPen(QColor(colors.match))
                    beside = QRectF(mark.right() + 3, middle.y() - line / 2, _RIGHT_PX, line)
                    painter.drawText(beside, int(Qt.AlignmentFlag.AlignLeft), number_of_stop)
            elif answer.output_tokens:
                painter.setBrush(QColor(colors.faint))
                painter.drawEllipse(middle, 2.0, 2.0)

    def _paint_scale(self, painter: QPainter, area: QRectF, side: Side) -> None:
        """Draw a side's name, its axis, its quartiles and its median."""
        colors, flags = current_theme().colors, Qt.AlignmentFlag
        small = QFont(self.font())
        small.setPointSizeF(small.pointSizeF() * 0.9)
        painter.setFont(small)
        metrics = QFontMetricsF(small)
        line, scale = metrics.height(), area.width() / self._longest
        painter.setPen(QColor(colors.text))
        head = QRectF(area.left(), 0, area.width() + _RIGHT_PX, line)
        name = metrics.elidedText(side.name, Qt.TextElideMode.ElideRight, head.width())
        painter.drawText(head, int(flags.AlignLeft), name)
        foot = QRectF(area.left(), area.bottom() + 3, area.width(), line)
        end = counted(self._longest, "token")
        if (lengths := side.counts.lengths) is not None:
            box, x = QRectF(area), area.left() + lengths.median * scale
            box.setLeft(area.left() + lengths.lower * scale)
            box.setRight(area.left() + lengths.upper * scale + 1)
            painter.fillRect(box, QColor(colors.bubble))
            painter.setPen(QPen(QColor(colors.muted), 1, Qt.PenStyle.DashLine))
            painter.drawLine(QPointF(x, area.top()), QPointF(x, area.bottom()))
            painter.setPen(QColor(colors.muted))
            text = f"median {lengths.median:,.0f}"
            width = metrics.horizontalAdvance(text) + 2
            first = foot.left() + metrics.horizontalAdvance("0") + 6
            last = foot.right() - width - metrics.horizontalAdvance(end) - 6
            if first <= last:
                begin = max(first, min(x - width / 2, last))
                below = QRectF(begin, foot.top(), width, line)
                painter.drawText(below, int(flags.AlignHCenter), text)
        painter.setPen(QColor(colors.strong_line))
        painter.drawLine(area.bottomLeft(), area.bottomRight())
        painter.setPen(QColor(colors.muted))
        painter.drawText(foot, int(flags.AlignLeft), "0")
        painter.drawText(foot, int(flags.AlignRight), end)

    def _paint_legend(self, painter: QPainter) -> None:
        """Draw the mark of each reason, as far as there is room."""
        colors, line = current_theme().colors, painter.fontMetrics().height()
        numbers = self._stop_numbers
        ends = {
            f"{numbers.get(str(answer.stop.value), '')} {shortest(answer.stop)}".lstrip(): verdict(
                answer.finished, UNKNOWN_CONTEXT
            )
            for side in self._sides
            for answer in side.whole
            if answer.finished is not None
        }
        left, top = (self._area(0).left() if ends else 0.0), self.height() - 1.2 * line
        for text, look in ends.items():
            width = painter.fontMetrics().horizontalAdvance(text) + 2
            if left + _MARK_PX + 4 + width > self.width():
                return
            mark = QRectF(left, top + (line - _MARK_PX) / 2, _MARK_PX, _MARK_PX)
            icons.draw(painter, mark, look.icon, colors.tone(look.tone)[0])
            painter.setPen(QColor(colors.muted))
            area = QRectF(mark.right() + 4, top, width, line)
            painter.drawText(area, int(Qt.AlignmentFlag.AlignLeft), text)
            left = area.right() + 16

    def _find(self, point: QPointF) -> tuple[int, int] | None:
        """Return the ended answer whose mark is nearest to a point."""
        near: list[tuple[float, tuple[int, int]]] = []
        for number, side in enumerate(self._sides):
            for row, answer in enumerate(side.answers):
                away = (self.mark_at(number, row) - point).manhattanLength()
                if answer.is_whole and away <= _MARK_PX:
                    near.append((away, (number, row)))
        return min(near)[1] if near else None

    def _choose(self, chosen: tuple[int, int]) -> None:
        self._chosen = chosen
        self._describe(chosen)
        self.update()

    def _describe(self, found: tuple[int, int] | None) -> None:
        text = ""
        if found is not None:
            side = self._sides[found[0]]
            text = describe_answer(side, side.answers[found[1]])
        self.setAccessibleDescription(text)
        self.described.emit(text)

    def _open(self) -> None:
        if self._chosen is not None:
            side = self._sides[self._chosen[0]]
            answer = side.answers[self._chosen[1]]
            if answer.is_whole:
                self.opened.emit(side, answer)

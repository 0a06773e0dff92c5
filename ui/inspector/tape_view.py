"""The tape: a run's tokens side by side, with what was held, matched and cut.

Main thread. New tokens are appended; once drawn, a token no longer changes its look, except at the
end of the run. Only the newest tokens of a long run are drawn.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

from PySide6.QtCore import QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPainterPath,
    QPaintEvent,
    QPen,
    QTextBlockFormat,
    QTextCharFormat,
    QTextCursor,
)
from PySide6.QtWidgets import QTextEdit, QWidget

from engine import Channel, TokenOrigin, TokenTrace, counted, visible
from engine.recording.run_trace import RunTrace
from ui.inspector.pages import Range, align, boxes, seen
from ui.inspector.shown_run import CHANNEL_NAMES, Span, Tape, TokenMark
from ui.kit.colors import Colors
from ui.kit.labels import rescale
from ui.kit.layouts import FlowLayout
from ui.kit.theme import current_theme, fixed_font
from ui.words import ORIGIN_WORDS

# Marks: bars, hatching, outlines, and lines above the letters. Nothing lies behind or over a
# letter, so that each stays as readable as plain text.

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
    TokenOrigin.HEAD: MarkKind.GUESSED,
    TokenOrigin.FORCED: MarkKind.FORCED,
    TokenOrigin.BUDGET: MarkKind.FORCED,
}


@dataclass(slots=True)
class TapeMarks:
    """Where each token is on the tape, and which text is marked."""

    begins: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    marked: dict[MarkKind, list[Range]] = field(
        default_factory=lambda: {kind: [] for kind in MarkKind}
    )
    chips: list[Range] = field(default_factory=list)

    @property
    def kinds(self) -> list[MarkKind]:
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
        in_sight = seen(view)
        height = view.fontMetrics().height()
        bar = max(2.0, height * _BAR_SHARE)
        first = max(0, self.place_of(in_sight.begin))
        last = bisect_left(self.begins, in_sight.end)
        color = QColor(colors.token)
        for place in range(first + (first + 1) % 2, last, 2):  # every other token
            for box in boxes(view, Range(self.begins[place], self.ends[place])):
                painter.fillRect(QRectF(box.left(), box.bottom(), box.width(), bar), color)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        for chip in _overlapping(self.chips, in_sight):
            band = view.document().findBlock(chip.begin).blockFormat().background()
            is_band = band.style() != Qt.BrushStyle.NoBrush
            for box in boxes(view, chip):
                _round_corners(painter, box, band.color() if is_band else QColor(colors.raised))
        for kind, ranges in self.marked.items():
            for marked in _overlapping(ranges, in_sight):
                for box in boxes(view, marked):
                    draw_mark(painter, box, kind, colors)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        if first <= chosen < last:
            painter.setPen(QPen(QColor(colors.text), 1.6))
            for box in boxes(view, Range(self.begins[chosen], self.ends[chosen])):
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


def _round_corners(painter: QPainter, box: QRectF, ground: QColor) -> None:
    """Give what Qt has drawn square round corners, by what is around it."""
    corners, outer = QPainterPath(), QRectF(box.toAlignedRect())
    round_px = _ROUND_PX
    corners.addRect(outer)
    corners.addRoundedRect(outer, round_px, round_px)
    painter.fillPath(corners, ground)


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
    first = bisect_left(ranges, seen.begin, key=lambda part: part.end)
    for part in ranges[first:]:
        if part.begin > seen.end:
            return
        yield part


_WORDS = {
    MarkKind.GUESSED: (
        "drafted",
        "dotted: accepted draft token",
    ),
    MarkKind.FORCED: (
        "forced",
        "solid line above: the schema or the call allowed no other token",
    ),
    MarkKind.HELD: ("held back", "hatching below: held back, because it could become a stop"),
    MarkKind.MATCHED: ("stop", "outline: the stop that ended the answer"),
}
_SAMPLE = "abc"
_GAP_CHARS = 0.7


class TapeLegend(QWidget):
    """A sample and a word for each kind of mark; hidden if there are no marks."""

    def __init__(self) -> None:
        super().__init__()
        self._kinds: list[MarkKind] = []
        self._entries = {kind: _Entry(kind) for kind in MarkKind}
        layout = FlowLayout(self)
        for entry in self._entries.values():
            layout.addWidget(entry)
        self.show_kinds([], is_first=True)

    @property
    def kinds(self) -> list[MarkKind]:
        """The kinds that are explained now."""
        return self._kinds

    def show_kinds(self, kinds: Sequence[MarkKind], *, is_first: bool = False) -> None:
        """Explain these kinds of marks."""
        if list(kinds) == self._kinds and not is_first:
            return
        self._kinds = list(kinds)
        for kind, entry in self._entries.items():
            entry.setVisible(kind in kinds)
        self.setVisible(bool(kinds))
        said = "; ".join(f"{_WORDS[kind][0]}, {_WORDS[kind][1]}" for kind in kinds)
        self.setAccessibleName(f"Marks on the tape: {said}" if said else "Marks on the tape")


class _Entry(QWidget):
    """A few letters with a mark, and what the mark means."""

    def __init__(self, kind: MarkKind) -> None:
        super().__init__()
        self._kind = kind
        word, about = _WORDS[kind]
        self._word = word
        self.setAccessibleName(word)
        self.setAccessibleDescription(about)
        self.setToolTip(f"{about[0].upper()}{about[1:]}.")
        rescale(self, 0.92)
        current_theme().changed.connect(self.update)

    def sizeHint(self) -> QSize:
        metrics = self.fontMetrics()
        gaps = round(3 * _GAP_CHARS * metrics.averageCharWidth())
        width = metrics.horizontalAdvance(_SAMPLE) + metrics.horizontalAdvance(self._word) + gaps
        return QSize(width, round(metrics.height() * 1.5))

    def minimumSizeHint(self) -> QSize:
        return self.sizeHint()

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        metrics, colors = self.fontMetrics(), current_theme().colors
        top, height = metrics.height() * 0.22, metrics.height()
        sample = QRectF(1, top, metrics.horizontalAdvance(_SAMPLE), height)
        painter.setPen(QColor(colors.muted))
        painter.drawText(sample, _SAMPLE)
        left = sample.right() + _GAP_CHARS * metrics.averageCharWidth()
        painter.drawText(QRectF(left, top, self.width() - left, height), self._word)
        draw_mark(painter, sample, self._kind, colors)
        painter.end()


MAX_TOKENS = 1_000
_LINE_FEED = "⏎"
# Qt lays a block out again whenever it grows, so the length of blocks is limited.
_BLOCK_CHARS = 500
_LEAST_LINES, _NO_LIMIT_PX = 2, 1 << 14


class TapeView(QTextEdit):
    """Read-only; hover or the arrow keys choose a token.

    Signals:
        token_chosen: Another token was chosen; carries its place on the tape, or -1 for none.
    """

    token_chosen = Signal(int)

    def __init__(self) -> None:
        super().__init__()
        self._trace: RunTrace | None = None
        self._tape: Tape | None = None
        self._marks = TapeMarks()
        self._tokens: list[TokenTrace] = []
        self._channel: Channel | None = None
        self._is_ended = False
        self._chosen = -1
        self._continued = QTextBlockFormat()
        self._formats: dict[str, QTextCharFormat] = {}
        self.setReadOnly(True)
        self.setAccessibleName("Tape of tokens")
        self.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse
            | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )
        self.setUndoRedoEnabled(False)
        self.setMouseTracking(True)
        self.viewport().setMouseTracking(True)
        align(self)
        self.document().documentLayout().documentSizeChanged.connect(self._note_height)
        current_theme().changed.connect(self._draw_in_new_colors)

    def sizeHint(self) -> QSize:
        """Return the height of its tokens; as much as there is while an answer grows."""
        if self._trace is not None and not self._is_ended:
            return QSize(256, _NO_LIMIT_PX)
        text_px = self.document().size().height() + 2 * self.frameWidth()
        return QSize(256, max(round(text_px), self.minimumSizeHint().height()))

    def _note_height(self) -> None:
        if self._is_ended:  # while it grows, it has its share of the window
            self.updateGeometry()

    def minimumSizeHint(self) -> QSize:
        lines_px = _LEAST_LINES * self.fontMetrics().lineSpacing()
        return QSize(75, lines_px + round(2 * self.document().documentMargin()))

    @property
    def tape(self) -> Tape | None:
        """What is drawn."""
        return self._tape

    @property
    def mark_kinds(self) -> list[MarkKind]:
        """The kinds of marks that can be seen on it."""
        return self._marks.kinds

    @property
    def chosen(self) -> int:
        """The place of the chosen token; -1 for none."""
        return self._chosen

    def show_trace(self, trace: RunTrace | None) -> None:
        """Draw a run from its beginning."""
        self._trace = trace
        self._draw_again()

    def catch_up(self) -> None:
        """Draw the tokens that have arrived since the last time."""
        trace = self._trace
        if trace is None or not trace.tokens:
            return
        new = trace.tokens[-1].index + 1 - self._following
        if (trace.stop is not None) != self._is_ended or new > MAX_TOKENS:
            self._draw_again()
        elif new > 0:
            if len(self._tokens) + new > 2 * MAX_TOKENS:
                self._draw_again()  # the longer the tape, the more each addition costs
            else:
                self._append(Tape(trace, new))

    def token_at(self, place: int) -> TokenTrace | None:
        return self._tokens[place] if 0 <= place < len(self._tokens) else None

    def choose(self, place: int) -> None:
        """Choose a token by its place on the tape."""
        if place == self._chosen or not -1 <= place < len(self._tokens):
            return
        self._chosen = place
        token = self.token_at(place)
        words = "" if token is None else ORIGIN_WORDS[token.origin]
        self.viewport().setToolTip(words and f"{words[0].upper()}{words[1:]}.")
        self.viewport().update()
        self.token_chosen.emit(place)

    def choose_token(self, index: int) -> None:
        """Choose a token by its number in the run."""
        if self._tokens and 0 <= index - self._tokens[0].index < len(self._tokens):
            self.choose(index - self._tokens[0].index)
            self._go_to_chosen()
            self.ensureCursorVisible()

    # -- Qt's side -------------------------------------------------------------------------

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Choose the token under the mouse."""
        super().mouseMoveEvent(event)
        position = self.cursorForPosition(event.position().toPoint()).position()
        self.choose(self._marks.place_of(position))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Go from token to token with the arrow keys."""
        steps = {Qt.Key.Key_Left: -1, Qt.Key.Key_Right: 1}
        places = {Qt.Key.Key_Home: 0, Qt.Key.Key_End: len(self._tokens) - 1}
        key = Qt.Key(event.key())
        if key in steps and event.modifiers() == Qt.KeyboardModifier.NoModifier:
            place = self._chosen + steps[key]
            self.choose(max(0, min(len(self._tokens) - 1, place)))
        elif key in places:
            self.choose(places[key])
        else:
            super().keyPressEvent(event)
            return
        self._go_to_chosen()

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        if self._tokens:
            painter = QPainter(self.viewport())
            self._marks.draw(self, painter, current_theme().colors, self._chosen)
            painter.end()

    # -- drawing ---------------------------------------------------------------------------

    @property
    def _following(self) -> int:
        return self._tokens[-1].index + 1 if self._tokens else self._first_index

    @property
    def _first_index(self) -> int:
        return self._trace.tokens[0].index if self._trace and self._trace.tokens else 0

    def _draw_in_new_colors(self) -> None:
        chosen, place = self._chosen, self.verticalScrollBar().value()
        self._draw_again()
        self.choose(chosen)
        self.verticalScrollBar().setValue(place)

    def _draw_again(self) -> None:
        self.clear()
        self._formats.clear()
        self._marks = TapeMarks()
        self._tokens.clear()
        self._channel = None
        self._chosen = -1
        trace = self._trace
        self._is_ended = trace is not None and trace.stop is not None
        self._tape = None
        if trace is not None and trace.tokens:
            self._append(Tape(trace, MAX_TOKENS))
        self.updateGeometry()
        self.token_chosen.emit(-1)

    def _append(self, tape: Tape) -> None:
        if self._tape is None or self._is_ended:
            self._tape = tape
        bar = self.verticalScrollBar()
        is_at_end = bar.value() >= bar.maximum() - 4
        cursor = QTextCursor(self.document())
        cursor.movePosition(QTextCursor.MoveOperation.End)
        cursor.beginEditBlock()
        first = len(self._tokens)
        self._tokens += tape.tokens
        if first == 0 and tape.tokens[0].index > 0:
            cursor.insertText(f"… {counted(tape.tokens[0].index, 'earlier token')}\n", self._chip())
        row = -1
        for span in tape.spans():
            if span.row != row:
                row = span.row
                self._open_band(cursor, tape.tokens[row].channel)
                self._marks.begins.append(cursor.position())
                self._marks.ends.append(cursor.position())
            begin = cursor.position()
            self._write(cursor, span, tape, first + row)
            self._marks.mark_origin(tape.tokens[row].origin, Range(begin, cursor.position()))
            self._marks.ends[-1] = cursor.position()
        cursor.endEditBlock()
        if is_at_end:
            bar.setValue(bar.maximum())

    def _open_band(self, cursor: QTextCursor, channel: Channel) -> None:
        """Begin a band of its own color where the channel changes."""
        if channel is self._channel:
            return
        colors = current_theme().colors
        grounds = {Channel.THINKING: colors.quiet_soft, Channel.TOOL: colors.tool_soft}
        block = QTextBlockFormat()
        block.setLineHeight(140, QTextBlockFormat.LineHeightTypes.ProportionalHeight.value)
        if channel in grounds:
            block.setBackground(QColor(grounds[channel]))
        self._continued = QTextBlockFormat(block)
        block.setTopMargin(0 if self._channel is None else 8)
        if self._channel is None and channel is Channel.TEXT:
            cursor.setBlockFormat(block)
        else:
            if self._channel is not None:
                cursor.insertBlock(block)
            else:
                cursor.setBlockFormat(block)
            name = self._chip()
            name.setFontWeight(600)
            cursor.insertText(f"{CHANNEL_NAMES[channel]}  ", name)
        self._channel = channel

    def _write(self, cursor: QTextCursor, span: Span, tape: Tape, place: int) -> None:
        theme = current_theme()
        if span.is_chip:
            form = self._chip()
            if span.marks & TokenMark.CUT:
                form.setForeground(QColor(theme.colors.fault))
                form.setFontStrikeOut(True)
            self._write_chip(cursor, span.text, form)
            return
        if cursor.positionInBlock() > _BLOCK_CHARS:
            cursor.insertBlock(self._continued)
        form = self._plain()
        colors, begin = theme.colors, cursor.position()
        if span.marks & TokenMark.MATCHED:
            form.setBackground(QColor(colors.match_soft))
            form.setFontWeight(600)
        if span.marks & TokenMark.CUT:
            form.setForeground(QColor(colors.fault))
            form.setFontStrikeOut(True)
        *lines, last = visible(span.text).split(_LINE_FEED)
        for line in lines:
            # A line feed is shown and breaks the line, as it does in the answer.
            cursor.insertText(f"{line}{_LINE_FEED}", form)
            cursor.insertBlock(self._continued)
        cursor.insertText(last, form)
        written = Range(begin, cursor.position())
        if span.marks & TokenMark.HELD:
            self._marks.mark(MarkKind.HELD, written)
        if span.marks & TokenMark.MATCHED:
            self._marks.mark(MarkKind.MATCHED, written)
        stop = tape.stop
        ends = stop is not None and stop.rule_index is not None and span.marks & TokenMark.MATCHED
        if ends and place == len(self._tokens) - 1 and stop is not None:
            chip = self._chip()
            chip.setForeground(QColor(colors.on_accent))
            chip.setBackground(QColor(colors.accent))
            self._write_chip(cursor, f"stop {(stop.rule_index or 0) + 1}", chip)

    def _write_chip(self, cursor: QTextCursor, words: str, form: QTextCharFormat) -> None:
        begin = cursor.position()
        cursor.insertText(f" {words} ", form)
        self._marks.chips.append(Range(begin, cursor.position()))

    def _plain(self) -> QTextCharFormat:
        if "plain" not in self._formats:
            form = QTextCharFormat()
            form.setFont(fixed_font(self.font(), 1.12))
            form.setForeground(QColor(current_theme().colors.text))
            self._formats["plain"] = form
        return QTextCharFormat(self._formats["plain"])

    def _chip(self) -> QTextCharFormat:
        theme = current_theme()
        if "chip" not in self._formats:
            form = QTextCharFormat()
            form.setFont(fixed_font(self.font(), 0.82))
            form.setForeground(QColor(theme.colors.muted))
            form.setBackground(QColor(theme.colors.bubble))
            self._formats["chip"] = form
        return QTextCharFormat(self._formats["chip"])

    def _go_to_chosen(self) -> None:
        if self._chosen >= 0:
            cursor = self.textCursor()
            cursor.setPosition(self._marks.begins[self._chosen])
            self.setTextCursor(cursor)

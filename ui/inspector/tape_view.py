"""The tape: a run's tokens side by side, with marks for held, matched and cut text.

Main thread. New tokens are appended; once drawn, a token changes only at the end of the run. Only
the newest tokens of a long run are drawn.
"""

from bisect import bisect_right

from PySide6.QtCore import QMimeData, QPoint, QPointF, QRectF, Qt, Signal
from PySide6.QtGui import (
    QBrush,
    QColor,
    QContextMenuEvent,
    QFont,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QPixmap,
    QResizeEvent,
    QTextBlock,
    QTextBlockFormat,
    QTextCharFormat,
    QTextCursor,
    QTextDocument,
)
from PySide6.QtWidgets import QTextEdit

from engine.recording.replay import Replayed
from engine.recording.run_trace import RunTrace
from engine.stopping.record import Channel
from engine.stopping.repetition import Repetition
from engine.values.events import TokenTrace
from engine.wording import counted, visible
from ui.inspector.pages import align
from ui.inspector.shown_run import (
    CHANNEL_NAMES,
    Span,
    Tape,
    TokenMark,
    copy_of,
    describe_copy,
)
from ui.kit.colors import Colors
from ui.kit.flow_text import line_parts
from ui.kit.labels import ElidedLabel
from ui.kit.motion import edge_fade
from ui.kit.theme import current_theme, fixed_font
from ui.records.runs import Run
from ui.words import ORIGIN_DESCRIPTIONS

FORK_LABEL = "Fork at This Token…"
MAX_TOKENS = 1_000
_LINE_FEED = "⏎"
_JOINER = "\u2060"  # no line breaks there: a special token stays whole
_BREAK = "\u200b"  # before a token: lines break between tokens where they can
_UNSEEN = str.maketrans("", "", _JOINER + _BREAK)
# Shorter copies have no number: about half a line, as a chip takes a quarter of one.
_MIN_NUMBERED = 8

_LINES = QTextCharFormat.UnderlineStyle
LEGEND = {
    TokenMark.DRAFTED: "dotted: accepted draft token",
    TokenMark.FORCED: "underlined: forced, or chosen at a fork",
    TokenMark.HELD: "hatched: held back as a possible stop",
    TokenMark.MATCHED: "outlined: the stop that ended the answer",
    TokenMark.CUT: "red: cut off",
    TokenMark.LOST: "gray: cut by this list",
    TokenMark.GAINED: "green: kept by this list",
}
_FADE_PX = 20  # of the edge beyond which there is more text


class TapeView(QTextEdit):
    """Read-only; hover or the arrow keys choose a token, a click or Return requests its menu."""

    token_chosen = Signal(int)  # place on the tape, or -1 for none
    menu_requested = Signal(QPoint)  # position on the screen

    def __init__(self) -> None:
        super().__init__()
        self._trace: RunTrace | None = None
        self._run: Run | None = None
        self._cycles: tuple[Repetition, ...] = ()
        self._tried: Replayed | None = None
        self.marks = TokenMark.NONE
        self._stop_range = 0, 0  # document positions of the stop that ended the run
        self._begins: list[int] = []  # the document position of each token
        self._tokens: list[TokenTrace] = []
        self._channel: Channel | None = None
        self._is_ended = False
        self._chosen = -1
        self._continued = QTextBlockFormat()
        self.setReadOnly(True)
        self.setAccessibleName("Tape of tokens")
        self.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse
            | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )
        self.setUndoRedoEnabled(False)
        self.setCursorWidth(0)  # the chosen token is marked
        self.setMouseTracking(True)
        self.viewport().setMouseTracking(True)
        align(self)
        current_theme().changed.connect(self._draw_in_new_colors)

    @property
    def legend(self) -> str:
        """What the marks on the tape mean; empty if there are none."""
        parts = [text for mark, text in LEGEND.items() if mark & self.marks]
        for cycle in self._cycles:
            repeated = "token" if cycle.period == 1 else f"{cycle.period:,} tokens"
            parts.append(f"alternating colors: {cycle.copies:,} copies of the same {repeated}")
        return " · ".join(parts)

    def show_trace(self, trace: RunTrace | None, run: Run | None = None) -> None:
        """Show tokens, and the copies with which their run repeats itself."""
        self._trace, self._run, self._tried = trace, run, None
        self._draw_again()

    def show_tried(self, tried: Replayed | None) -> None:
        """Mark the text that another stop list would cut or keep; None marks nothing."""
        if tried is not self._tried:
            self._tried = tried
            self._draw_again()
            found = self.document().find("✂")
            if not found.isNull():
                bar, middle = self.verticalScrollBar(), self.viewport().height() // 2
                bar.setValue(bar.value() + self.cursorRect(found).center().y() - middle)

    def catch_up(self) -> None:
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

    def token_at(self, position: int) -> TokenTrace | None:
        return self._tokens[position] if 0 <= position < len(self._tokens) else None

    @property
    def chosen_token(self) -> TokenTrace | None:
        return self.token_at(self._chosen)

    def choose(self, position: int) -> None:
        if position == self._chosen or not -1 <= position < len(self._tokens):
            return
        self._chosen = position
        token = self.token_at(position)
        texts = []
        if token is not None:
            texts = [describe_copy(token.index, self._cycles), ORIGIN_DESCRIPTIONS[token.origin]]
        self.viewport().setToolTip("\n".join(f"{t[0].upper()}{t[1:]}." for t in texts if t))
        self.viewport().update()
        self.token_chosen.emit(position)

    def choose_token(self, index: int) -> None:
        if self._tokens and 0 <= index - self._tokens[0].index < len(self._tokens):
            self.choose(index - self._tokens[0].index)
            self._go_to_chosen()
            self.ensureCursorVisible()

    def resizeEvent(self, event: QResizeEvent) -> None:
        bar = self.verticalScrollBar()
        is_at_end = bar.value() >= bar.maximum() - 4
        super().resizeEvent(event)
        self._show_whole_lines()
        if is_at_end:
            bar.setValue(bar.maximum())

    def _show_whole_lines(self) -> None:
        """Pad the top of a tape that scrolls, so that its end has whole lines."""
        document, pad_px = self.document(), self.viewportMargins().top()
        outside_px = self.viewport().height() + pad_px
        above_px, margin_px = document.size().height() - outside_px, 0
        if above_px > 0:
            top = above_px + 4
            hit = Qt.HitTestAccuracy.FuzzyHit
            place = document.documentLayout().hitTest(QPointF(document.documentMargin(), top), hit)
            block = document.findBlock(place)
            lines = [*_line_tops(block), *_line_tops(block.next())]
            margin_px = round(next((y for y in lines if y >= top), top) - above_px)
        if margin_px != pad_px:
            self.setViewportMargins(0, margin_px, 0, 0)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Outline the stop, and let the text fade out where there is more of it."""
        super().paintEvent(event)
        colors, bar = current_theme().colors, self.verticalScrollBar()
        painter = QPainter(self.viewport())
        painter.translate(-self.horizontalScrollBar().value(), -bar.value())
        paint_outline(painter, self.document(), self._stop_range, colors.match)
        paint_outline(painter, self.document(), self._chosen_range, colors.text)
        painter.resetTransform()
        area = QRectF(self.viewport().rect())
        above, below = QRectF(area), QRectF(area)
        above.setHeight(_FADE_PX)
        below.setTop(area.bottom() - _FADE_PX)
        margin_px = self.document().documentMargin()
        for edge, start, end, is_more in (
            (above, above.topLeft(), above.bottomLeft(), bar.value() > margin_px),
            (below, below.bottomLeft(), below.topLeft(), bar.value() + margin_px < bar.maximum()),
        ):
            if is_more:
                painter.fillRect(edge, edge_fade(start, end, colors.raised))
        painter.end()

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        super().mouseMoveEvent(event)
        self._choose_at(event.position().toPoint())

    def _choose_at(self, point: QPoint) -> None:
        position = self.cursorForPosition(point).position()
        self.choose(bisect_right(self._begins, position) - 1)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        super().mouseReleaseEvent(event)
        if event.button() == Qt.MouseButton.LeftButton and not self.textCursor().hasSelection():
            self._choose_at(event.position().toPoint())
            if self._chosen >= 0:
                self.menu_requested.emit(event.globalPosition().toPoint())

    def createMimeDataFromSelection(self) -> QMimeData:
        """Copy the text without its joiners."""
        copied = QMimeData()
        copied.setText(self.textCursor().selection().toPlainText().translate(_UNSEEN))
        return copied

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        menu = self.createStandardContextMenu()
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        position = event.globalPos()
        fork = menu.addAction(FORK_LABEL, lambda: self.menu_requested.emit(position))
        fork.setEnabled(self._chosen >= 0)
        menu.popup(position)

    def request_menu(self) -> None:
        """Request the menu of the chosen token, at the token."""
        if self._chosen >= 0:
            self._go_to_chosen()
            self.ensureCursorVisible()
            below = self.cursorRect().bottomLeft()
            self.menu_requested.emit(self.viewport().mapToGlobal(below))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        steps = {Qt.Key.Key_Left: -1, Qt.Key.Key_Right: 1}
        positions = {Qt.Key.Key_Home: 0, Qt.Key.Key_End: len(self._tokens) - 1}
        key = Qt.Key(event.key())
        if key in steps and event.modifiers() == Qt.KeyboardModifier.NoModifier:
            # From no token, a step back is the last.
            start = len(self._tokens) if self._chosen < 0 and steps[key] < 0 else self._chosen
            position = start + steps[key]
            self.choose(max(0, min(len(self._tokens) - 1, position)))
        elif key in positions:
            self.choose(positions[key])
        elif key in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self.request_menu()
        else:
            super().keyPressEvent(event)
            return
        self._go_to_chosen()

    # -- drawing ---------------------------------------------------------------------------

    @property
    def _following(self) -> int:
        return self._tokens[-1].index + 1 if self._tokens else self._first_index

    @property
    def _first_index(self) -> int:
        return self._trace.tokens[0].index if self._trace and self._trace.tokens else 0

    def _draw_in_new_colors(self) -> None:
        chosen, position = self._chosen, self.verticalScrollBar().value()
        self._draw_again()
        self.choose(chosen)
        self.verticalScrollBar().setValue(position)

    def _draw_again(self) -> None:
        self.clear()
        self._text_font, self._chip_font = (fixed_font(self.font(), s) for s in (1.12, 0.82))
        self.marks = TokenMark.NONE
        self._stop_range = 0, 0
        self._begins.clear()
        self._tokens.clear()
        self._channel = None
        self._chosen = -1
        trace = self._trace
        self._is_ended = trace is not None and trace.stop is not None
        self._cycles = self._run.cycles if self._is_ended and self._run is not None else ()
        if trace is not None and trace.tokens:
            self._append(Tape(trace, MAX_TOKENS, self._tried))
        self.token_chosen.emit(-1)

    def _append(self, tape: Tape) -> None:
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
                if cursor.positionInBlock():
                    cursor.insertText(_BREAK, self._plain())
                self._begins.append(cursor.position())
                self._open_copy(cursor, tape.tokens[row].index)
            self._write(cursor, span, tape, first + row)
        cursor.endEditBlock()
        self._show_whole_lines()
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

    def _open_copy(self, cursor: QTextCursor, index: int) -> None:
        """Number a copy at its first token."""
        found = copy_of(index, self._cycles)
        if found is None or found[1].period < _MIN_NUMBERED:
            return
        number, cycle = found
        if (index - cycle.token_index) % cycle.period == 0:
            cursor.insertText(f" copy {number:,} of {cycle.copies:,} ", self._chip())

    def _ground(self, position: int) -> QColor | None:
        """Return the ground of a token: alternating ones separate tokens, and copies too."""
        colors, is_odd = current_theme().colors, position % 2 == 1
        found = copy_of(self._tokens[position].index, self._cycles)
        if found is None:
            return QColor(colors.bubble) if is_odd else None
        band = QColor(colors.limit_soft if found[0] % 2 else colors.tool_soft)
        if not is_odd:
            return band
        return band.lighter(125) if colors.is_dark else band.darker(106)

    def _write(self, cursor: QTextCursor, span: Span, tape: Tape, position: int) -> None:
        marks = span.marks
        if TokenMark.LOST in marks and TokenMark.LOST not in self.marks:
            self._write_chip(cursor, " ✂ What If ends here ")
        if span.is_chip:
            marks &= ~(TokenMark.HELD | TokenMark.MATCHED)
        self.marks |= marks
        if span.is_chip:
            form = self._chip()
            draw_marks(form, marks)
            cursor.insertText(_JOINER.join(f"\xa0{span.text}\xa0".replace(" ", "\xa0")), form)
            return
        # Qt lays a block out again whenever it grows, so the length of blocks is limited.
        if cursor.positionInBlock() > 500:
            cursor.insertBlock(self._continued)
        begin, form = cursor.position(), self._plain()
        if (ground := self._ground(position)) is not None:
            form.setBackground(ground)
        draw_marks(form, marks)
        *lines, last = visible(span.text).split(_LINE_FEED)
        for line in lines:
            # A line feed is shown and breaks the line, as it does in the answer.
            cursor.insertText(f"{line}{_LINE_FEED}", form)
            cursor.insertBlock(self._continued)
        cursor.insertText(last, form)
        if marks & TokenMark.MATCHED:
            self._stop_range = self._stop_range[0] or begin, cursor.position()
        stop = tape.stop
        ends = stop is not None and stop.rule_index is not None and span.marks & TokenMark.MATCHED
        if ends and position == len(self._tokens) - 1 and stop is not None:
            self._write_chip(cursor, f" stop {(stop.rule_index or 0) + 1} ")

    def _write_chip(self, cursor: QTextCursor, text: str) -> None:
        chip, colors = self._chip(), current_theme().colors
        chip.setForeground(QColor(colors.on_accent))
        chip.setBackground(QColor(colors.accent))
        cursor.insertText(text, chip)

    @property
    def _chosen_range(self) -> tuple[int, int]:
        """The document positions of the chosen token."""
        if self._chosen < 0:
            return 0, 0
        is_last = self._chosen == len(self._begins) - 1
        end = self.document().characterCount() - 1
        return self._begins[self._chosen], end if is_last else self._begins[self._chosen + 1]

    def _plain(self) -> QTextCharFormat:
        form = QTextCharFormat()
        form.setFont(self._text_font)
        form.setForeground(QColor(current_theme().colors.text))
        return form

    def _chip(self) -> QTextCharFormat:
        form, colors = QTextCharFormat(), current_theme().colors
        form.setFont(self._chip_font)
        form.setForeground(QColor(colors.muted))
        form.setBackground(QColor(colors.bubble))
        return form

    def _go_to_chosen(self) -> None:
        if self._chosen >= 0:
            cursor = self.textCursor()
            cursor.setPosition(self._begins[self._chosen])
            self.setTextCursor(cursor)


def _line_tops(block: QTextBlock) -> list[float]:
    layout = block.layout()
    lines = range(layout.lineCount()) if block.isValid() else ()
    return [layout.position().y() + layout.lineAt(number).y() for number in lines]


def _hatching(colors: Colors) -> QPixmap:
    """Return a tile of weak diagonal lines on the soft ground of a limit."""
    tile, line = QPixmap(6, 6), QColor(colors.limit)
    tile.fill(QColor(colors.limit_soft))
    line.setAlpha(80)  # letters can be read on it
    painter = QPainter(tile)
    painter.setPen(line)
    painter.drawLine(0, 5, 5, 0)
    painter.end()
    return tile


def draw_marks(form: QTextCharFormat, marks: TokenMark) -> None:
    """Let a format show the marks of its text, except for the outline of a stop."""
    colors = current_theme().colors
    lines = (
        (TokenMark.HELD, _LINES.DashUnderline, colors.limit),
        (TokenMark.DRAFTED, _LINES.DotLine, colors.done),
        (TokenMark.FORCED, _LINES.SingleUnderline, colors.tool),
    )
    for mark, line, color in lines:
        if marks & mark:
            form.setUnderlineStyle(line)
            form.setUnderlineColor(QColor(color))
    if marks & TokenMark.HELD:
        form.setBackground(QBrush(_hatching(colors)))
    if marks & TokenMark.MATCHED:
        form.setBackground(QColor(colors.match_soft))
        form.setFontWeight(QFont.Weight.Bold)
    if marks & TokenMark.CUT:
        form.setForeground(QColor(colors.fault))
        form.setFontStrikeOut(True)
    if marks & TokenMark.LOST:
        form.setForeground(QColor(colors.faint))
        form.setFontStrikeOut(True)
    if marks & TokenMark.GAINED:
        form.setForeground(QColor(colors.done))
        form.setBackground(QColor(colors.done_soft))


def paint_outline(
    painter: QPainter, document: QTextDocument, span: tuple[int, int], color: str
) -> None:
    """Outline a part of a document, once a line."""
    begin, end = span
    block = document.findBlock(begin)
    painter.setPen(QPen(QColor(color), 1.5))
    while begin < end and block.isValid() and block.position() < end:
        start = block.position()
        for line, left, right in line_parts(block, max(begin - start, 0), end - start):
            area = QRectF(left, line.y(), right - left, line.height())
            painter.drawRect(area.translated(block.layout().position()))
        block = block.next()


class TapeLegend(ElidedLabel):
    """A sample of each mark on the tape with its meaning; as words where these are too wide."""

    def __init__(self) -> None:
        super().__init__("", "muted", 0.92)
        self.setContentsMargins(0, 3, 0, 3)
        self._samples = QTextDocument(self)
        self._samples.setDocumentMargin(0)
        self._stop_range = 0, 0

    def show_legend(self, text: str, marks: TokenMark) -> None:
        """Show the words of a legend, or samples in their place if the text explains these."""
        self.setText(text[:1].upper() + text[1:])
        self.update()  # a label's own update leaves out its margins
        self._samples.clear()
        self._samples.setDefaultFont(self.font())
        self._stop_range = 0, 0
        cursor, colors = QTextCursor(self._samples), current_theme().colors
        for mark in (mark for mark in LEGEND if mark & marks):
            sample, words = QTextCharFormat(), QTextCharFormat()
            sample.setFont(fixed_font(self.font(), 1.0))
            sample.setForeground(QColor(colors.text))
            words.setForeground(QColor(colors.muted))
            draw_marks(sample, mark)
            begin = cursor.position()
            cursor.insertText("\xa0ab\xa0", sample)
            if mark is TokenMark.MATCHED:
                self._stop_range = begin, cursor.position()
            meaning = LEGEND[mark].partition(": ")[2]
            cursor.insertText(f"\xa0 {meaning[:1].upper()}{meaning[1:]}\xa0 \xa0 \xa0", words)

    def paintEvent(self, event: QPaintEvent) -> None:
        document = self._samples
        if document.isEmpty() or document.idealWidth() > self.width():
            super().paintEvent(event)
            return
        painter = QPainter(self)
        painter.translate(1, (self.height() - document.size().height()) / 2)
        document.drawContents(painter)
        paint_outline(painter, document, self._stop_range, current_theme().colors.match)
        painter.end()

"""The tape: a run's tokens side by side, with what was held, matched and cut.

Main thread. New tokens are appended; once drawn, a token no longer changes its look, except at the
end of the run. Only the newest tokens of a long run are drawn.
"""

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import (
    QColor,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QTextBlockFormat,
    QTextCharFormat,
    QTextCursor,
)
from PySide6.QtWidgets import QTextEdit

from engine import Channel, TokenTrace, counted, visible
from engine.recording.run_trace import RunTrace
from ui.inspector.run.pages import align
from ui.inspector.tape.tape import CHANNEL_NAMES, Span, Tape, TokenMark
from ui.inspector.tape.tape_marks import MarkKind, Range, TapeMarks
from ui.kit.look.theme import Theme, fixed_font
from ui.words.guesses import ORIGIN_WORDS

MAX_TOKENS = 1_000
_LINE_FEED = "⏎"
# Qt lays a block out again whenever it grows, so the length of blocks is limited.
_BLOCK_CHARS = 500


class TapeView(QTextEdit):
    """Read-only; hover or the arrow keys choose a token.

    Signals:
        token_chosen: Another token was chosen; carries its place on the tape, or -1 for none.
    """

    token_chosen = Signal(int)

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self._theme = theme
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
        theme.changed.connect(self._draw_in_new_colors)

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
        """Return the token at a place of the tape."""
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
        """Draw the text, then the marks of its tokens."""
        super().paintEvent(event)
        if self._tokens:
            painter = QPainter(self.viewport())
            self._marks.draw(self, painter, self._theme.colors, self._chosen)
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
        colors = self._theme.colors
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
        if span.is_chip:
            form = self._chip()
            if span.marks & TokenMark.CUT:
                form.setForeground(QColor(self._theme.colors.fault))
                form.setFontStrikeOut(True)
            cursor.insertText(f" {span.text} ", form)
            return
        if cursor.positionInBlock() > _BLOCK_CHARS:
            cursor.insertBlock(self._continued)
        form = self._plain()
        colors, begin = self._theme.colors, cursor.position()
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
            cursor.insertText(f" stop {(stop.rule_index or 0) + 1} ", chip)

    def _plain(self) -> QTextCharFormat:
        if "plain" not in self._formats:
            form = QTextCharFormat()
            form.setFont(fixed_font(self.font(), 1.12))
            form.setForeground(QColor(self._theme.colors.text))
            self._formats["plain"] = form
        return QTextCharFormat(self._formats["plain"])

    def _chip(self) -> QTextCharFormat:
        if "chip" not in self._formats:
            form = QTextCharFormat()
            form.setFont(fixed_font(self.font(), 0.82))
            form.setForeground(QColor(self._theme.colors.muted))
            form.setBackground(QColor(self._theme.colors.bubble))
            self._formats["chip"] = form
        return QTextCharFormat(self._formats["chip"])

    def _go_to_chosen(self) -> None:
        if self._chosen >= 0:
            cursor = self.textCursor()
            cursor.setPosition(self._marks.begins[self._chosen])
            self.setTextCursor(cursor)

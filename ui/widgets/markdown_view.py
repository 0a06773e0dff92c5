"""Markdown that grows while it is read: closed blocks are laid out once, only the tail again.

Main thread.
"""

import time
from collections.abc import Iterable
from dataclasses import replace

from markdown_it.token import Token
from PySide6.QtCore import QMimeData, QPoint, QRectF, QSizeF, Qt, QTimer, QUrl, Signal
from PySide6.QtGui import (
    QGuiApplication,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QResizeEvent,
    QTextBlockFormat,
    QTextCharFormat,
    QTextCursor,
    QWheelEvent,
)
from PySide6.QtWidgets import QScrollArea, QScrollBar, QToolButton, QWidget

from ui.markdown import (
    closed_tokens,
    note_labels,
    note_mentions,
    note_numbers,
    parse,
    prepared,
)
from ui.widgets.block_writer import Before, BlockWriter
from ui.widgets.code_writer import TAB_CHARS, CodeWriter, code_lines
from ui.widgets.decorations import Decorations
from ui.widgets.flow_text import FlowText
from ui.widgets.highlighting import Runs
from ui.widgets.inline_writer import NOTE_PREFIX, REFERENCE_PREFIX, InlineWriter
from ui.widgets.markdown_style import Decoration, MarkdownStyle, text_width
from ui.widgets.markdown_writer import MarkdownWriter
from ui.widgets.sideways import BAR_PX, Sideways
from ui.widgets.table_writer import constraints
from ui.widgets.text_copying import mime_of, text_between

# Rendering the tail may take this share of the time, so that a huge open block stays smooth.
_PAUSE_PER_COST = 3.0
_EDGE_PX, _EDGE_STEP_PX = 24, 16


class MarkdownView(FlowText):
    """Shows Markdown; ``append_markdown`` while it streams, ``finish`` at its end.

    Signals:
        link_chosen: A link that leads out of the text was chosen; carries the ``QUrl``.
    """

    link_chosen = Signal(QUrl)

    def __init__(self, style: MarkdownStyle, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._style = style
        self._source = ""
        self._tail = ""
        self._frozen_end = 0
        self._frozen_format = QTextBlockFormat()
        self._frozen_char_format = QTextCharFormat()
        self._before = Before()
        self._notes: set[str] = set()
        self._note_numbers: dict[str, int] = {}
        self._mentioned: set[str] = set()
        self._is_whole = False
        self._is_writing = False
        self._decorations: list[Decoration] = []
        self._code_lines: list[Runs] = []
        self._copy_buttons: list[QToolButton] = []
        self._rendered_at_s = 0.0
        self._cost_s = 0.0
        self._later = QTimer(self, singleShot=True)
        self._later.timeout.connect(self._render)
        self._geometry = Decorations(self.document(), style)
        self._sideways = Sideways(self.document(), self.viewport(), self._show_moved)
        self.document().documentLayout().documentSizeChanged.connect(self._place_buttons)
        self.anchorClicked.connect(self._follow)
        self._take_style(style)

    @property
    def markdown(self) -> str:
        """The text as it was given, character by character."""
        return self._source

    @property
    def decorations(self) -> tuple[Decoration, ...]:
        """What is painted beneath the text."""
        return tuple(self._decorations)

    @property
    def copy_buttons(self) -> tuple[QToolButton, ...]:
        """A button for each code block, once the text is complete."""
        return tuple(self._copy_buttons)

    @property
    def sideways_bars(self) -> tuple[QScrollBar, ...]:
        """A scroll bar for each code card, table and formula that is wider than the text."""
        return self._sideways.bars

    def area(self, decoration: Decoration) -> QRectF:
        """Return where something beneath the text is."""
        return self._geometry.area(decoration, self.viewport().width(), self._decorations)

    def shown_text(self, start: int = 0, end: int | None = None) -> str:
        """Return the text from one document position to another, formulas as their source."""
        last = self.document().characterCount() - 1 if end is None else end
        return text_between(self.document(), start, last)

    def createMimeDataFromSelection(self) -> QMimeData:
        """Copy formulas as their source, tables as tables."""
        # Qt's own fills itself in only later, and over what was put in.
        as_html = super().createMimeDataFromSelection().html()
        return mime_of(self.textCursor(), as_html)

    def link_targets(self) -> list[str]:
        """Return where the links of the text lead, in their order."""
        targets: list[str] = []
        block = self.document().begin()
        while block.isValid():
            fragments = block.begin()
            while not fragments.atEnd():
                form = fragments.fragment().charFormat()
                if form.isAnchor() and form.anchorHref():
                    targets.append(form.anchorHref())
                fragments += 1
            block = block.next()
        return targets

    def set_markdown(self, text: str) -> None:
        """Show a whole text in place of the present one."""
        self._clear()
        self._source = self._tail = text
        self._render()
        self._add_buttons()
        self._is_whole = True

    def append_markdown(self, text: str) -> None:
        """Show more text. Rendering is put off where the last one was slow."""
        if not text:
            return
        self._source += text
        self._tail += text
        self._is_whole = False
        wait_s = self._rendered_at_s + self._cost_s * _PAUSE_PER_COST - time.monotonic()
        if wait_s <= 0:
            self._render()
        elif not self._later.isActive():
            self._later.start(round(wait_s * 1000) + 1)

    def render_now(self) -> None:
        """Show what is put off."""
        self._later.stop()
        self._render()

    def finish(self) -> None:
        """Show what is still put off; the text is complete."""
        self._later.stop()
        if self._is_whole:
            return
        self._render()
        if self._notes and self._frozen_end:
            # A note may be named, or defined, far above or below: all at once puts them right.
            self.set_markdown(self._source)
        self._add_buttons()
        self._is_whole = True

    def set_style(self, style: MarkdownStyle) -> None:
        """Show the same text in other fonts and colours."""
        if style == self._style:
            return
        self._take_style(style)
        had_buttons = bool(self._copy_buttons)
        source = self._source
        self._clear()
        self._source = self._tail = source
        self._render()
        if had_buttons:
            self._add_buttons()

    # -- rendering -------------------------------------------------------------------------

    def _take_style(self, style: MarkdownStyle) -> None:
        self._style = style
        self._geometry = Decorations(self.document(), style)
        self.document().setDefaultFont(style.font)
        self.setTabStopDistance(TAB_CHARS * text_width(style.fixed, "0"))

    def _clear(self) -> None:
        self._later.stop()
        self._sideways.clear()
        self._decorations = []
        self.document().clear()
        self._code_lines = []
        self._frozen_end = 0
        self._frozen_format, self._frozen_char_format = QTextBlockFormat(), QTextCharFormat()
        self._before = Before()
        self._notes = set()
        self._note_numbers = {}
        self._mentioned = set()
        for button in self._copy_buttons:
            button.deleteLater()
        self._copy_buttons = []

    def _render(self) -> None:
        began_s = time.monotonic()
        text = prepared(self._tail)
        tokens = parse(text, self._notes)
        labels = note_labels(tokens)
        if labels & self._mentioned - self._notes:  # closed text names a note that is new
            self._clear()
            self._tail = self._source
            text = prepared(self._tail)
            tokens = parse(text)
            labels = note_labels(tokens)
        self._notes |= labels
        closed, first_open_line = closed_tokens(text, tokens)
        self._is_writing = True
        cursor = QTextCursor(self.document())
        cursor.beginEditBlock()
        if not self._grow_code(cursor, tokens):
            self._remove_tail(cursor)
            if closed:
                numbers = note_numbers(tokens[:closed], self._note_numbers)
                writer = self._writer(cursor, note_numbers(tokens[closed:], numbers))
                writer.write(tokens[:closed], text)
                self._decorations += writer.decorations
                self._freeze(cursor, writer.after(text, first_open_line))
                self._note_numbers = numbers
            writer = self._writer(cursor, note_numbers(tokens[closed:], self._note_numbers))
            writer.write(tokens[closed:], text)
            self._decorations += writer.decorations
            self._note_code(writer, tokens[closed:])
        cursor.endEditBlock()
        self._is_writing = False
        self._fit_tables(one for one in self._decorations if self._sideways.offset(one))
        if first_open_line:
            self._shorten_tail(first_open_line)
        self._show_wide()
        self._fit(self.document().size())
        if self.found_words:
            self.show_found(self.found_words)
        self._rendered_at_s = time.monotonic()
        self._cost_s = self._rendered_at_s - began_s
        self.viewport().update()

    def _shorten_tail(self, lines: int) -> None:
        at = 0
        for _ in range(lines):
            at = self._tail.index("\n", at) + 1
        self._mentioned |= note_mentions(self._tail[:at])
        self._tail = self._tail[at:]

    def _note_code(self, writer: MarkdownWriter, tokens: list[Token]) -> None:
        """Remember the lines of a code block that is all there is of the tail."""
        self._code_lines = []
        if len(tokens) == 1 and tokens[0].type == "fence":
            code = writer.decorations[-1]
            self._code_lines = code_lines(code.text, code.label, self._style)

    def _grow_code(self, cursor: QTextCursor, tokens: list[Token]) -> bool:
        """Where the tail is a code block that has grown, write only the lines that changed."""
        if not self._code_lines or len(tokens) != 1 or tokens[0].type != "fence":
            return False
        code, body = self._decorations[-1], tokens[0].content.removesuffix("\n")
        if tokens[0].info.strip() != code.label or code.kind != "code":
            return False
        lines = code_lines(body, code.label, self._style)
        most = min(len(lines), len(self._code_lines)) - 1  # the last line has a margin below
        same = zip(lines[:most], self._code_lines[:most], strict=True)
        kept = next((i for i, (new, old) in enumerate(same) if new != old), most)
        if kept < 1:
            return False
        first = self.document().findBlock(code.start).blockNumber()
        last_kept = self.document().findBlockByNumber(first + kept - 1)
        cursor.setPosition(last_kept.position() + last_kept.length() - 1)
        cursor.movePosition(QTextCursor.MoveOperation.End, QTextCursor.MoveMode.KeepAnchor)
        form, char_form = last_kept.blockFormat(), last_kept.charFormat()
        cursor.removeSelectedText()
        cursor.setBlockFormat(form)
        cursor.setBlockCharFormat(char_form)
        inline = InlineWriter(cursor, self._style, {})
        writer = CodeWriter(BlockWriter(cursor, self._style, False, False, inline))
        _, width = writer.write_lines(lines[kept:], is_start=False)
        width = max(width, code.width_px)
        self._decorations[-1] = replace(code, end=cursor.position(), text=body, width_px=width)
        self._code_lines = lines
        return True

    def _writer(self, cursor: QTextCursor, numbers: dict[str, int]) -> MarkdownWriter:
        return MarkdownWriter(cursor, self._style, self._before, numbers, self.viewport().width())

    def _freeze(self, cursor: QTextCursor, before: Before) -> None:
        self._frozen_end = cursor.position()
        self._frozen_format = cursor.blockFormat()
        self._frozen_char_format = cursor.blockCharFormat()
        self._before = before

    def _remove_tail(self, cursor: QTextCursor) -> None:
        start = self._tail_start()
        self._decorations = [d for d in self._decorations if d.start < start]
        cursor.setPosition(self._frozen_end)
        cursor.movePosition(QTextCursor.MoveOperation.End, QTextCursor.MoveMode.KeepAnchor)
        cursor.removeSelectedText()
        cursor.setBlockFormat(self._frozen_format)
        cursor.setBlockCharFormat(self._frozen_char_format)

    def _tail_start(self) -> int:
        return self._frozen_end if self._before.is_first else self._frozen_end + 1

    # -- what is wider than the view ---------------------------------------------------------

    def _fit_tables(self, decorations: Iterable[Decoration]) -> None:
        """Share the width among the columns of tables."""
        for one in decorations:
            if one.kind != "table":
                continue
            room = self.viewport().width() - one.left_px
            widths = constraints(one.columns, room, self._style)
            table = self._geometry.table(one)
            form = table.format()
            left = one.left_px - self._sideways.offset(one)
            if form.columnWidthConstraints() != widths or form.leftMargin() != left:
                form.setColumnWidthConstraints(widths)
                form.setLeftMargin(left)
                table.setFormat(form)

    def _show_wide(self) -> None:
        width = self.viewport().width()
        pad = self._style.code_pad_px
        found = []
        for one in self._decorations:
            needed = one.width_px
            if one.kind == "table":
                lengths = constraints(one.columns, width - one.left_px, self._style)
                needed = sum(length.rawValue() for length in lengths)
            if not needed or one.kind == "quote":
                continue
            inset = pad if one.kind == "code" else 0
            room = width - one.left_px - 2 * inset
            if needed > room:
                place = self.area(one)
                place.setLeft(one.left_px + inset)
                place.setWidth(room)
                found.append((one, place, needed))
        self._sideways.show(found)

    def _show_moved(self, decoration: Decoration, _: int) -> None:
        if decoration.kind == "table":
            self._fit_tables([decoration])
        self.viewport().update()

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Scroll sideways what is wide and under the mouse; leave the rest to the column."""
        delta = event.pixelDelta() if not event.pixelDelta().isNull() else event.angleDelta()
        across, along = delta.x(), delta.y()
        if not across and event.modifiers() & Qt.KeyboardModifier.ShiftModifier:
            across, along = along, 0
        bar = self._sideways.under(event.position().y())
        if bar is None or abs(across) <= abs(along):
            super().wheelEvent(event)
            return
        bar.setValue(bar.value() - across)
        event.accept()

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Scroll sideways while a selection is drawn past an edge."""
        super().mouseMoveEvent(event)
        if event.buttons() & Qt.MouseButton.LeftButton:
            bar = self._sideways.under(event.position().y())
            x, width = event.position().x(), self.viewport().width()
            if bar is not None and x > width - _EDGE_PX:
                bar.setValue(bar.value() + _EDGE_STEP_PX)
            elif bar is not None and x < _EDGE_PX:
                bar.setValue(bar.value() - _EDGE_STEP_PX)

    def _fit(self, size: QSizeF) -> None:
        """Be high enough for what is painted around the last lines, too."""
        if self._is_writing:
            return
        end = self.document().lastBlock().position()
        areas = [self.area(one) for one in self._decorations if one.end >= end - 1]
        bottom = max((area.bottom() for area in areas), default=0.0)
        has_bar_below = any(one.kind == "table" and one.end >= end - 1 for one in self._decorations)
        super()._fit(
            QSizeF(size.width(), max(size.height(), bottom + has_bar_below * (BAR_PX + 2)))
        )

    # -- painting --------------------------------------------------------------------------

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint code cards, quote bars and rules, then the text over them."""
        painter = QPainter(self.viewport())
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        wanted = QRectF(event.rect())
        for decoration in self._decorations:
            area = self.area(decoration)
            if area.intersects(wanted):
                self._geometry.paint(painter, decoration, area)
        painter.end()
        self._sideways.keep_shifted()
        # What is wide is drawn in its own place, so that it covers nothing beside that.
        top = wanted.top()
        for place in self._sideways.places:
            self._paint_text(QRectF(wanted.left(), top, wanted.width(), place.top() - top))
            self._paint_text(place.intersected(wanted))
            top = max(top, place.bottom())
        self._paint_text(QRectF(wanted.left(), top, wanted.width(), wanted.bottom() + 1 - top))

    def _paint_text(self, area: QRectF) -> None:
        if area.isValid():
            super().paintEvent(QPaintEvent(area.toRect()))

    # -- links -----------------------------------------------------------------------------

    def _follow(self, url: QUrl) -> None:
        name = url.toString()
        if not name.startswith((NOTE_PREFIX, REFERENCE_PREFIX)):
            self.link_chosen.emit(url)
            return
        place = self.place_of(url.toString(QUrl.ComponentFormattingOption.FullyDecoded))
        parent = self.parentWidget()
        while parent is not None and not isinstance(parent, QScrollArea):
            parent = parent.parentWidget()
        inner = None if parent is None else parent.widget()
        if place is not None and parent is not None and inner is not None:
            there = self.viewport().mapTo(inner, place.center().toPoint())
            parent.ensureVisible(there.x(), there.y(), 0, parent.viewport().height() // 3)

    def place_of(self, name: str) -> QRectF | None:
        """Return where the anchor of a name is."""
        block = self.document().begin()
        while block.isValid():
            fragments = block.begin()
            while not fragments.atEnd():
                if name in fragments.fragment().charFormat().anchorNames():
                    cursor = QTextCursor(self.document())
                    cursor.setPosition(fragments.fragment().position())
                    return QRectF(self.cursorRect(cursor))
                fragments += 1
            block = block.next()
        return None

    # -- copy buttons ----------------------------------------------------------------------

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Keep the copy buttons at their corners."""
        super().resizeEvent(event)
        if event.size().width() != event.oldSize().width():
            self._fit_tables(self._decorations)
            self._fit(self.document().size())
        self._place_buttons(QSizeF())
        self._show_wide()

    def _add_buttons(self) -> None:
        for button in self._copy_buttons:
            button.deleteLater()
        self._copy_buttons = [self._copy_button(d) for d in self._code()]
        self._place_buttons(QSizeF())

    def _copy_button(self, decoration: Decoration) -> QToolButton:
        button = QToolButton(self.viewport())
        button.setText("Copy")
        button.setProperty("kind", "code")
        button.setAccessibleName(f"Copy {decoration.label or 'code'}")
        button.setCursor(Qt.CursorShape.PointingHandCursor)

        def copy() -> None:
            QGuiApplication.clipboard().setText(decoration.text)
            button.setText("Copied")
            QTimer.singleShot(1500, button, lambda: button.setText("Copy"))

        button.clicked.connect(copy)
        button.show()
        return button

    def _code(self) -> list[Decoration]:
        return [d for d in self._decorations if d.kind == "code"]

    def _place_buttons(self, _: QSizeF) -> None:
        if self._is_writing:
            return
        head_px = round(self._style.code_head_px)
        for button, decoration in zip(self._copy_buttons, self._code(), strict=False):
            area = self.area(decoration)
            button.adjustSize()
            x = round(area.right()) - button.width() - 6
            button.move(QPoint(x, round(area.top()) + (head_px - button.height()) // 2))

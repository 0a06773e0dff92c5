"""Markdown that grows while it is read: closed blocks are laid out once, only the tail again.

Main thread.
"""

import time
from dataclasses import replace

from markdown_it.token import Token
from PySide6.QtCore import QMimeData, QPointF, QRectF, QSizeF, Qt, QTimer
from PySide6.QtGui import (
    QColor,
    QFont,
    QGuiApplication,
    QPainter,
    QPaintEvent,
    QPen,
    QResizeEvent,
    QTextBlockFormat,
    QTextCharFormat,
    QTextCursor,
)
from PySide6.QtWidgets import QToolButton, QWidget

from ui.markdown import closed_tokens, parse, prepared
from ui.widgets.flow_text import FlowText
from ui.widgets.highlighting import Runs
from ui.widgets.inline_writer import SOURCE_PROPERTY
from ui.widgets.markdown_style import Decoration, MarkdownStyle
from ui.widgets.markdown_writer import CODE_FOOT_PX, CODE_HEAD_PX, MarkdownWriter

_PICTURE = "\ufffc"
# Rendering the tail may take this share of the time, so that a huge open block stays smooth.
_PAUSE_PER_COST = 3.0


class MarkdownView(FlowText):
    """Shows Markdown; ``append_markdown`` while it streams, ``finish`` at its end."""

    def __init__(self, style: MarkdownStyle, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._style = style
        self._source = ""
        self._tail = ""
        self._frozen_end = 0
        self._frozen_format = QTextBlockFormat()
        self._frozen_char_format = QTextCharFormat()
        self._has_frozen = False
        self._frozen_has_room = True
        self._decorations: list[Decoration] = []
        self._code_lines: list[Runs] = []
        self._copy_buttons: list[QToolButton] = []
        self._rendered_at_s = 0.0
        self._cost_s = 0.0
        self._later = QTimer(self, singleShot=True)
        self._later.timeout.connect(self._render)
        self.document().documentLayout().documentSizeChanged.connect(self._place_buttons)
        self.document().setDefaultFont(style.font)

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

    def shown_text(self, start: int = 0, end: int | None = None) -> str:
        """Return the text from one document position to another, formulas as their source."""
        document = self.document()
        cursor = QTextCursor(document)
        cursor.setPosition(start)
        last = document.characterCount() - 1 if end is None else end
        cursor.setPosition(last, QTextCursor.MoveMode.KeepAnchor)
        text = cursor.selection().toPlainText()
        if _PICTURE not in text:
            return text
        first, *parts = text.split(_PICTURE)
        places = (at for at in range(start, last) if document.characterAt(at) == _PICTURE)
        out = [first]
        for at, part in zip(places, parts, strict=False):
            cursor.setPosition(at + 1)
            out += [cursor.charFormat().stringProperty(SOURCE_PROPERTY) or _PICTURE, part]
        return "".join(out)

    def createMimeDataFromSelection(self) -> QMimeData:
        """Copy formulas as their source."""
        # Qt's own fills itself in only later, and over what was put in.
        data = QMimeData()
        data.setHtml(super().createMimeDataFromSelection().html())
        chosen = self.textCursor()
        data.setText(self.shown_text(chosen.selectionStart(), chosen.selectionEnd()))
        return data

    def link_targets(self) -> list[str]:
        """Return where the links of the text lead, in their order."""
        targets: list[str] = []
        block = self.document().begin()
        while block.isValid():
            fragments = block.begin()
            while not fragments.atEnd():
                form = fragments.fragment().charFormat()
                if form.isAnchor():
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

    def append_markdown(self, text: str) -> None:
        """Show more text. Rendering is put off where the last one was slow."""
        self._source += text
        self._tail += text
        wait_s = self._rendered_at_s + self._cost_s * _PAUSE_PER_COST - time.monotonic()
        if wait_s <= 0:
            self._render()
        elif not self._later.isActive():
            self._later.start(round(wait_s * 1000) + 1)

    def finish(self) -> None:
        """Show what is still put off; the text is complete."""
        self._later.stop()
        self._render()
        self._add_buttons()

    def set_style(self, style: MarkdownStyle) -> None:
        """Show the same text in other fonts and colours."""
        self._style = style
        self.document().setDefaultFont(style.font)
        had_buttons = bool(self._copy_buttons)
        source = self._source
        self._clear()
        self._source = self._tail = source
        self._render()
        if had_buttons:
            self._add_buttons()

    # -- rendering -------------------------------------------------------------------------

    def _clear(self) -> None:
        self._later.stop()
        self.document().clear()
        self._decorations = []
        self._code_lines = []
        self._frozen_end = 0
        self._has_frozen = False
        self._frozen_has_room = True
        for button in self._copy_buttons:
            button.deleteLater()
        self._copy_buttons = []

    def _render(self) -> None:
        began_s = time.monotonic()
        text = prepared(self._tail)
        tokens = parse(text)
        closed, first_open_line = closed_tokens(text, tokens)
        cursor = QTextCursor(self.document())
        cursor.beginEditBlock()
        if not self._grow_code(cursor, tokens):
            self._remove_tail(cursor)
            if closed:
                writer = self._writer(cursor)
                writer.write(tokens[:closed], text)
                self._decorations += writer.decorations
                self._freeze(cursor, writer.has_empty_block)
            writer = self._writer(cursor)
            writer.write(tokens[closed:], text)
            self._decorations += writer.decorations
            self._note_code(writer, tokens[closed:])
        cursor.endEditBlock()
        for _ in range(first_open_line):
            self._tail = self._tail[self._tail.index("\n") + 1 :]
        self._rendered_at_s = time.monotonic()
        self._cost_s = self._rendered_at_s - began_s
        self.viewport().update()

    def _note_code(self, writer: MarkdownWriter, tokens: list[Token]) -> None:
        """Remember the lines of a code block that is all there is of the tail."""
        self._code_lines = []
        if len(tokens) == 1 and tokens[0].type == "fence":
            code = writer.decorations[-1]
            self._code_lines = writer.code_lines(code.text, code.label)

    def _grow_code(self, cursor: QTextCursor, tokens: list[Token]) -> bool:
        """Where the tail is a code block that has grown, write only the lines that changed."""
        if not self._code_lines or len(tokens) != 1 or tokens[0].type != "fence":
            return False
        code, body = self._decorations[-1], tokens[0].content.removesuffix("\n")
        if tokens[0].info.strip() != code.label or code.kind != "code":
            return False
        writer = MarkdownWriter(cursor, self._style, is_first=False, has_empty_block=False)
        lines = writer.code_lines(body, code.label)
        most = min(len(lines), len(self._code_lines)) - 1  # the last line has a margin below
        same = zip(lines[:most], self._code_lines[:most], strict=True)
        kept = next((i for i, (new, old) in enumerate(same) if new != old), most)
        if kept < 1:
            return False
        first = self.document().findBlock(code.start).blockNumber()
        last_kept = self.document().findBlockByNumber(first + kept - 1)
        cursor.setPosition(last_kept.position() + last_kept.length() - 1)
        cursor.movePosition(QTextCursor.MoveOperation.End, QTextCursor.MoveMode.KeepAnchor)
        form = last_kept.blockFormat()
        cursor.removeSelectedText()
        cursor.setBlockFormat(form)
        writer.write_code_lines(lines[kept:], is_start=False)
        self._decorations[-1] = replace(code, end=cursor.position(), text=body)
        self._code_lines = lines
        return True

    def _writer(self, cursor: QTextCursor) -> MarkdownWriter:
        return MarkdownWriter(cursor, self._style, not self._has_frozen, self._frozen_has_room)

    def _freeze(self, cursor: QTextCursor, has_room: bool) -> None:
        self._frozen_end = cursor.position()
        self._frozen_format = cursor.blockFormat()
        self._frozen_char_format = cursor.blockCharFormat()
        self._frozen_has_room = has_room
        self._has_frozen = True

    def _remove_tail(self, cursor: QTextCursor) -> None:
        self._decorations = [d for d in self._decorations if d.start < self._tail_start()]
        cursor.setPosition(self._frozen_end)
        cursor.movePosition(QTextCursor.MoveOperation.End, QTextCursor.MoveMode.KeepAnchor)
        cursor.removeSelectedText()
        if self._has_frozen:
            cursor.setBlockFormat(self._frozen_format)
            cursor.setBlockCharFormat(self._frozen_char_format)

    def _tail_start(self) -> int:
        return self._frozen_end if self._frozen_has_room else self._frozen_end + 1

    # -- painting --------------------------------------------------------------------------

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint code cards, quote bars and rules, then the text over them."""
        painter = QPainter(self.viewport())
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        for decoration in self._decorations:
            area = self._area(decoration)
            if area.intersects(QRectF(event.rect())):
                self._paint(painter, decoration, area)
        painter.end()
        super().paintEvent(event)

    def _area(self, decoration: Decoration) -> QRectF:
        layout = self.document().documentLayout()
        first = layout.blockBoundingRect(self.document().findBlock(decoration.start))
        last = layout.blockBoundingRect(self.document().findBlock(decoration.end))
        width = self.viewport().width() - decoration.left_px
        top, bottom = first.top(), last.bottom()
        if decoration.kind == "code":
            top, bottom = top - CODE_HEAD_PX, bottom + CODE_FOOT_PX
        return QRectF(decoration.left_px, top, width, bottom - top)

    def _paint(self, painter: QPainter, decoration: Decoration, area: QRectF) -> None:
        style = self._style
        if decoration.kind == "quote":
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(style.line))
            painter.drawRoundedRect(QRectF(area.left() + 1, area.top(), 3, area.height()), 1.5, 1.5)
        elif decoration.kind == "rule":
            painter.setPen(QPen(QColor(style.line), 1))
            middle = area.center().y()
            painter.drawLine(QPointF(area.left(), middle), QPointF(area.right(), middle))
        else:
            painter.setPen(QPen(QColor(style.line), 1))
            painter.setBrush(QColor(style.code_background))
            painter.drawRoundedRect(area.adjusted(0.5, 0.5, -0.5, -0.5), 9, 9)
            font = QFont(style.font)
            font.setPointSizeF(font.pointSizeF() * 0.86)
            painter.setFont(font)
            painter.setPen(QColor(style.muted))
            head = QRectF(area.left() + 14, area.top() + 1, area.width() - 100, CODE_HEAD_PX - 3)
            painter.drawText(head, Qt.AlignmentFlag.AlignVCenter, decoration.label or "code")

    # -- copy buttons ----------------------------------------------------------------------

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Keep the copy buttons at their corners."""
        super().resizeEvent(event)
        self._place_buttons(QSizeF())

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
        for button, decoration in zip(self._copy_buttons, self._code(), strict=False):
            area = self._area(decoration)
            button.adjustSize()
            x = round(area.right()) - button.width() - 6
            button.move(x, round(area.top()) + (CODE_HEAD_PX - button.height()) // 2)

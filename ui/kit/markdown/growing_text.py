"""Markdown that grows: closed blocks are written once, the last one again and again."""

from markdown_it.token import Token
from PySide6.QtCore import Qt
from PySide6.QtGui import QTextBlockFormat, QTextCharFormat, QTextCursor, QTextDocument

from ui.kit.markdown.block_writer import (
    MarkdownWriter,
    WriterState,
    fit_formula,
    free_px,
    limit_measure,
)
from ui.kit.markdown.inline_writer import MEASURE_PROPERTY
from ui.kit.markdown.parser import closed_tokens, parse, prepared
from ui.kit.markdown.pictures import Drawn, Pictures
from ui.kit.markdown.style import Decoration, MarkdownStyle


class GrowingText:
    """Writes a text into a document, and appends more of it as it arrives."""

    def __init__(self, document: QTextDocument, style: MarkdownStyle) -> None:
        self.style = style
        self.source = ""
        self.decorations: list[Decoration] = []
        self.is_writing = False
        self.changed_from = 0
        self._document = document
        self.width_px = 700
        self._pictures = Pictures(document)
        # Whether the parts that can be folded are open, by their numbers in the text.
        self._folds: dict[int, bool] = {}
        self._tail = ""
        self._frozen_end = 0
        self._frozen_format, self._frozen_char_format = QTextBlockFormat(), QTextCharFormat()
        self._before = WriterState()
        self._beside_px = 0.0  # the width that the written lines leave free

    def show(self, text: str) -> None:
        if not text.startswith(self.source):
            self._folds.clear()
        self.source = text
        self._restart()
        self.write()

    def append(self, text: str) -> None:
        """Add more text; ``write`` writes it."""
        self.source += text
        self._tail += text

    def show_loaded(self, address: str, shown: Drawn | str) -> None:
        """Show the picture of an address, or how loading goes."""
        self._pictures.loaded[address] = shown
        self.show(self.source)

    def fold(self, number: int) -> None:
        """Fold a part, or open a folded one."""
        self._folds[number] = not self._folds[number]
        self.show(self.source)

    def unfold_all(self) -> bool:
        """Open all parts; return whether there were folded ones."""
        has_folded = False
        while not all(self._folds.values()):  # an open part may have folded ones in it
            self._folds = dict.fromkeys(self._folds, True)
            self.show(self.source)
            has_folded = True
        return has_folded

    def write(self) -> None:
        """Write the text that arrived since the last call."""
        text = prepared(self._tail)
        tokens = parse(text)
        self.is_writing = True
        self._beside_px = free_px(self.width_px)
        cursor = QTextCursor(self._document)
        cursor.beginEditBlock()
        closed, first_open_line = closed_tokens(text, tokens)
        self.changed_from = self._frozen_end
        self._remove_tail(cursor)
        if closed:
            writer = self._write_tokens(cursor, tokens[:closed], text)
            self._frozen_end = cursor.position()
            self._frozen_format = cursor.blockFormat()
            self._frozen_char_format = cursor.blockCharFormat()
            self._before = writer.after(text, first_open_line)
        self._write_tokens(cursor, tokens[closed:], text)
        cursor.endEditBlock()
        self.is_writing = False
        self._tail = self._tail.split("\n", first_open_line)[-1]

    def _write_tokens(self, cursor: QTextCursor, tokens: list[Token], text: str) -> MarkdownWriter:
        writer = MarkdownWriter(
            cursor, self.style, self._before, self.width_px, self._pictures, self._folds
        )
        writer.write(tokens, text)
        self.decorations += writer.decorations
        return writer

    def fit_drawn(self) -> None:
        """Fit lines and pictures into the view; center the formulas that are narrower than it."""
        available, style = self.width_px, self.style
        self._fit_lines()
        for decoration in self.decorations:
            if decoration.kind == "formula" and decoration.width_px:
                cursor = QTextCursor(self._document.findBlock(decoration.start))
                form = cursor.blockFormat()
                fits = decoration.width_px <= available - decoration.left_px
                if fits != (form.alignment() == Qt.AlignmentFlag.AlignHCenter):
                    fit_formula(form, style, fits=fits)
                    cursor.setBlockFormat(form)
        self._pictures.fit_all(self._document, style.font, available)

    def _fit_lines(self) -> None:
        beside_px = free_px(self.width_px)
        if beside_px == self._beside_px:
            return
        self._beside_px = beside_px
        cursor = QTextCursor(self._document)
        cursor.beginEditBlock()
        block = self._document.begin()
        while block.isValid():
            form = block.blockFormat()
            if form.hasProperty(MEASURE_PROPERTY):
                limit_measure(form, beside_px)
                cursor.setPosition(block.position())
                cursor.setBlockFormat(form)
            block = block.next()
        cursor.endEditBlock()
        if self._frozen_format.hasProperty(MEASURE_PROPERTY):
            limit_measure(self._frozen_format, beside_px)

    def _remove_tail(self, cursor: QTextCursor) -> None:
        start = self._frozen_end if self._before.is_first else self._frozen_end + 1
        while self.decorations and self.decorations[-1].start >= start:
            self.decorations.pop()
        cursor.setPosition(self._frozen_end)
        cursor.movePosition(QTextCursor.MoveOperation.End, QTextCursor.MoveMode.KeepAnchor)
        cursor.removeSelectedText()
        cursor.setBlockFormat(self._frozen_format)
        cursor.setBlockCharFormat(self._frozen_char_format)

    def _restart(self) -> None:
        """Start again with an empty document."""
        self._tail = self.source
        self.decorations = []
        self._frozen_end = 0
        self._frozen_format, self._frozen_char_format = QTextBlockFormat(), QTextCharFormat()
        self._before = WriterState()
        self.is_writing = True
        self._pictures.clear()
        self._document.clear()
        self.is_writing = False

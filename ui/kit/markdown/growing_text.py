"""Markdown that grows: closed blocks are written once, the last one again and again."""

from collections.abc import Callable

from markdown_it.token import Token
from PySide6.QtCore import Qt
from PySide6.QtGui import QTextBlockFormat, QTextCharFormat, QTextCursor, QTextDocument

from ui.kit.markdown.block_writer import (
    Before,
    MarkdownWriter,
)
from ui.kit.markdown.inline_writer import ABOVE_PROPERTY, ARROWS
from ui.kit.markdown.parser import (
    closed_tokens,
    note_labels,
    note_mentions,
    note_numbers,
    parse,
    prepared,
)
from ui.kit.markdown.pictures import Pictures
from ui.kit.markdown.style import Decoration, MarkdownStyle, table_at


class GrowingText:
    """Writes a text into a document, and appends more of it as it arrives."""

    def __init__(
        self, document: QTextDocument, style: MarkdownStyle, available_px: Callable[[], float]
    ) -> None:
        self.style = style
        self.source = ""
        self.decorations: list[Decoration] = []
        self.is_writing = False
        self.changed_from = 0
        self._document = document
        self._available_px = available_px
        self._pictures = Pictures(document)
        # The parts that the user folded or unfolded, by their numbers in the text.
        self._turned: set[int] = set()
        self._has_folded = False
        self._tail = ""
        self._frozen_end = 0
        self._frozen_format, self._frozen_char_format = QTextBlockFormat(), QTextCharFormat()
        self._before = Before()
        self._notes: set[str] = set()
        self._numbers: dict[str, int] = {}
        self._mentioned: set[str] = set()

    @property
    def pictures(self) -> Pictures:
        """What is drawn within the lines."""
        return self._pictures

    def show(self, text: str) -> None:
        if not text.startswith(self.source):
            self._turned.clear()
        self.source = text
        self._restart()
        self.write()

    def append(self, text: str) -> None:
        """Add more text; ``write`` writes it."""
        self.source += text
        self._tail += text

    def finish(self) -> None:
        self.write()
        if self._notes and self._frozen_end:
            # A footnote may be defined far away: only writing everything again numbers it right.
            self.show(self.source)

    def write(self) -> None:
        """Write the text that arrived since the last call."""
        text = prepared(self._tail)
        tokens = parse(text, self._notes)
        labels = note_labels(tokens)
        if labels & self._mentioned - self._notes:  # closed text names a note that is new
            self._restart()
            text = prepared(self._tail)
            tokens = parse(text)
            labels = note_labels(tokens)
        self._notes |= labels
        self.is_writing = True
        cursor = QTextCursor(self._document)
        cursor.beginEditBlock()
        first_open_line = self._write_tokens(cursor, tokens, text)
        cursor.endEditBlock()
        self._show_folds(self.changed_from)
        self.is_writing = False
        if first_open_line:
            self._shorten_tail(first_open_line)

    # -- closed and open text --------------------------------------------------------------

    def _write_tokens(self, cursor: QTextCursor, tokens: list[Token], text: str) -> int:
        """Write tokens, and return the number of the first line that is open."""
        closed, first_open_line = closed_tokens(text, tokens)
        numbers = note_numbers(tokens[closed:], self._numbers)
        self.changed_from = self._frozen_end
        self._remove_tail(cursor)
        if closed:
            closed_numbers = note_numbers(tokens[:closed], self._numbers)
            numbers = note_numbers(tokens[closed:], closed_numbers)
            writer = self._writer(cursor, numbers)
            writer.write(tokens[:closed], text)
            self.decorations += writer.decorations
            self._freeze(cursor, writer.after(text, first_open_line), closed_numbers)
        writer = self._writer(cursor, numbers)
        writer.write(tokens[closed:], text)
        self.decorations += writer.decorations
        return first_open_line

    def fit_drawn(self) -> None:
        """Fit pictures into the view, and center the formulas that are narrower than it."""
        available, style = self._available_px(), self.style
        for decoration in self.decorations:
            if decoration.kind == "formula" and decoration.width_px:
                cursor = QTextCursor(self._document.findBlock(decoration.start))
                form = cursor.blockFormat()
                fits = decoration.width_px <= available - decoration.left_px
                target = Qt.AlignmentFlag.AlignHCenter if fits else Qt.AlignmentFlag.AlignLeft
                if form.alignment() != target:
                    form.setAlignment(target)
                    cursor.setBlockFormat(form)
        for position, name in self._pictures.shown(self._document):
            drawn = self._pictures.get(name)
            cursor = QTextCursor(self._document)
            cursor.setPosition(position)
            cursor.setPosition(position + 1, QTextCursor.MoveMode.KeepAnchor)
            image = cursor.charFormat().toImageFormat()
            left = cursor.blockFormat().leftMargin()
            if drawn is not None and self._pictures.fit(image, drawn, style.font, available - left):
                cursor.setCharFormat(image)

    # -- parts that can be folded ------------------------------------------------------------

    def is_open(self, fold: Decoration) -> bool:
        return (fold.number in self._turned) != bool(fold.label)

    def turn(self, *numbers: int) -> None:
        """Fold or unfold parts."""
        self._turned ^= set(numbers)
        self._show_folds(0)

    def _show_folds(self, changed_from: int) -> None:
        """Hide what is folded, and show the rest."""
        folds = [
            fold for fold in self.decorations if fold.kind == "fold" and fold.end >= changed_from
        ]
        if not folds and not self._has_folded:
            return
        self._has_folded = True
        # Where text was removed, Qt may keep a block that was hidden.
        block = self._document.findBlock(changed_from)
        while block.isValid():
            block.setVisible(True)
            block = block.next()
        for fold in folds:  # outer ones first
            summary = self._document.findBlock(fold.start)
            is_shown = summary.isVisible() and self.is_open(fold)
            self._show_arrow(fold)
            block = summary.next()
            while block.isValid() and block.position() <= fold.end:
                block.setVisible(is_shown)
                block = block.next()
        start = min([changed_from, *(fold.start for fold in folds)])
        for table in self.decorations:
            if table.kind == "table" and table.start > start:
                self._fit_table(table)
        self._document.markContentsDirty(start, self._document.characterCount() - start)

    def _show_arrow(self, fold: Decoration) -> None:
        """Replace the arrow of a fold's summary by that of its state."""
        cursor = QTextCursor(self._document)
        cursor.setPosition(fold.start)
        cursor.setPosition(fold.start + 1, QTextCursor.MoveMode.KeepAnchor)
        if cursor.selectedText() in ARROWS.values():
            cursor.insertText(ARROWS[self.is_open(fold)], cursor.charFormat())

    def _fit_table(self, decoration: Decoration) -> None:
        """Let a table that is hidden take no room."""
        block = self._document.findBlock(decoration.start)
        table = table_at(block)
        if table is None:
            return
        style, form = self.style, table.format()
        above = form.doubleProperty(ABOVE_PROPERTY)
        is_shown = int(block.isVisible())
        form.setCellPadding(style.cell_pad_px * is_shown)
        form.setTopMargin(above * is_shown)
        form.setBottomMargin(style.gap_px * is_shown)
        table.setFormat(form)

    def _writer(self, cursor: QTextCursor, numbers: dict[str, int]) -> MarkdownWriter:
        return MarkdownWriter(
            cursor,
            self.style,
            self._before,
            numbers,
            self._available_px(),
            self._pictures,
            self._turned.__contains__,
        )

    def _freeze(self, cursor: QTextCursor, before: Before, numbers: dict[str, int]) -> None:
        self._frozen_end = cursor.position()
        self._frozen_format = cursor.blockFormat()
        self._frozen_char_format = cursor.blockCharFormat()
        self._before = before
        self._numbers = numbers

    def _remove_tail(self, cursor: QTextCursor) -> None:
        start = self._frozen_end if self._before.is_first else self._frozen_end + 1
        while self.decorations and self.decorations[-1].start >= start:
            self.decorations.pop()
        cursor.setPosition(self._frozen_end)
        cursor.movePosition(QTextCursor.MoveOperation.End, QTextCursor.MoveMode.KeepAnchor)
        cursor.removeSelectedText()
        cursor.setBlockFormat(self._frozen_format)
        cursor.setBlockCharFormat(self._frozen_char_format)

    def _shorten_tail(self, lines: int) -> None:
        at = 0
        for _ in range(lines):
            at = self._tail.index("\n", at) + 1
        self._mentioned |= note_mentions(self._tail[:at])
        self._tail = self._tail[at:]

    def _restart(self) -> None:
        """Start again with an empty document."""
        self._tail = self.source
        self.decorations = []
        self._frozen_end = 0
        self._frozen_format, self._frozen_char_format = QTextBlockFormat(), QTextCharFormat()
        self._before = Before()
        self._notes, self._numbers, self._mentioned = set(), {}, set()
        self.is_writing = True
        self._pictures.clear()
        self._document.clear()
        self.is_writing = False

"""Markdown that grows: closed blocks are written once, the last one again and again."""

from collections.abc import Callable
from dataclasses import replace

from markdown_it.token import Token
from PySide6.QtCore import Qt
from PySide6.QtGui import QTextBlockFormat, QTextCharFormat, QTextCursor, QTextDocument

from ui.kit.markdown.block_writer import (
    Before,
    BlockWriter,
    CodeWriter,
    MarkdownWriter,
    Row,
    TableWriter,
    code_lines,
    constraints,
    language_of,
    table_rows,
)
from ui.kit.markdown.inline_writer import ABOVE_PROPERTY, InlineWriter
from ui.kit.markdown.parser import (
    OpenBlock,
    closed_tokens,
    note_labels,
    note_mentions,
    note_numbers,
    prepared,
    table_tokens,
)
from ui.kit.markdown.pictures import Pictures
from ui.kit.markdown.style import Decoration, MarkdownStyle, OpenCode, Runs, table_at

# Without this module, each piece of a long block would cost as much as the whole block.

_Signature = tuple[tuple[str, str, str], ...]


class GrowingCode:
    """The lines of a code card at the end of a document."""

    def __init__(self) -> None:
        self.changed_from = 0
        self.is_exact = False
        self._lines: list[Runs] = []
        self._colored = OpenCode()

    def note(self, tokens: list[Token], card: Decoration | None, style: MarkdownStyle) -> None:
        """Remember the written card."""
        self._lines = []
        if card is not None and len(tokens) == 1 and tokens[0].type == "fence":
            self._lines = code_lines(card.text, card.label, style)

    def grow(
        self,
        cursor: QTextCursor,
        tokens: list[Token],
        card: Decoration,
        style: MarkdownStyle,
        pictures: Pictures,
    ) -> Decoration | None:
        """Write the lines that changed."""
        if not self._lines or len(tokens) != 1 or tokens[0].type != "fence":
            return None
        body = tokens[0].content.removesuffix("\n")
        if tokens[0].info.strip() != card.label or card.kind != "code":
            return None
        if self.is_exact:
            lines = code_lines(body, card.label, style)
        else:
            lines = self._colored.lines(body, language_of(card.label), style.code)
        most = min(len(lines), len(self._lines)) - 1  # the last line has a margin below
        same = zip(lines[:most], self._lines[:most], strict=True)
        kept = next((i for i, (new, old) in enumerate(same) if new != old), most)
        if kept < 1:
            return None
        document = cursor.document()
        first = document.findBlock(card.start).blockNumber()
        last_kept = document.findBlockByNumber(first + kept - 1)
        self.changed_from = last_kept.position()
        cursor.setPosition(last_kept.position() + last_kept.length() - 1)
        cursor.movePosition(QTextCursor.MoveOperation.End, QTextCursor.MoveMode.KeepAnchor)
        form, char_form = last_kept.blockFormat(), last_kept.charFormat()
        cursor.removeSelectedText()
        cursor.setBlockFormat(form)
        cursor.setBlockCharFormat(char_form)
        inline = InlineWriter(cursor, style, {}, pictures)
        blocks = BlockWriter(cursor, style, False, False, inline)
        _, width = CodeWriter(blocks).write_lines(lines[kept:], card.label, is_start=False)
        self._lines = lines
        width = max(width, card.width_px)
        return replace(card, end=cursor.position(), text=body, width_px=width)


class GrowingTable:
    """The rows of a table at the end of a document."""

    def __init__(self) -> None:
        self.changed_from = 0
        self._tokens: list[Row] = []
        self._rows: list[_Signature] = []
        self._widths: list[list[tuple[float, float]]] = []

    def note(self, tokens: list[Token], source: str) -> None:
        """Remember the written table; its rows are measured when it grows."""
        self._tokens = _rows_of(tokens, source)
        self._rows = [_signature(row) for row in self._tokens]
        self._widths = []

    def grow(
        self,
        cursor: QTextCursor,
        tokens: list[Token],
        source: str,
        table: Decoration,
        writer: BlockWriter,
    ) -> Decoration | None:
        """Write the rows that changed."""
        if not self._rows or table.kind != "table":
            return None
        rows = _rows_of(tokens, source)
        signatures = self._signatures(rows)
        kept = len(self._rows) - 1
        if len(rows) <= kept or kept < 1 or signatures[:kept] != self._rows[:kept]:
            return None
        grown = table_at(cursor.document().findBlock(table.start))
        if grown is None:
            return None
        tables = TableWriter(writer)
        self.changed_from = grown.cellAt(kept, 0).firstPosition()
        if len(rows) > len(self._rows):
            grown.appendRows(len(rows) - len(self._rows))
        for number in range(kept, len(rows)):
            if number >= len(self._rows) or signatures[number] != self._rows[number]:
                tables.write_row(grown, number, rows[number])
        measured = self._widths[:kept]
        self._widths = measured + [tables.widths_of(row) for row in rows[len(measured) :]]
        columns = tables.shared(self._widths)
        if columns != table.columns:
            form = grown.format()
            room = writer.room_px - table.left_px
            form.setColumnWidthConstraints(constraints(columns, room, writer.style))
            grown.setFormat(form)
            self.changed_from = table.start
        self._tokens, self._rows = rows, signatures
        return replace(table, end=grown.lastPosition(), columns=columns)

    def _signatures(self, rows: list[Row]) -> list[_Signature]:
        """Return the signatures of rows; a row that was not parsed again keeps its signature."""
        known = zip(rows, self._tokens, self._rows, strict=False)
        kept = [signature for row, old, signature in known if row[0][0] is old[0][0]]
        return kept + [_signature(row) for row in rows[len(kept) :]]


def _rows_of(tokens: list[Token], source: str) -> list[Row]:
    """Return the rows of a table that is the only block; none if there is any other block."""
    is_alone = tokens and tokens[0].type == "table_open" and tokens[-1].type == "table_close"
    if not is_alone or sum(token.type == "table_open" for token in tokens) != 1:
        return []
    table = table_tokens(tokens, source)
    return [] if table is None else table_rows(table)


def _signature(row: Row) -> _Signature:
    return tuple((cell.type, str(cell.attrGet("style")), text.content) for cell, text in row)


# Main thread; knows the document and no widget.


class GrowingText:
    """Writes a text into a document, and appends more of it as it arrives.

    Args:
        document: The document; nobody else may change it.
        style: Fonts and colors; a change takes effect with the next ``show``.
        room_px: Returns the width of the view.

    Attributes:
        source: The text exactly as it was given.
        decorations: The decorations to paint beneath the text.
        is_writing: Whether the document is being changed; the decorations do not fit it then.
        changed_from: The document position from which the last ``write`` changed it.
    """

    def __init__(
        self, document: QTextDocument, style: MarkdownStyle, room_px: Callable[[], float]
    ) -> None:
        self.style = style
        self.source = ""
        self.decorations: list[Decoration] = []
        self.is_writing = False
        self.changed_from = 0
        self._document = document
        self._room_px = room_px
        self._pictures = Pictures(document)
        # The parts that a person folded or unfolded, by their numbers in the text.
        self._turned: set[int] = set()
        self._has_folded = False
        self._code, self._table = GrowingCode(), GrowingTable()
        self._open_block = OpenBlock()
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
        """Replace the present text by another one."""
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
        """Write the rest of the text, which is complete now."""
        self._code.is_exact = True
        self.write()
        self._code.is_exact = False
        if self._notes and self._frozen_end:
            # A footnote may be defined far away: only writing everything again numbers it right.
            self.show(self.source)

    def write(self) -> None:
        """Write the text that arrived since the last call."""
        text = prepared(self._tail)
        tokens = self._open_block.parse(text, self._notes)
        labels = note_labels(tokens)
        if labels & self._mentioned - self._notes:  # closed text names a note that is new
            self._restart()
            text = prepared(self._tail)
            tokens = self._open_block.parse(text, ())
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
        if not closed and self._grow(cursor, tokens, text, numbers):
            return 0
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
        newest = self._newest()
        card = None if newest is None else self.decorations[newest]
        self._code.note(tokens[closed:], card, self.style)
        self._table.note(tokens[closed:], text)
        return first_open_line

    def _grow(
        self, cursor: QTextCursor, tokens: list[Token], text: str, numbers: dict[str, int]
    ) -> bool:
        """Write only the changes, if the open text is one block that has grown."""
        place = self._newest()
        if place is None:
            return False
        newest = self.decorations[place]
        grown = self._code.grow(cursor, tokens, newest, self.style, self._pictures)
        self.changed_from = self._code.changed_from
        inline = InlineWriter(cursor, self.style, numbers, self._pictures, self._room_px())
        if grown is None:
            blocks = BlockWriter(cursor, self.style, False, False, inline, self._room_px())
            grown = self._table.grow(cursor, tokens, text, newest, blocks)
            self.changed_from = self._table.changed_from
        if grown is None:
            return False
        self.decorations[place] = grown
        keys = [key for key in self.decorations[place + 1 :] if key.end < self.changed_from]
        keys += [Decoration("key", start, end) for start, end in inline.keys]
        self.decorations[place + 1 :] = keys
        return True

    def _newest(self) -> int | None:
        """Return the place of the newest card or table among the decorations."""
        places = range(len(self.decorations) - 1, -1, -1)
        return next((n for n in places if self.decorations[n].kind != "key"), None)

    def fit_drawn(self) -> None:
        """Fit pictures into the view, and center the formulas that are narrower than it."""
        room, style = self._room_px(), self.style
        for decoration in self.decorations:
            if decoration.kind == "formula" and decoration.width_px:
                cursor = QTextCursor(self._document.findBlock(decoration.start))
                form = cursor.blockFormat()
                fits = decoration.width_px <= room - decoration.left_px
                wanted = Qt.AlignmentFlag.AlignHCenter if fits else Qt.AlignmentFlag.AlignLeft
                if form.alignment() != wanted:
                    form.setAlignment(wanted)
                    cursor.setBlockFormat(form)
        for position, name in self._pictures.shown(self._document):
            drawn = self._pictures.get(name)
            cursor = QTextCursor(self._document)
            cursor.setPosition(position)
            cursor.setPosition(position + 1, QTextCursor.MoveMode.KeepAnchor)
            image = cursor.charFormat().toImageFormat()
            left = cursor.blockFormat().leftMargin()
            if drawn is not None and self._pictures.fit(image, drawn, style.font, room - left):
                cursor.setCharFormat(image)

    # -- parts that can be folded ------------------------------------------------------------

    def is_open(self, fold: Decoration) -> bool:
        """Return whether a part that can be folded is shown."""
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
            block = summary.next()
            while block.isValid() and block.position() <= fold.end:
                block.setVisible(is_shown)
                block = block.next()
        start = min([changed_from, *(fold.start for fold in folds)])
        for table in self.decorations:
            if table.kind == "table" and table.start > start:
                self._fit_table(table)
        self._document.markContentsDirty(start, self._document.characterCount() - start)

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
            self._room_px(),
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

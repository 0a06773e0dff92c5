"""Writes only the changes of a code block or table, if that is the whole open text.

Main thread. Without this module, each piece of a long block would cost as much as the whole block.
"""

from dataclasses import replace

from markdown_it.token import Token
from PySide6.QtGui import QTextCursor

from ui.kit.markdown.parsing.parser import table_tokens
from ui.kit.markdown.writing.block_writer import BlockWriter
from ui.kit.markdown.writing.code_writer import CodeWriter, code_lines, language_of
from ui.kit.markdown.writing.decorations import table_at
from ui.kit.markdown.writing.highlighting import OpenCode, Runs
from ui.kit.markdown.writing.inline_writer import InlineWriter
from ui.kit.markdown.writing.markdown_style import Decoration, MarkdownStyle
from ui.kit.markdown.writing.table_writer import Row, TableWriter, constraints, table_rows

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
        self, cursor: QTextCursor, tokens: list[Token], card: Decoration, style: MarkdownStyle
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
        blocks = BlockWriter(cursor, style, False, False, InlineWriter(cursor, style, {}))
        _, width = CodeWriter(blocks).write_lines(lines[kept:], is_start=False)
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

"""Writes tables, and shares the room among their columns. Main thread.

A table is as wide as its text. Where there is too little room its cells wrap between words; where
that is too little too, the table is wider than the view and scrolls in its place.
"""

from collections.abc import Sequence

from markdown_it.token import Token
from PySide6.QtCore import Qt
from PySide6.QtGui import (
    QFont,
    QTextBlockFormat,
    QTextCharFormat,
    QTextLength,
    QTextTable,
    QTextTableFormat,
)

from ui.widgets.block_writer import BlockWriter
from ui.widgets.markdown_style import Decoration, MarkdownStyle

_ALIGNMENTS = {
    "text-align:left": Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignAbsolute,
    "text-align:center": Qt.AlignmentFlag.AlignHCenter,
    "text-align:right": Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignAbsolute,
}
# Longer words break; a column of prose is not squeezed below the other.
_WIDEST_WORD_EM = 22
_READABLE_EM = 10


class TableWriter:
    """Writes tables where a ``BlockWriter`` is."""

    def __init__(self, blocks: BlockWriter) -> None:
        self._blocks = blocks

    def write(self, tokens: list[Token]) -> None:
        """Write a table.

        Args:
            tokens: From ``table_open`` to ``table_close``.
        """
        blocks = self._blocks
        rows = _rows(tokens)
        columns = len(rows[0])
        blocks.begin_waiting_mark()
        top_px = blocks.top_margin(10)
        blocks.begin_below_the_top()
        shares = self._measured(rows)
        form = self._format(shares, top_px)
        table: QTextTable = blocks.cursor.insertTable(len(rows), columns, form)
        for row, cells in enumerate(rows):
            for column, (cell, text) in enumerate(cells):
                self._write_cell(table, row, column, cell, text)
        blocks.cursor.movePosition(blocks.cursor.MoveOperation.End)
        blocks.flatten()
        blocks.is_after_code, blocks.is_after_table = False, True
        blocks.note_position(table.firstPosition())
        blocks.note_position(table.lastPosition())
        place = table.firstPosition(), table.lastPosition(), blocks.indent_px
        blocks.decorations.append(Decoration("table", *place, columns=shares))

    def _measured(self, rows: list[list[tuple[Token, Token]]]) -> tuple[tuple[float, float], ...]:
        """Return the least and the natural width of each column."""
        blocks = self._blocks
        widths = [(0.0, 0.0)] * len(rows[0])
        for cells in rows:
            for column, (cell, text) in enumerate(cells):
                least, whole = blocks.inline.widths(text, is_head=cell.type == "th_open")
                before = widths[column]
                widths[column] = max(before[0], least), max(before[1], whole)
        around_px = 2 * blocks.style.cell_pad_px + 2
        word_px = blocks.style.em * _WIDEST_WORD_EM
        return tuple((min(a, word_px) + around_px, b + around_px) for a, b in widths)

    def _format(self, shares: tuple[tuple[float, float], ...], top_px: float) -> QTextTableFormat:
        style = self._blocks.style
        form = QTextTableFormat()
        # Its lines are painted with the cards: Qt leaves the corners of its own open.
        form.setBorder(0)
        form.setCellPadding(style.cell_pad_px)
        form.setCellSpacing(0)
        form.setTopMargin(top_px)
        form.setBottomMargin(style.gap_px)
        form.setLeftMargin(self._blocks.indent_px)
        form.setHeaderRowCount(1)
        room = self._blocks.room_px - self._blocks.indent_px
        form.setColumnWidthConstraints(constraints(shares, room, style))
        return form

    def _write_cell(
        self, table: QTextTable, row: int, column: int, cell: Token, text: Token
    ) -> None:
        blocks = self._blocks
        cursor = table.cellAt(row, column).firstCursorPosition()
        block = QTextBlockFormat()
        alignment = _ALIGNMENTS.get(str(cell.attrGet("style")))
        if alignment is not None:
            block.setAlignment(alignment)
        block.setLineHeight(120, QTextBlockFormat.LineHeightTypes.ProportionalHeight.value)
        form = QTextCharFormat(blocks.inline.plain())
        if cell.type == "th_open":
            form.setFontWeight(QFont.Weight.DemiBold)
        cursor.setBlockFormat(block)
        cursor.setBlockCharFormat(form)
        with blocks.inline.writing_at(cursor):
            blocks.inline.write(text, form)


def column_widths(
    columns: Sequence[tuple[float, float]], room_px: float, readable_px: float
) -> list[float]:
    """Share the room among columns.

    Args:
        columns: The least and the natural width of each.
        room_px: What there is for all.
        readable_px: No column is narrower than this without need where the table scrolls anyway.
    """
    least, natural = sum(a for a, _ in columns), sum(b for _, b in columns)
    if natural <= room_px:
        return [float(round(b + 0.5)) for _, b in columns]
    if least > room_px:
        return [float(round(max(a, min(b, readable_px)) + 0.5)) for a, b in columns]
    share = (room_px - least) / (natural - least)
    widths = [float(int(a + (b - a) * share)) for a, b in columns]
    widths[-1] += int(room_px - sum(widths))
    return widths


def constraints(
    columns: Sequence[tuple[float, float]], room_px: float, style: MarkdownStyle
) -> list[QTextLength]:
    """Return the widths of columns as a table takes them."""
    widths = column_widths(columns, room_px, style.em * _READABLE_EM)
    return [QTextLength(QTextLength.Type.FixedLength, width) for width in widths]


def _rows(tokens: list[Token]) -> list[list[tuple[Token, Token]]]:
    rows: list[list[tuple[Token, Token]]] = []
    for position, token in enumerate(tokens):
        if token.type == "tr_open":
            rows.append([])
        elif token.type in ("th_open", "td_open"):
            rows[-1].append((token, tokens[position + 1]))
        elif token.type == "table_close":
            break
    return rows

"""Writes tables, and divides the width among their columns. Main thread.

A table is as wide as its text. If there is too little room, its cells wrap between words; if that
is not enough, the table is wider than the view and scrolls sideways.
"""

from functools import lru_cache

from markdown_it.token import Token
from PySide6.QtCore import Qt
from PySide6.QtGui import (
    QFont,
    QTextBlockFormat,
    QTextCharFormat,
    QTextCursor,
    QTextLength,
    QTextTable,
    QTextTableFormat,
)

from ui.kit.markdown.writing.block_writer import BlockWriter
from ui.kit.markdown.writing.markdown_style import Decoration, MarkdownStyle

_ALIGNMENTS = {
    "text-align:left": Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignAbsolute,
    "text-align:center": Qt.AlignmentFlag.AlignHCenter,
    "text-align:right": Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignAbsolute,
}
# Longer words break; a column of prose never becomes narrower than this.
_WIDEST_WORD_EM = 22
_READABLE_EM = 10

Row = list[tuple[Token, Token]]


class TableWriter:
    """Writes tables at the cursor of a ``BlockWriter``."""

    def __init__(self, blocks: BlockWriter) -> None:
        self._blocks = blocks

    def write(self, tokens: list[Token]) -> None:
        """Write a table."""
        blocks = self._blocks
        rows = table_rows(tokens)
        blocks.begin_waiting_mark()
        top_px = blocks.top_margin(10)
        blocks.begin_below_the_top()
        blocks.keep_empty_block()
        shares = self.shared([self.widths_of(row) for row in rows])
        form = self._format(shares, top_px)
        table: QTextTable = blocks.cursor.insertTable(len(rows), len(rows[0]), form)
        for number, row in enumerate(rows):
            self.write_row(table, number, row)
        blocks.cursor.movePosition(blocks.cursor.MoveOperation.End)
        blocks.flatten()
        blocks.is_after_code, blocks.is_after_table = False, True
        blocks.note_position(table.firstPosition())
        blocks.note_position(table.lastPosition())
        place = table.firstPosition(), table.lastPosition(), blocks.indent_px
        blocks.decorations.append(Decoration("table", *place, columns=shares))

    def write_row(self, table: QTextTable, number: int, row: Row) -> None:
        """Replace the contents of the cells of a row."""
        for column, (cell, text) in enumerate(row):
            self._write_cell(table, number, column, cell, text)

    def widths_of(self, row: Row) -> list[tuple[float, float]]:
        """Return the width of the widest word, and of the whole text, of each cell."""
        inline = self._blocks.inline
        return [inline.widths(text, is_head=cell.type == "th_open") for cell, text in row]

    def shared(self, rows: list[list[tuple[float, float]]]) -> tuple[tuple[float, float], ...]:
        """Return the least and the natural width of each column."""
        style = self._blocks.style
        around_px = 2 * style.cell_pad_px + 2
        word_px = style.em * _WIDEST_WORD_EM
        return tuple(
            (
                min(max(least for least, _ in column), word_px) + around_px,
                max(whole for _, whole in column) + around_px,
            )
            for column in zip(*rows, strict=True)
        )

    def _format(self, shares: tuple[tuple[float, float], ...], top_px: float) -> QTextTableFormat:
        style = self._blocks.style
        form = QTextTableFormat()
        # The grid is painted with the cards: Qt's own borders leave gaps at the corners.
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
        place = table.cellAt(row, column)
        cursor = place.firstCursorPosition()
        cursor.setPosition(place.lastCursorPosition().position(), QTextCursor.MoveMode.KeepAnchor)
        cursor.removeSelectedText()
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


@lru_cache(maxsize=256)
def column_widths(
    columns: tuple[tuple[float, float], ...], room_px: float, readable_px: float
) -> tuple[float, ...]:
    """Divide the width among columns."""
    least, natural = sum(a for a, _ in columns), sum(b for _, b in columns)
    if natural <= room_px:
        return tuple(float(round(b + 0.5)) for _, b in columns)
    if least > room_px:
        return tuple(float(round(max(a, min(b, readable_px)) + 0.5)) for a, b in columns)
    share = (room_px - least) / (natural - least)
    widths = [float(int(a + (b - a) * share)) for a, b in columns]
    widths[-1] += int(room_px - sum(widths))
    return tuple(widths)


def shared_room(
    columns: tuple[tuple[float, float], ...], room_px: float, style: MarkdownStyle
) -> tuple[float, ...]:
    """Return the widths of columns in a view of this width."""
    return column_widths(columns, room_px, style.em * _READABLE_EM)


def constraints(
    columns: tuple[tuple[float, float], ...], room_px: float, style: MarkdownStyle
) -> list[QTextLength]:
    """Return the widths of columns in Qt's form."""
    widths = shared_room(columns, room_px, style)
    return [QTextLength(QTextLength.Type.FixedLength, width) for width in widths]


def table_rows(tokens: list[Token]) -> list[Row]:
    """Return the rows of a table: each cell with its text."""
    rows: list[Row] = []
    for position, token in enumerate(tokens):
        if token.type == "tr_open":
            rows.append([])
        elif token.type in ("th_open", "td_open"):
            rows[-1].append((token, tokens[position + 1]))
        elif token.type == "table_close":
            break
    return rows

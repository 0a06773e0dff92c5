"""Copies text from a rendered document: tables as tables, pictures as their source.

Main thread.
"""

import html
import re
from typing import cast

from PySide6.QtCore import QMimeData
from PySide6.QtGui import QTextBlock, QTextCursor, QTextDocument, QTextTable

from ui.kit.markdown.writing.decorations import table_at
from ui.kit.markdown.writing.inline_writer import SOURCE_PROPERTY

_PICTURE = "\ufffc"
_IMAGE = re.compile(r'<img src="(?:formula:[^":]*:[^":]*|box:[^":]*:[^":]*):([^"]*)"[^>]*/?>')


def text_between(document: QTextDocument, start: int, end: int) -> str:
    """Return the text from one position to another.

    Formulas and boxes become their source; the cells of a row are one line, separated by tabs.
    """
    out: list[str] = []
    block = document.findBlock(start)
    before: QTextTable | None = None
    row = -1
    while block.isValid() and block.position() <= end:
        table = table_at(block)
        if table is None and _is_flat(block):
            block = block.next()
            continue
        this_row = table.cellAt(block.position()).row() if table is not None else -1
        if out:
            is_beside = table is not None and table == before and this_row == row
            out.append("\t" if is_beside else "\n")
        out.append(_block_text(block, start, end))
        before, row = table, this_row
        block = block.next()
    return "".join(out)


def mime_of(cursor: QTextCursor, as_html: str) -> QMimeData:
    """Return the clipboard data of a selection."""
    data = QMimeData()
    # Pictures are replaced by their source: other programs cannot show the pictures.
    data.setHtml(_IMAGE.sub(lambda match: html.escape(html.unescape(match[1])), as_html))
    table = table_at(cursor.block())
    if cursor.hasComplexSelection() and table is not None:
        data.setText(_cells_text(cursor, table))
    else:
        first, last = cursor.selectionStart(), cursor.selectionEnd()
        data.setText(text_between(cursor.document(), first, last))
    return data


def _cells_text(cursor: QTextCursor, table: QTextTable) -> str:
    chosen = cast("tuple[int, int, int, int]", cursor.selectedTableCells())
    first_row, rows, first_column, columns = chosen
    lines = []
    for row in range(first_row, first_row + rows):
        cells = []
        for column in range(first_column, first_column + columns):
            cell = table.cellAt(row, column)
            at = cell.firstCursorPosition().position(), cell.lastCursorPosition().position()
            cells.append(_block_text(cell.firstCursorPosition().block(), *at))
        lines.append("\t".join(cells))
    return "\n".join(lines)


def _is_flat(block: QTextBlock) -> bool:
    """Whether this is the empty block that Qt keeps around a table."""
    return block.length() == 1 and block.blockFormat().lineHeight() == 1


def _block_text(block: QTextBlock, start: int, end: int) -> str:
    out: list[str] = []
    fragments = block.begin()
    while not fragments.atEnd():
        piece = fragments.fragment()
        begin = max(start - piece.position(), 0)
        # Positions count UTF-16 units, as Qt does.
        units = piece.text().encode("utf-16-le")[2 * begin : 2 * max(0, end - piece.position())]
        text = units.decode("utf-16-le", "replace").replace("\u2028", "\n")
        source = piece.charFormat().stringProperty(SOURCE_PROPERTY)
        out.append(text.replace(_PICTURE, source) if source else text)
        fragments += 1
    return "".join(out)

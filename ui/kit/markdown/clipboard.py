"""Copies rendered Markdown: as plain text, and as HTML without fonts and colors. Main thread.

Formulas and boxes become their source. Lists keep their marks and their indentation, the cells of a
row are one line separated by tabs, and lines of code stay as they are.
"""

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import cast

from PySide6.QtCore import QMimeData
from PySide6.QtGui import QFont, QTextBlock, QTextCharFormat, QTextCursor, QTextDocument, QTextTable

from ui.kit.markdown.inline_writer import (
    DEPTH_PROPERTY,
    LINE_SEPARATOR,
    MARK_PROPERTY,
    QUOTE_PROPERTY,
    SOURCE_PROPERTY,
    TAG_PROPERTY,
)
from ui.kit.markdown.style import CODE_PROPERTY, table_at

Cell = tuple[QTextBlock, int, int]
"""A block, and the positions between which it is selected."""

Piece = tuple[str, QTextCharFormat]
_PICTURE = "\ufffc"
_INDENT = "  "
_NUMBER = re.compile(r"(\d+|[a-z]+)[.)]")


def text_between(document: QTextDocument, start: int, end: int) -> str:
    """Return the text from one position to another."""
    out: list[str] = []
    for part in _parts(document, start, end):
        if isinstance(part, QTextBlock):
            out.append(_indented(part, start, end))
        else:
            out += ["\t".join(_text(*cell) for cell in row) for row in part]
    return "\n".join(out)


def mime_of(cursor: QTextCursor) -> QMimeData:
    """Return the clipboard data of a selection."""
    data = QMimeData()
    table = table_at(cursor.block())
    first, last = cursor.selectionStart(), cursor.selectionEnd()
    if cursor.hasComplexSelection() and table is not None:
        rows = _chosen_cells(cursor, table)
        data.setText("\n".join("\t".join(_text(*cell) for cell in row) for row in rows))
        data.setHtml(_table_html(rows))
    else:
        data.setText(text_between(cursor.document(), first, last))
        data.setHtml(html_between(cursor.document(), first, last))
    return data


def _chosen_cells(cursor: QTextCursor, table: QTextTable) -> list[list[Cell]]:
    chosen = cast("tuple[int, int, int, int]", cursor.selectedTableCells())
    first_row, rows, first_column, columns = chosen
    chosen_rows = []
    for row in range(first_row, first_row + rows):
        cells = [table.cellAt(row, n) for n in range(first_column, first_column + columns)]
        positions = [(cell.firstCursorPosition(), cell.lastCursorPosition()) for cell in cells]
        chosen_rows.append([(a.block(), a.position(), b.position()) for a, b in positions])
    return chosen_rows


def _parts(
    document: QTextDocument, start: int, end: int
) -> Iterator[QTextBlock | list[list[Cell]]]:
    """Yield the blocks from one position to another, and tables as rows of cells."""
    table: QTextTable | None = None
    rows: list[list[Cell]] = []
    row = -1
    block = document.findBlock(start)
    while block.isValid() and block.position() <= end:
        inside = table_at(block)
        if rows and inside != table:
            yield rows
            rows, row = [], -1
        table = inside
        is_flat = block.length() == 1 and block.blockFormat().lineHeight() == 1
        if inside is None and not is_flat:  # Qt keeps flat blocks around tables
            yield block
        elif inside is not None:
            this_row = inside.cellAt(block.position()).row()
            if this_row != row:
                rows.append([])
            rows[-1].append((block, start, end))
            row = this_row
        block = block.next()
    if rows:
        yield rows


def _pieces(block: QTextBlock, start: int, end: int) -> Iterator[Piece]:
    fragments = block.begin()
    while not fragments.atEnd():
        piece = fragments.fragment()
        begin = max(start - piece.position(), 0)
        # Positions count UTF-16 units, as Qt does.
        units = piece.text().encode("utf-16-le")[2 * begin : 2 * max(0, end - piece.position())]
        text = units.decode("utf-16-le", "replace").replace(LINE_SEPARATOR, "\n")
        form = piece.charFormat()
        if form.hasProperty(SOURCE_PROPERTY):
            source = form.stringProperty(SOURCE_PROPERTY)
            text = text.replace(_PICTURE, source) if _PICTURE in text else source
        if text:
            yield text, form
        fragments += 1


def _text(block: QTextBlock, start: int, end: int) -> str:
    return "".join(text for text, _ in _pieces(block, start, end))


def _indented(block: QTextBlock, start: int, end: int) -> str:
    """Return the text of a block with its indentation in lists, if its beginning is chosen."""
    form, text = block.blockFormat(), _text(block, start, end)
    depth = form.intProperty(DEPTH_PROPERTY)
    if not depth or form.hasProperty(CODE_PROPERTY) or start > block.position():
        return text
    mark = form.stringProperty(MARK_PROPERTY)
    inner = _INDENT * depth
    if not mark:
        return inner + text.replace("\n", f"\n{inner}")
    sentence = text.removeprefix(mark).lstrip("\t ")
    return f"{_INDENT * (depth - 1)}{mark} " + sentence.replace("\n", f"\n{inner}")


def html_between(document: QTextDocument, start: int, end: int) -> str:
    """Return the text from one position to another as HTML."""
    page = _Page()
    for part in _parts(document, start, end):
        if isinstance(part, QTextBlock):
            page.add(part, start, end)
        else:
            page.add_table(part)
    return page.whole()


@dataclass(slots=True)
class _Page:
    """HTML that is being written, with the lists and the code that are open."""

    out: list[str] = field(default_factory=list)
    lists: list[str] = field(default_factory=list)
    quotes: int = 0
    is_code: bool = False

    def add(self, block: QTextBlock, start: int, end: int) -> None:
        form = block.blockFormat()
        depth, mark = form.intProperty(DEPTH_PROPERTY), form.stringProperty(MARK_PROPERTY)
        is_code = form.hasProperty(CODE_PROPERTY)
        if not (is_code and self.is_code):
            self._end_code()
            self._nest(form.intProperty(QUOTE_PROPERTY))
        if is_code:
            self._add_code(_text(block, start, end), form.stringProperty(CODE_PROPERTY), depth)
            return
        pieces = list(_pieces(block, start, end))
        if depth:
            self._open_lists(depth, mark)
            if mark:
                text = _without_mark(pieces, mark, is_whole=start <= block.position())
                box = html.escape(f"{mark} ") if mark.startswith("[") else ""
                self.out.append(f"<li>{box}{text}")
            else:
                self.out.append(f"<p>{_inline(pieces)}</p>")
            return
        self._close_lists(0)
        level = form.headingLevel()
        tag = f"h{level}" if level else "p"
        if text := _inline(pieces, is_heading=bool(level)):
            self.out.append(f"<{tag}>{text}</{tag}>\n")

    def add_table(self, rows: list[list[Cell]]) -> None:
        form = rows[0][0][0].blockFormat()
        self._end_code()
        self._nest(form.intProperty(QUOTE_PROPERTY))
        self._close_lists(form.intProperty(DEPTH_PROPERTY))
        self.out.append(_table_html(rows))

    def whole(self) -> str:
        """Return the HTML, with everything closed."""
        self._end_code()
        self._close_lists(0)
        self._nest(0)
        return "".join(self.out)

    def _add_code(self, line: str, language: str, depth: int) -> None:
        if self.is_code:
            self.out.append("\n")
        else:
            self._close_lists(depth)
            self.out.append(f'<pre><code class="language-{html.escape(language)}">')
            self.is_code = True
        self.out.append(html.escape(line))

    def _end_code(self) -> None:
        if self.is_code:
            self.out.append("</code></pre>\n")
            self.is_code = False

    def _nest(self, quotes: int) -> None:
        if quotes != self.quotes:
            self._close_lists(0)
        while self.quotes < quotes:
            self.out.append("<blockquote>")
            self.quotes += 1
        while self.quotes > quotes:
            self.out.append("</blockquote>\n")
            self.quotes -= 1

    def _open_lists(self, depth: int, mark: str) -> None:
        """Open or close lists, so that the next item has this depth."""
        number = _NUMBER.fullmatch(mark)
        kind = "ol" if number else "ul"
        self._close_lists(depth)
        if mark and len(self.lists) == depth:
            if self.lists[-1] == kind:
                self.out.append("</li>")
            else:
                self._close_lists(depth - 1)
        while len(self.lists) < depth:
            is_last = len(self.lists) == depth - 1
            tag = kind if is_last else "ul"
            first = number[1] if number and is_last and number[1].isdigit() else "1"
            self.out.append(f"<{tag}>" if first == "1" else f'<{tag} start="{first}">')
            self.lists.append(tag)
            if not is_last or not mark:  # the selection begins within an item
                self.out.append("<li>")

    def _close_lists(self, depth: int) -> None:
        while len(self.lists) > depth:
            self.out.append(f"</li></{self.lists.pop()}>\n")


def _without_mark(pieces: list[Piece], mark: str, *, is_whole: bool) -> str:
    if is_whole and pieces and pieces[0][0].startswith(mark):
        first = pieces[0][0].removeprefix(mark).lstrip("\t ")
        pieces = [(first, pieces[0][1]), *pieces[1:]]
        if not first and len(pieces) > 1:
            pieces[1] = (pieces[1][0].lstrip("\t"), pieces[1][1])
    return _inline(pieces)


def _inline(pieces: list[Piece], *, is_heading: bool = False) -> str:
    out = []
    for plain, form in pieces:
        text = html.escape(plain).replace("\n", "<br>")
        for tag in _tags(form, is_heading=is_heading):
            text = f"<{tag}>{text}</{tag}>"
        target = form.anchorHref()
        if target and not target.startswith("#") and text.strip():
            text = f'<a href="{html.escape(target)}">{text}</a>'
        out.append(text)
    return "".join(out).replace("</code><code>", "")  # its last letter has a format of its own


def _tags(form: QTextCharFormat, *, is_heading: bool) -> Iterator[str]:
    """Yield the tags of a format, from the inside out; none for a drawn picture or formula."""
    if form.hasProperty(SOURCE_PROPERTY):
        return
    if tag := form.stringProperty(TAG_PROPERTY):
        yield tag
    elif form.fontFixedPitch() or form.font().styleHint() is QFont.StyleHint.Monospace:
        yield "code"
    if form.fontItalic():
        yield "em"
    if form.fontWeight() >= QFont.Weight.DemiBold and not is_heading:
        yield "strong"
    if form.fontStrikeOut():
        yield "s"


def _table_html(rows: list[list[Cell]]) -> str:
    lines = []
    for number, row in enumerate(rows):
        tag = "td" if number else "th"
        cells = (f"<{tag}>{_inline(list(_pieces(*cell)))}</{tag}>" for cell in row)
        lines.append(f"<tr>{''.join(cells)}</tr>\n")
    return f"<table>\n{''.join(lines)}</table>\n"

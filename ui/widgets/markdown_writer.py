"""Writes Markdown tokens into a ``QTextDocument``; notes where code, quotes and rules are to be
painted.

Main thread. List marks are text, so that a copy keeps them; line breaks stay line breaks.
"""

from dataclasses import dataclass, field

from markdown_it.token import Token
from PySide6.QtCore import Qt
from PySide6.QtGui import (
    QBrush,
    QColor,
    QFont,
    QTextBlockFormat,
    QTextCharFormat,
    QTextCursor,
    QTextFrameFormat,
    QTextLength,
    QTextOption,
    QTextTable,
    QTextTableFormat,
)

from ui.markdown import is_ragged
from ui.widgets.highlighting import Runs, highlighted_lines
from ui.widgets.inline_writer import InlineWriter
from ui.widgets.markdown_style import Decoration, MarkdownStyle

CODE_HEAD_PX = 30
CODE_FOOT_PX = 10
_CODE_PAD_PX = 14
_QUOTE_PX = 18
_ALIGNMENTS = {
    "text-align:center": Qt.AlignmentFlag.AlignHCenter,
    "text-align:right": Qt.AlignmentFlag.AlignRight,
}
_HEADING_SCALES = {"h1": 1.45, "h2": 1.25, "h3": 1.12}


@dataclass
class _Place:
    """Where the next block goes: indentation, and a list mark that waits for its text."""

    indent_px: float = 0.0
    mark: str = ""
    is_apart: bool = True
    items: list[float] = field(default_factory=list)


class MarkdownWriter:
    """Appends rendered blocks at the end of a document.

    Args:
        cursor: At the end of the document.
        style: Fonts and colours.
        is_first: Whether the document is still empty.
        has_empty_block: Whether the cursor is in an empty block that the next text may use:
            the document's first one, or the one that Qt keeps behind a table.
    """

    def __init__(
        self, cursor: QTextCursor, style: MarkdownStyle, is_first: bool, has_empty_block: bool
    ) -> None:
        self.decorations: list[Decoration] = []
        self._cursor = cursor
        self._style = style
        self._inline = InlineWriter(cursor, style)
        self._is_first = is_first
        self.has_empty_block = has_empty_block
        self._place = _Place()
        self._lines_of, self._lines = "", [""]
        self._code_formats: dict[str, QTextCharFormat] = {}
        self._quotes: list[tuple[int, float]] = []

    def write(self, tokens: list[Token], source: str) -> None:
        """Write whole top-level blocks.

        Args:
            tokens: As parsed from ``source``.
            source: The text that was parsed.
        """
        position = 0
        while position < len(tokens):
            position = self._write_block(tokens, position, source)

    # -- blocks ----------------------------------------------------------------------------

    def _write_block(self, tokens: list[Token], at: int, source: str) -> int:
        token = tokens[at]
        place = self._place
        match token.type:
            case "paragraph_open":
                self._paragraph(tokens[at + 1])
                return at + 3
            case "heading_open":
                self._heading(token, tokens[at + 1])
                return at + 3
            case "fence" | "code_block":
                self._code(token.content, token.info.strip())
            case "math_block" | "math_block_label":
                self._begin_block(top_px=12)
                self._take_mark()
                self._inline.write_formula(token, self._inline.plain(), is_display=True)
            case "hr":
                self._begin_block(top_px=12)
                here = self._cursor.position()
                self.decorations.append(Decoration("rule", here, here, place.indent_px))
            case "list_item_open":
                self._item(token, source)
            case "list_item_close":
                if place.mark:
                    self._begin_block(top_px=3)
                    self._take_mark()
                place.indent_px = place.items.pop()
            case "blockquote_open":
                place.indent_px += _QUOTE_PX
                self._quotes.append((-1, place.indent_px))
            case "blockquote_close":
                self._close_quote()
            case "table_open":
                end = next(i for i in range(at, len(tokens)) if tokens[i].type == "table_close")
                if is_ragged(token, source) and token.map is not None:
                    rows = source.split("\n")[token.map[0] : token.map[1]]
                    self._code("\n".join(rows) + "\n", "")
                else:
                    self._table(tokens[at : end + 1])
                return end + 1
            case _:
                pass
        return at + 1

    def _paragraph(self, inline: Token) -> None:
        is_close = bool(self._place.mark) and not self._place.is_apart
        self._begin_block(top_px=4 if is_close else 9)
        self._take_mark()
        self._inline.write(inline, self._inline.plain())

    def _line(self, source: str, number: int) -> str:
        if self._lines_of is not source:
            self._lines_of, self._lines = source, source.split("\n")
        return self._lines[number]

    def _heading(self, token: Token, inline: Token) -> None:
        self._begin_block(top_px=16)
        self._take_mark()
        form = self._inline.plain()
        font = QFont(self._style.font)
        font.setPointSizeF(font.pointSizeF() * _HEADING_SCALES.get(token.tag, 1.0))
        font.setWeight(QFont.Weight.DemiBold)
        form.setFont(font)
        if inline.content:
            self._inline.write(inline, form)
        else:
            self._cursor.insertText(token.markup, form)

    def _item(self, token: Token, source: str) -> None:
        place = self._place
        if place.mark:  # an item that holds nothing but another list
            self._begin_block(top_px=3)
            self._take_mark()
        # By the source alone, so that an item looks the same however the list goes on.
        first = token.map[0] if token.map is not None else 0
        place.is_apart = first == 0 or not self._line(source, first - 1).strip()
        mark = f"{token.info}{token.markup}" if token.info else "•"
        place.items.append(place.indent_px)
        font = self._style.font
        em = font.pointSizeF() * 1.33
        place.indent_px += max(em * 1.7, em * 0.62 * len(mark) + em * 0.9)
        place.mark = mark

    def _close_quote(self) -> None:
        start, left = self._quotes.pop()
        self._place.indent_px -= _QUOTE_PX
        if start < 0:  # nothing was said in it
            self._begin_block(top_px=9)
            start = self._cursor.position()
        end = self._cursor.position()
        self.decorations.append(Decoration("quote", start, end, left - _QUOTE_PX))

    def _code(self, code: str, info: str) -> None:
        body = code.removesuffix("\n")
        if self._place.mark:
            self._begin_block(top_px=3)
            self._take_mark()
        start = self.write_code_lines(self.code_lines(body, info), is_start=True)
        end, left = self._cursor.position(), self._place.indent_px
        self.decorations.append(Decoration("code", start, end, left, info, body))

    def code_lines(self, body: str, info: str) -> list[Runs]:
        """Return the lines of a code block, coloured for the language that ``info`` names."""
        language = info.split()[0] if info.strip() else ""
        return highlighted_lines(body, language, self._style.code)

    def write_code_lines(self, lines: list[Runs], is_start: bool) -> int:
        """Write lines of code; ``is_start`` leaves room for the card's head.

        Returns:
            The document position of the first line.
        """
        left, start = self._place.indent_px, -1
        for number, line in enumerate(lines):
            form = QTextBlockFormat()
            form.setLeftMargin(left + _CODE_PAD_PX)
            form.setRightMargin(_CODE_PAD_PX)
            form.setTopMargin(CODE_HEAD_PX + 8 if is_start and number == 0 else 0)
            form.setBottomMargin(CODE_FOOT_PX + 4 if number == len(lines) - 1 else 0)
            form.setLineHeight(125, QTextBlockFormat.LineHeightTypes.ProportionalHeight.value)
            self._insert_block(form)
            start = self._cursor.position() if start < 0 else start
            for text, ink in line:
                self._cursor.insertText(text, self._code_format(ink or self._style.text))
        return start

    def _code_format(self, ink: str) -> QTextCharFormat:
        form = self._code_formats.get(ink)
        if form is None:
            form = QTextCharFormat()
            form.setFont(self._style.fixed)
            form.setForeground(QBrush(QColor(ink)))
            self._code_formats[ink] = form
        return form

    def _table(self, tokens: list[Token]) -> None:
        rows = [i for i, t in enumerate(tokens) if t.type == "tr_open"]
        columns = sum(1 for t in tokens[: _index(tokens, "tr_close")] if t.type == "th_open")
        form = QTextTableFormat()
        form.setBorder(1)
        form.setBorderBrush(QBrush(QColor(self._style.line)))
        form.setBorderStyle(QTextFrameFormat.BorderStyle.BorderStyle_Solid)
        form.setBorderCollapse(True)
        form.setCellPadding(6)
        form.setCellSpacing(0)
        form.setTopMargin(10)
        form.setBottomMargin(4)
        form.setLeftMargin(self._place.indent_px)
        form.setHeaderRowCount(1)
        form.setColumnWidthConstraints([QTextLength()] * columns)
        if self._place.mark:
            self._begin_block(top_px=3)
            self._take_mark()
        if self.has_empty_block:
            self._flatten_block()
        table: QTextTable = self._cursor.insertTable(len(rows), columns, form)
        row, column = -1, 0
        for position, token in enumerate(tokens):
            if token.type == "tr_open":
                row, column = row + 1, 0
            elif token.type in ("th_open", "td_open"):
                self._cell(table, row, column, token, tokens[position + 1])
                column += 1
        self._cursor.movePosition(QTextCursor.MoveOperation.End)
        self._flatten_block()
        self.has_empty_block = True
        self._is_first = False
        self._note_quote(table.firstPosition())

    def _cell(self, table: QTextTable, row: int, column: int, cell: Token, inline: Token) -> None:
        cursor = table.cellAt(row, column).firstCursorPosition()
        alignment = _ALIGNMENTS.get(str(cell.attrGet("style")))
        if alignment is not None:
            block = QTextBlockFormat()
            block.setAlignment(alignment)
            cursor.setBlockFormat(block)
        outer, self._cursor = self._cursor, cursor
        form = self._inline.plain()
        if cell.type == "th_open":
            form.setFontWeight(QFont.Weight.DemiBold)
        self._inline.write(inline, form)
        self._cursor = outer

    def _begin_block(self, top_px: float) -> None:
        form = QTextBlockFormat()
        form.setLeftMargin(self._place.indent_px)
        form.setTopMargin(0 if self._is_first else top_px)
        form.setLineHeight(128, QTextBlockFormat.LineHeightTypes.ProportionalHeight.value)
        if self._place.mark:
            hang = self._place.indent_px - self._place.items[-1]
            form.setTextIndent(-hang)
            tab = QTextOption.Tab()
            tab.position = hang
            form.setTabPositions([tab])
        self._insert_block(form)

    def _insert_block(self, form: QTextBlockFormat) -> None:
        if self.has_empty_block:
            self._cursor.setBlockFormat(form)
            self.has_empty_block = False
        else:
            self._cursor.insertBlock(form, QTextCharFormat())
        self._cursor.setBlockCharFormat(self._inline.plain())
        self._is_first = False
        self._note_quote(self._cursor.position())

    def _note_quote(self, position: int) -> None:
        self._quotes = [(position if s < 0 else s, left) for s, left in self._quotes]

    def _flatten_block(self) -> None:
        """Make the empty block that Qt wants around a table take no room."""
        form = QTextBlockFormat()
        form.setLineHeight(1, QTextBlockFormat.LineHeightTypes.FixedHeight.value)
        self._cursor.setBlockFormat(form)
        tiny = QTextCharFormat()
        font = QFont(self._style.font)
        font.setPointSizeF(1)
        tiny.setFont(font)
        self._cursor.setBlockCharFormat(tiny)

    def _take_mark(self) -> None:
        if self._place.mark:
            form = self._inline.plain()
            form.setForeground(QBrush(QColor(self._style.muted)))
            self._cursor.insertText(f"{self._place.mark}\t", form)
            self._place.mark = ""


def _index(tokens: list[Token], kind: str) -> int:
    return next(i for i, token in enumerate(tokens) if token.type == kind)

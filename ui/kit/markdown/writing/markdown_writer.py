"""Writes Markdown tokens into a ``QTextDocument``, and collects the decorations of the text.

Main thread. List marks are text, so that a copy keeps them; line breaks stay line breaks.
"""

from collections.abc import Mapping

from markdown_it.token import Token
from PySide6.QtGui import QFont, QTextCursor

from ui.kit.markdown.parsing.parser import table_tokens
from ui.kit.markdown.writing.block_writer import Before, BlockWriter, ItemMark, OpenList
from ui.kit.markdown.writing.code_writer import CodeWriter
from ui.kit.markdown.writing.inline_writer import NOTE_PREFIX, InlineWriter
from ui.kit.markdown.writing.markdown_style import Decoration, MarkdownStyle
from ui.kit.markdown.writing.table_writer import TableWriter

_HEADING_SCALES = {"h1": 1.45, "h2": 1.25, "h3": 1.12}
_BULLETS = "•◦▪"
_ITEM_EM, _DIGIT_EM = 1.9, 0.6
_FEW_DIGITS = 2
_LETTERS = 26
_ROMAN = (
    (1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"), (50, "l"),
    (40, "xl"), (10, "x"), (9, "ix"), (5, "v"), (4, "iv"), (1, "i"),
)  # fmt: skip


class MarkdownWriter:
    """Appends rendered blocks at the end of a document."""

    def __init__(
        self,
        cursor: QTextCursor,
        style: MarkdownStyle,
        before: Before,
        notes: Mapping[str, int],
        room_px: float,
    ) -> None:
        self._style = style
        self._notes = notes
        self._inline = InlineWriter(cursor, style, notes)
        self._blocks = BlockWriter(
            cursor,
            style,
            before.is_first,
            before.is_after_code,
            self._inline,
            room_px,
            before.is_after_table,
        )
        self._before = before
        self._is_after_note = before.is_after_note
        self._code = CodeWriter(self._blocks)
        self._tables = TableWriter(self._blocks)
        self._lists: list[OpenList] = []
        self._items: list[float] = []
        self._continued = before.items
        self._lines_of, self._lines = "", [""]

    @property
    def decorations(self) -> list[Decoration]:
        """The decorations to paint beneath the written text."""
        return self._blocks.decorations

    def write(self, tokens: list[Token], source: str) -> None:
        """Write whole top-level blocks."""
        position = 0
        while position < len(tokens):
            position = self._write_block(tokens, position, source)

    def after(self, source: str, first_open_line: int) -> Before:
        """Return the state after the written text, which the next block needs."""
        blocks = self._blocks
        is_after_blank = self._before.is_after_blank
        if first_open_line:
            is_after_blank = not self._line(source, first_open_line - 1).strip("> \t")
        return Before(
            is_first=blocks.is_first,
            is_after_code=blocks.is_after_code,
            is_after_table=blocks.is_after_table,
            is_after_note=self._is_after_note,
            is_after_blank=is_after_blank,
            items=self._lists[0] if self._lists else None,
        )

    # -- blocks ----------------------------------------------------------------------------

    def _write_block(self, tokens: list[Token], at: int, source: str) -> int:
        token = tokens[at]
        blocks = self._blocks
        if token.level == 0 and token.nesting >= 0:
            self._is_after_note &= token.type == "footnote_reference_open"
        match token.type:
            case "paragraph_open":
                is_close = blocks.mark is not None and blocks.is_close
                blocks.begin(4 if is_close else 9, text=tokens[at + 1].content)
                self._inline.write(tokens[at + 1], self._inline.plain())
                return at + 3
            case "heading_open":
                self._heading(token, tokens[at + 1])
                return at + 3
            case "fence" | "code_block":
                self._code.write(token.content, token.info.strip())
            case "math_block" | "math_block_label":
                self._formula(token)
            case "hr":
                self._rule()
            case "bullet_list_open" | "ordered_list_open":
                self._open_list(token)
            case "bullet_list_close" | "ordered_list_close":
                self._lists.pop()
            case "list_item_open":
                self._open_item(token, source)
            case "list_item_close":
                blocks.begin_waiting_mark()
                blocks.indent_px = self._items.pop()
            case "blockquote_open":
                blocks.open_quote()
            case "blockquote_close":
                blocks.close_quote()
            case "footnote_reference_open":
                self._open_note(str(token.meta["label"]))
            case "footnote_reference_close":
                self._close_note(self._label_of(tokens, at))
            case "table_open":
                return self._table(tokens, at, source)
            case _:
                pass
        return at + 1

    def _line(self, source: str, number: int) -> str:
        if self._lines_of is not source:
            self._lines_of, self._lines = source, source.split("\n")
        return self._lines[number]

    def _heading(self, token: Token, inline: Token) -> None:
        self._blocks.begin(16, 118, inline.content)
        form = self._inline.plain()
        font = QFont(self._style.font)
        font.setPointSizeF(font.pointSizeF() * _HEADING_SCALES.get(token.tag, 1.0))
        font.setWeight(QFont.Weight.DemiBold)
        form.setFont(font)
        if inline.content:
            self._inline.write(inline, form)
        else:
            self._blocks.cursor.insertText(token.markup, form)

    def _formula(self, token: Token) -> None:
        self._blocks.begin(12, 100)
        here = self._blocks.cursor.position()
        width = self._inline.write_formula(token, self._inline.plain(), is_display=True)
        if width:
            form = self._blocks.cursor.blockFormat()
            form.setNonBreakableLines(True)
            form.setBottomMargin(self._style.gap_px)
            self._blocks.cursor.setBlockFormat(form)
        left = self._blocks.indent_px
        self.decorations.append(Decoration("formula", here, here, left, width_px=width))

    def _rule(self) -> None:
        self._blocks.begin(12)
        here = self._blocks.cursor.position()
        self.decorations.append(Decoration("rule", here, here, self._blocks.indent_px))

    def _table(self, tokens: list[Token], at: int, source: str) -> int:
        end = next(i for i in range(at, len(tokens)) if tokens[i].type == "table_close")
        table = table_tokens(tokens[at : end + 1], source)
        where = tokens[at].map
        if table is not None:
            self._tables.write(table)
        elif where is not None:  # shown as its source, so that no cell is lost
            self._code.write("\n".join(source.split("\n")[where[0] : where[1]]), "")
        return end + 1

    # -- lists -----------------------------------------------------------------------------

    def _open_list(self, token: Token) -> None:
        if token.level == 0 and self._continued is not None:
            self._lists.append(self._continued)
        elif token.type == "ordered_list_open":
            start = token.attrGet("start")
            self._lists.append(OpenList(1 if start is None else int(start)))
        else:
            self._lists.append(OpenList())
        if token.level == 0:
            self._continued = None

    def _open_item(self, token: Token, source: str) -> None:
        if not self._lists:  # the item belongs to a list whose first items are closed
            self._lists.append(self._continued or OpenList())
            self._continued = None
        blocks, items = self._blocks, self._lists[-1]
        blocks.begin_waiting_mark()  # an item that contains only another list
        is_apart = self._is_after_blank(token, source)
        is_loose = items.is_loose or (is_apart and items.has_items)
        # Only the text above decides: an item looks the same however its list continues.
        is_top = len(self._lists) == 1
        blocks.is_close = not (is_loose or is_apart or (is_top and not items.has_items))
        following = None if items.following is None else items.following + 1
        self._lists[-1] = OpenList(following, is_loose, has_items=True)
        is_done = token.meta.get("is_done")
        depth = len(self._lists)
        if items.following is not None:
            text = f"{_number(items.following, depth)}{token.markup}"
        else:
            text = _BULLETS[min(depth, len(_BULLETS)) - 1]
        blocks.mark = ItemMark(text, is_done)
        digits = len(str(items.following or 0))
        em = self._style.em * (_ITEM_EM + _DIGIT_EM * max(0, digits - _FEW_DIGITS))
        self._items.append(blocks.indent_px)
        blocks.indent_px += round(em)
        blocks.mark.text_px = blocks.indent_px

    def _is_after_blank(self, token: Token, source: str) -> bool:
        first = token.map[0] if token.map is not None else 0
        if first == 0:
            return self._before.is_after_blank
        return not self._line(source, first - 1).strip("> \t")

    # -- footnotes -------------------------------------------------------------------------

    def _open_note(self, label: str) -> None:
        blocks = self._blocks
        if not self._is_after_note:
            self._rule()
        number = self._notes.get(label)
        # A footnote without a reference keeps its label: no text may disappear.
        text = f"[^{label}]:" if number is None else f"{number}."
        blocks.mark = ItemMark(text, anchor=NOTE_PREFIX + label)
        blocks.is_close = True
        self._items.append(blocks.indent_px)
        wide = self._style.em * _DIGIT_EM * max(0, len(text) - _FEW_DIGITS)
        blocks.indent_px += round(self._style.em * _ITEM_EM + wide)
        blocks.mark.text_px = blocks.indent_px

    def _close_note(self, label: str) -> None:
        blocks = self._blocks
        blocks.begin_waiting_mark()
        if label in self._notes and not blocks.is_after_code and not blocks.is_after_table:
            self._inline.write_way_back(label)
        blocks.indent_px = self._items.pop()
        self._is_after_note = True

    @staticmethod
    def _label_of(tokens: list[Token], closing: int) -> str:
        level = tokens[closing].level
        opening = next(
            token
            for token in reversed(tokens[:closing])
            if token.type == "footnote_reference_open" and token.level == level
        )
        return str(opening.meta["label"])


def _number(value: int, depth: int) -> str:
    """Return a number as lists of this depth are numbered: 1, then i, then a."""
    if value < 1 or depth == 1:
        return str(value)
    if depth == 2:
        out = ""
        for size, letters in _ROMAN:
            count, value = divmod(value, size)
            out += letters * count
        return out
    out = ""
    while value:
        value, letter = divmod(value - 1, _LETTERS)
        out = chr(ord("a") + letter) + out
    return out

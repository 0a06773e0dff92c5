"""Writes blocks of Markdown into a document: paragraphs, lists, code and tables."""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import ceil

from markdown_it.token import Token
from PySide6.QtCore import Qt
from PySide6.QtGui import (
    QBrush,
    QColor,
    QFont,
    QFontMetricsF,
    QTextBlockFormat,
    QTextCharFormat,
    QTextCursor,
    QTextOption,
    QTextTable,
    QTextTableCell,
    QTextTableFormat,
)

from ui.kit.colors import Colors
from ui.kit.markdown.inline_writer import (
    DEPTH_PROPERTY,
    MARK_PROPERTY,
    MEASURE_PROPERTY,
    NOTE_PREFIX,
    QUOTE_PROPERTY,
    InlineWriter,
)
from ui.kit.markdown.parser import formula_source, table_tokens
from ui.kit.markdown.pictures import Pictures
from ui.kit.markdown.style import (
    CODE_PROPERTY,
    DIFFS,
    GROUND_PROPERTY,
    Decoration,
    MarkdownStyle,
    highlighted_lines,
)
from ui.kit.markdown.wide_parts import UNDER_PX
from ui.kit.theme import current_theme

_QUOTE_PX = 18
_FROM_THE_RIGHT = Qt.LayoutDirection.RightToLeft

TAB_CHARS = 4
_ALIGNMENTS = {
    "text-align:left": Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignAbsolute,
    "text-align:center": Qt.AlignmentFlag.AlignHCenter,
    "text-align:right": Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignAbsolute,
}
Row = list[tuple[Token, Token]]
_HEADING_SCALES = {"h1": 1.45, "h2": 1.25, "h3": 1.12}
# One for all depths, because a font seldom has several of one size.
_BULLET = "•"
_HEADING_LEVELS = {f"h{level}": level for level in range(1, 7)}
_FORMULAS = ("math_inline", "math_inline_double")
_DRAWN = ("image", *_FORMULAS)
# A table scrolls sideways where a column has less width and would have to wrap, or has less than
# its longest word up to twice this width. Its columns then have up to twice this width.
_COLUMN_EM = 8
_CELL_PX = 7
_FORMULA_PX = 18  # above and below a formula on a line of its own
TABLE_FOOT_PX = 2  # the next block has a gap above it


@dataclass(frozen=True, slots=True)
class OpenList:
    """A list whose items are being written."""

    following: int | None = None
    is_loose: bool = False
    has_items: bool = False


@dataclass(slots=True)
class WriterState:
    """The state between closed and open text: the look of the next block depends on it."""

    is_first: bool = True
    is_after_code: bool = False
    is_after_table: bool = False
    is_after_note: bool = False
    is_after_blank: bool = True
    items: OpenList | None = None
    folds: int = 0


@dataclass(slots=True)
class ItemMark:
    """The mark before an item's text."""

    text: str = ""
    is_done: bool | None = None
    anchor: str = ""
    text_px: float = 0.0
    room_px: float = 0.0


@dataclass
class BlockWriter:
    """Inserts empty blocks at the end of a document, for others to fill."""

    cursor: QTextCursor
    style: MarkdownStyle
    state: WriterState
    inline: InlineWriter
    decorations: list[Decoration] = field(default_factory=list)
    beside_px: float = 0.0
    indent_px: float = 0.0
    mark: ItemMark | None = None
    is_close: bool = False
    depth: int = 0
    _quotes: list[tuple[int, float]] = field(default_factory=list)
    _newest: int = 0

    def begin(self, top_px: float, line_percent: float = 128, text: str = "") -> None:
        """Begin a block of text, and write the mark that waits for it."""
        form = QTextBlockFormat()
        form.setProperty(MEASURE_PROPERTY, True)
        if is_right_to_left(text):
            form.setLayoutDirection(_FROM_THE_RIGHT)
            form.setRightMargin(self.indent_px)
        else:
            form.setLeftMargin(self.indent_px)
        limit_measure(form, self.beside_px)
        form.setTopMargin(self.top_margin(top_px))
        form.setLineHeight(line_percent, QTextBlockFormat.LineHeightTypes.ProportionalHeight.value)
        if self.mark is not None:
            is_box = self.mark.is_done is not None
            width = self.style.em if is_box else self.style.width(self.mark.text)
            # The mark is left of its item's text, also if that begins with a quote.
            hang = min(width + self.style.em * 0.5, self.mark.room_px)
            hang += self.indent_px - self.mark.text_px
            form.setTextIndent(-hang)
            tab = QTextOption.Tab()
            tab.position = hang
            form.setTabPositions([tab])
            done = "" if self.mark.is_done is None else "[x]" if self.mark.is_done else "[ ]"
            form.setProperty(MARK_PROPERTY, done or self.mark.text)
        self.insert(form)
        # A tab would be measured from the left.
        self._write_mark("  " if form.layoutDirection() == _FROM_THE_RIGHT else "\t")

    def top_margin(self, top_px: float) -> float:
        """Return the space above a block; below a card there is more."""
        if self.state.is_first:
            return 0
        margin = self.style.px(top_px)
        return margin + self.style.code_foot_px if self.state.is_after_code else margin

    def insert(self, form: QTextBlockFormat) -> None:
        """Begin a block of the given form."""
        if self.depth:
            form.setProperty(DEPTH_PROPERTY, self.depth)
        if self._quotes:
            form.setProperty(QUOTE_PROPERTY, len(self._quotes))
        if self.state.is_first:
            self.cursor.setBlockFormat(form)
        else:
            self.cursor.insertBlock(form, QTextCharFormat())
        self.cursor.setBlockCharFormat(self.inline.plain())
        self.state.is_first = False
        self.state.is_after_code = self.state.is_after_table = False
        self.note_position(self.cursor.position())

    def begin_waiting_mark(self) -> None:
        """Write a waiting mark on a line of its own, because the next block cannot be beside it."""
        if self.mark is not None:
            self.begin(3)

    def begin_below_the_top(self) -> None:
        """Keep the document's first block empty: Qt ignores its margin, and tables need one."""
        if self.state.is_first:
            self.flatten()
            self.state.is_first = False

    def keep_empty_block(self) -> None:
        """Keep an empty block that has a meaning: Qt hides the empty block before a table."""
        if (
            self.cursor.block().length() == 1
            and not self.state.is_after_table
            and not self.state.is_first
        ):
            self.cursor.insertBlock(QTextBlockFormat(), QTextCharFormat())
            self.flatten()

    def flatten(self) -> None:
        """Make an empty block as small as possible; Qt needs one on both sides of a table."""
        form = QTextBlockFormat()
        form.setLineHeight(1, QTextBlockFormat.LineHeightTypes.FixedHeight.value)
        self.cursor.setBlockFormat(form)
        tiny = QTextCharFormat()
        font = QFont(self.style.font)
        font.setPointSizeF(1)
        tiny.setFont(font)
        self.cursor.setBlockCharFormat(tiny)

    # -- quotes ----------------------------------------------------------------------------

    def open_quote(self) -> None:
        """Begin a quote, whose text is dimmer."""
        self.inline.color = self.style.colors.muted
        self.indent_px += self.style.px(_QUOTE_PX)
        self._quotes.append((-1, self.indent_px))

    def close_quote(self) -> None:
        """End a quote, and note where its bar is painted."""
        start, left = self._quotes.pop()
        if not self._quotes:
            self.inline.color = self.style.colors.text
        self.indent_px -= self.style.px(_QUOTE_PX)
        if start < 0:  # the quote is empty
            self.begin(9)
            start = self.cursor.position()
        bar_px = left - self.style.px(_QUOTE_PX)
        self.decorations.append(Decoration("quote", start, self._newest, bar_px))

    def note_position(self, position: int) -> None:
        """Note a written position; the bars of open quotes begin there at the latest."""
        self._newest = position
        self._quotes = [(position if s < 0 else s, left) for s, left in self._quotes]

    # -- marks -----------------------------------------------------------------------------

    def _write_mark(self, gap: str) -> None:
        mark, self.mark = self.mark, None
        if mark is None:
            return
        form = self.inline.plain()
        form.setForeground(QBrush(QColor(self.style.colors.muted)))
        if mark.anchor:
            form.setAnchor(True)
            form.setAnchorNames([mark.anchor])
        if mark.is_done is None:
            self.cursor.insertText(f"{mark.text}{gap}", form)
        else:
            self.inline.write_box(mark.is_done)
            self.cursor.insertText(gap, form)


def free_px(available_px: float) -> float:
    """Return the width beside lines of text."""
    return max(0.0, available_px - current_theme().text_px())


def fit_formula(form: QTextBlockFormat, style: MarkdownStyle, *, fits: bool) -> None:
    """Center a formula, or give it the room for its scroll bar."""
    target = Qt.AlignmentFlag.AlignHCenter if fits else Qt.AlignmentFlag.AlignLeft
    form.setAlignment(target)
    form.setBottomMargin(style.px(_FORMULA_PX) + UNDER_PX * (not fits))


def limit_measure(form: QTextBlockFormat, beside_px: float) -> None:
    """Leave the width beside lines free, at the end of their direction."""
    if form.layoutDirection() == _FROM_THE_RIGHT:
        form.setLeftMargin(beside_px)
    else:
        form.setRightMargin(beside_px)


def is_right_to_left(text: str) -> bool:
    """Return whether the first letter with a direction is written from right to left."""
    kinds = (unicodedata.bidirectional(char) for char in text)
    return next((kind in ("R", "AL") for kind in kinds if kind in ("L", "R", "AL")), False)


def write_code(blocks: BlockWriter, code: str, info: str) -> None:
    """Write a card of code, with room for the card's head."""
    style, body = blocks.style, code.removesuffix("\n")
    language = info.split()[0] if info.strip() else ""
    blocks.begin_waiting_mark()
    start, widest = -1, 0.0
    top_px = style.code_head_px + style.gap_px
    if blocks.state.is_after_code:
        top_px += style.code_foot_px
    if blocks.state.is_first:
        top_px -= style.gap_px
        blocks.begin_below_the_top()
    lines = highlighted_lines(body, language, style.colors)
    for number, line in enumerate(lines):
        form = QTextBlockFormat()
        form.setLeftMargin(blocks.indent_px + style.code_pad_px + style.code_numbers_px)
        form.setRightMargin(style.code_pad_px)
        form.setTopMargin(0 if number else top_px)
        is_last = number == len(lines) - 1
        form.setBottomMargin(style.code_foot_px + style.gap_px if is_last else 0)
        proportional = QTextBlockFormat.LineHeightTypes.ProportionalHeight
        form.setLineHeight(style.code_line_percent, proportional.value)
        form.setNonBreakableLines(not style.code_wraps)
        form.setLayoutDirection(Qt.LayoutDirection.LeftToRight)
        form.setProperty(CODE_PROPERTY, language or "text")
        sentence = "".join(text for text, _ in line)
        if ground := _ground(sentence, style.colors) if [language] in DIFFS else "":
            form.setProperty(GROUND_PROPERTY, ground)
        blocks.insert(form)
        blocks.cursor.setBlockCharFormat(_code_format(style, style.colors.text))
        start = blocks.cursor.position() if start < 0 else start
        for text, color in line:
            blocks.cursor.insertText(text, _code_format(style, color))
        if not style.code_wraps:
            widest = max(widest, style.fixed_width(sentence.expandtabs(TAB_CHARS)))
    blocks.state.is_after_code = True
    end = blocks.cursor.position()
    card = Decoration("code", start, end, blocks.indent_px, info, body, widest)
    blocks.decorations.append(card)


def _ground(line: str, colors: Colors) -> str:
    """Return the ground of a line of a change; empty for the card's own."""
    if line.startswith("+") and not line.startswith("+++ "):
        return colors.done_soft
    return colors.fault_soft if line.startswith("-") and not line.startswith("--- ") else ""


def _code_format(style: MarkdownStyle, color: str) -> QTextCharFormat:
    form = QTextCharFormat()
    form.setFont(style.fixed)
    form.setForeground(QBrush(QColor(color)))
    return form


def write_table(blocks: BlockWriter, rows: list[Row], pictures: Pictures) -> None:
    """Write a table; Qt divides the width among the columns."""
    blocks.begin_waiting_mark()
    top_px = blocks.top_margin(10)
    blocks.begin_below_the_top()
    blocks.keep_empty_block()
    form = _table_format(blocks, top_px)
    table: QTextTable = blocks.cursor.insertTable(len(rows), len(rows[0]), form)
    for number, row in enumerate(rows):
        cells, bases_px, has_formulas = [], [], False
        for column, (cell, text) in enumerate(row):
            cells.append(table.cellAt(number, column))
            inline = InlineWriter(
                cells[-1].firstCursorPosition(),
                blocks.style,
                pictures,
                color=blocks.inline.color,
                has_large_formulas=True,
            )
            bases_px.append(_write_cell(blocks.style, cells[-1], inline, cell, text))
            has_formulas |= inline.ascent_px > 0
        if has_formulas:
            _align_row(cells, bases_px)
    blocks.cursor.movePosition(blocks.cursor.MoveOperation.End)
    blocks.flatten()
    blocks.state.is_after_code, blocks.state.is_after_table = False, True
    start, end = table.firstPosition(), table.lastPosition()
    blocks.note_position(start)
    blocks.note_position(end)
    bold = QFont(blocks.style.font)
    bold.setWeight(QFont.Weight.DemiBold)
    metrics = QFontMetricsF(bold)
    sizes = [[_text_sizes(blocks.inline, metrics, text) for _, text in row] for row in rows]
    columns = list(zip(*sizes, strict=True))
    min_px = sum(_column_px(blocks.style, column, _COLUMN_EM) for column in columns)
    widths = tuple(_column_px(blocks.style, column, 2 * _COLUMN_EM) for column in columns)
    table_px, left_px = sum(widths), blocks.indent_px
    blocks.decorations.append(
        Decoration(
            "table", start, end, left_px, width_px=table_px, min_px=min_px, columns_px=widths
        )
    )


def _text_sizes(inline: InlineWriter, metrics: QFontMetricsF, text: Token) -> tuple[float, float]:
    """Return the width of a cell's text, its marks included, and of its longest word."""
    formulas, words = [], text.content
    for child in text.children or ():
        if child.type in _FORMULAS:
            words = words.replace(formula_source(child), " ", 1)
            formulas.append(inline.formula_px(child))
    longest = max(map(metrics.horizontalAdvance, words.split()), default=0.0)
    whole = metrics.horizontalAdvance(words) + sum(formulas)
    return whole, max(longest, *formulas, 0.0)


def _column_px(style: MarkdownStyle, cells: Sequence[tuple[float, float]], max_em: float) -> float:
    """Return the width of a column whose text wraps at a width; words wrap at a larger one."""
    em, whole, word = style.em, max(cell[0] for cell in cells), max(cell[1] for cell in cells)
    text_px = max(min(whole, max_em * em), min(word, 2 * _COLUMN_EM * em))
    return ceil(text_px) + 2 * style.px(_CELL_PX) + 3  # borders, and what Qt rounds off


def _table_format(blocks: BlockWriter, top_px: float) -> QTextTableFormat:
    style = blocks.style
    form = QTextTableFormat()
    form.setBorder(1)
    form.setBorderCollapse(True)
    form.setBorderStyle(QTextTableFormat.BorderStyle.BorderStyle_Solid)
    form.setBorderBrush(QBrush(QColor(style.colors.line)))
    form.setCellPadding(style.px(_CELL_PX))
    form.setCellSpacing(0)
    form.setTopMargin(top_px)
    form.setBottomMargin(style.px(TABLE_FOOT_PX))
    form.setLeftMargin(blocks.indent_px)
    form.setHeaderRowCount(1)
    return form


def _align_row(cells: Sequence[QTextTableCell], bases_px: Sequence[float]) -> None:
    """Give the first lines of a row's cells one base line."""
    for cell, base_px in zip(cells, bases_px, strict=True):
        look = cell.format().toTableCellFormat()
        look.setVerticalAlignment(QTextCharFormat.VerticalAlignment.AlignTop)
        look.setTopPadding(look.topPadding() + max(bases_px) - base_px)
        cell.setFormat(look)


def _write_cell(
    style: MarkdownStyle,
    table_cell: QTextTableCell,
    inline: InlineWriter,
    cell: Token,
    text: Token,
) -> float:
    """Write a cell; return how far below its top the base line of its first line is."""
    cursor, metrics = table_cell.firstCursorPosition(), QFontMetricsF(style.font)
    block = QTextBlockFormat()
    alignment = _ALIGNMENTS.get(str(cell.attrGet("style")))
    if alignment is not None:
        block.setAlignment(alignment)
    above_px = 0.0
    if not any(child.type in _DRAWN for child in text.children or ()):
        # The letters of another font, as of emoji, do not move the base line.
        line_px = 1.2 * metrics.lineSpacing()
        block.setLineHeight(line_px, QTextBlockFormat.LineHeightTypes.FixedHeight.value)
        above_px = line_px - ceil(metrics.height())
    form = inline.plain()
    if cell.type == "th_open":
        form.setFontWeight(QFont.Weight.DemiBold)
    cursor.setBlockFormat(block)
    cursor.setBlockCharFormat(form)
    look = table_cell.format().toTableCellFormat()  # Qt keeps it in the block's format
    if cell.type == "th_open":
        look.setBackground(QBrush(QColor(style.colors.code)))
    else:
        look.setVerticalAlignment(QTextCharFormat.VerticalAlignment.AlignMiddle)
    # Qt puts all that a fixed height has more than the letters above them.
    look.setTopPadding(style.px(_CELL_PX) - above_px / 2)
    look.setBottomPadding(style.px(_CELL_PX) + above_px / 2)
    table_cell.setFormat(look)
    inline.write(text, form)
    has_text = bool(cursor.block().text().strip("\ufffc ")) or not inline.ascent_px
    line_ascent_px = max(inline.ascent_px, metrics.ascent() if has_text else 0.0)
    return look.topPadding() + above_px + line_ascent_px


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


# List marks are text, so that a copy keeps them; line breaks stay line breaks.


class MarkdownWriter:
    """Appends rendered blocks at the end of a document.

    ``folds`` tells which parts are open, by their numbers in the text; new ones are added.
    """

    def __init__(
        self,
        cursor: QTextCursor,
        style: MarkdownStyle,
        before: WriterState,
        available_px: float,
        pictures: Pictures,
        folds: dict[int, bool],
    ) -> None:
        self._style = style
        self._available_px = available_px
        self._pictures = pictures
        self._folds = folds
        self._inline = InlineWriter(cursor, style, pictures, available_px)
        self._state = replace(before)
        self._blocks = BlockWriter(cursor, style, self._state, self._inline)
        self._blocks.beside_px = free_px(available_px)
        self._continued = before.items
        self._lists: list[OpenList] = []
        self._items: list[float] = []
        self._notes: list[str] = []
        self._lines_of, self._lines = "", [""]

    @property
    def decorations(self) -> list[Decoration]:
        """The decorations in the order in which they begin; a quote is noted at its end."""
        return sorted(self._blocks.decorations, key=lambda part: (part.start, -part.end))

    def write(self, tokens: list[Token], source: str) -> None:
        """Write whole top-level blocks."""
        position = 0
        while position < len(tokens):
            position = self._write_block(tokens, position, source)

    def after(self, source: str, first_open_line: int) -> WriterState:
        """Return the state after the written text, which the next block needs."""
        is_after_blank = self._state.is_after_blank
        if first_open_line:
            is_after_blank = not self._line(source, first_open_line - 1).strip("> \t")
        items = self._lists[0] if self._lists else None
        return replace(self._state, is_after_blank=is_after_blank, items=items)

    # -- blocks ----------------------------------------------------------------------------

    def _write_block(self, tokens: list[Token], at: int, source: str) -> int:
        token = tokens[at]
        blocks = self._blocks
        if token.level == 0 and token.nesting >= 0:
            self._state.is_after_note &= token.type == "footnote_reference_open"
        match token.type:
            case "paragraph_open":
                image = self._inline.remote_picture(tokens[at + 1])
                if image is not None:
                    self._picture(image)
                    return at + 3
                is_close = blocks.mark is not None and blocks.is_close
                blocks.begin(4 if is_close else 9, text=tokens[at + 1].content)
                self._inline.write(tokens[at + 1], self._inline.plain())
                return at + 3
            case "heading_open":
                self._heading(token, tokens[at + 1])
                return at + 3
            case "fence" | "code_block":
                write_code(blocks, token.content, token.info.strip())
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
                blocks.depth -= 1
            case "blockquote_open":
                blocks.open_quote()
            case "blockquote_close":
                blocks.close_quote()
            case "footnote_reference_open":
                self._open_note(str(token.meta["label"]))
            case "footnote_reference_close":
                self._close_note()
            case "table_open":
                return self._table(tokens, at, source)
            case "details_open":
                return self._open_fold(tokens, at)
            case "details_close":
                blocks.begin_waiting_mark()
                blocks.indent_px -= self._style.px(_QUOTE_PX)
            case _:
                pass
        return at + 1

    def _line(self, source: str, number: int) -> str:
        if self._lines_of is not source:
            self._lines_of, self._lines = source, source.split("\n")
        return self._lines[number]

    def _heading(self, token: Token, inline: Token) -> None:
        self._blocks.begin(16, 118, inline.content)
        block = self._blocks.cursor.blockFormat()
        block.setHeadingLevel(_HEADING_LEVELS.get(token.tag, 0))
        self._blocks.cursor.setBlockFormat(block)
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
        self._blocks.begin(_FORMULA_PX, 100)
        here = self._blocks.cursor.position()
        width = self._inline.write_formula(token, self._inline.plain(), is_display=True)
        if width:
            form = self._blocks.cursor.blockFormat()
            form.setNonBreakableLines(True)
            # The axis of tables and code, not of the shorter lines of text.
            form.setRightMargin(0)
            form.clearProperty(MEASURE_PROPERTY)
            fits = width <= self._available_px - self._blocks.indent_px
            fit_formula(form, self._style, fits=fits)
            self._blocks.cursor.setBlockFormat(form)
        left = self._blocks.indent_px
        self._blocks.decorations.append(Decoration("formula", here, here, left, width_px=width))

    def _picture(self, image: Token) -> None:
        """Write the card of a picture that is not loaded."""
        blocks, style = self._blocks, self._style
        blocks.begin_waiting_mark()
        if self._state.is_first:
            blocks.begin_below_the_top()
        blocks.begin(10)
        form = blocks.cursor.blockFormat()
        form.setTopMargin(form.topMargin() + style.code_foot_px)
        form.setBottomMargin(style.code_foot_px + style.gap_px)
        form.setLeftMargin(blocks.indent_px + style.code_pad_px)
        form.setRightMargin(style.code_pad_px)
        form.clearProperty(MEASURE_PROPERTY)
        blocks.cursor.setBlockFormat(form)
        here = blocks.cursor.position()
        self._inline.write_picture_card(image)
        blocks.decorations.append(Decoration("picture", here, here, blocks.indent_px))

    def _rule(self) -> None:
        self._blocks.begin(12)
        here = self._blocks.cursor.position()
        self._blocks.decorations.append(Decoration("rule", here, here, self._blocks.indent_px))

    def _table(self, tokens: list[Token], at: int, source: str) -> int:
        end = next(i for i in range(at, len(tokens)) if tokens[i].type == "table_close")
        table = table_tokens(tokens[at : end + 1], source)
        where = tokens[at].map
        if table is not None:
            write_table(self._blocks, table_rows(table), self._pictures)
        elif where is not None:  # shown as its source, so that no cell is lost
            write_code(self._blocks, "\n".join(source.split("\n")[where[0] : where[1]]), "")
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
        number = items.following
        text = _BULLET if number is None else f"{number}{token.markup}"
        self._indent_item(ItemMark(text, is_done))
        blocks.depth += 1

    def _indent_item(self, mark: ItemMark) -> None:
        """Begin an item: its text is indented by the room for its mark."""
        blocks = self._blocks
        self._items.append(blocks.indent_px)
        em, width = self._style.em, self._style.width(mark.text)
        usual_px = round(em * (1.9 + 0.6 * max(0, len(mark.text) - 3)))
        mark.room_px = max(usual_px, ceil(width + em * 0.25))
        blocks.indent_px += mark.room_px
        mark.text_px = blocks.indent_px
        blocks.mark = mark

    # -- parts that can be folded ------------------------------------------------------------

    def _open_fold(self, tokens: list[Token], at: int) -> int:
        """Write the line that shows and hides the part; skip a part that is folded."""
        number, self._state.folds = self._state.folds, self._state.folds + 1
        is_open = self._folds.setdefault(number, bool(tokens[at].meta["is_open"]))
        self._blocks.begin(9, text=tokens[at + 1].content)
        self._inline.write_summary(tokens[at + 1], number, is_open=is_open)
        if is_open:
            self._blocks.indent_px += self._style.px(_QUOTE_PX)
            return at + 2
        end, depth = at + 1, 1
        while depth:
            kind = tokens[end].type
            depth += (kind == "details_open") - (kind == "details_close")
            self._state.folds += kind == "details_open"
            end += 1
        return end

    def _is_after_blank(self, token: Token, source: str) -> bool:
        first = token.map[0] if token.map is not None else 0
        if first == 0:
            return self._state.is_after_blank
        return not self._line(source, first - 1).strip("> \t")

    # -- footnotes -------------------------------------------------------------------------

    def _open_note(self, label: str) -> None:
        blocks = self._blocks
        if not self._state.is_after_note:
            self._rule()
        # Only numbers are references: another label stays as it is written.
        text = f"{label}." if label.isdigit() else f"[^{label}]:"
        self._notes.append(label)
        blocks.is_close = True
        self._indent_item(ItemMark(text, anchor=NOTE_PREFIX + label))

    def _close_note(self) -> None:
        blocks, label = self._blocks, self._notes.pop()
        blocks.begin_waiting_mark()
        state = self._state
        if label.isdigit() and not state.is_after_code and not state.is_after_table:
            self._inline.write_way_back(label)
        blocks.indent_px = self._items.pop()
        state.is_after_note = True

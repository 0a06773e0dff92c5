"""The look of Markdown: fonts, colors, code highlighting, formulas and decorations."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import (
    QBrush,
    QColor,
    QFont,
    QFontInfo,
    QFontMetricsF,
    QPainter,
    QPen,
    QTextBlock,
    QTextCharFormat,
    QTextCursor,
    QTextDocument,
    QTextFormat,
    QTextTable,
)

from ui.kit.colors import Colors
from ui.kit.flow_text import line_parts
from ui.kit.theme import current_theme

if TYPE_CHECKING:
    from pygments.lexer import Lexer

Runs = tuple[tuple[str, str], ...]

_NUMBER = "999"
# The languages of changes.
DIFFS = (["diff"], ["patch"], ["udiff"])
# Of a block of code: its language; the color of its ground.
CODE_PROPERTY = QTextFormat.Property.UserProperty.value + 5
GROUND_PROPERTY = QTextFormat.Property.UserProperty.value + 8
# Of code within a line: it has a rounded ground.
CHIP_PROPERTY = QTextFormat.Property.UserProperty.value + 9
_CHIP_PX, _CHIP_RADIUS_PX = 4, 4  # the first is beside the letters
_DIGITS = re.compile(r"_[0-9a-fA-F_]*[0-9a-fA-Fn]?")


def highlighted_lines(code: str, language: str, colors: Colors) -> list[Runs]:
    """Return the lines of the code, each as runs of text with a color.

    The runs of a line always join to exactly the line.
    """
    lexer = _lexer(language) if language else None
    code += "\n"  # some lexers color a comment only up to a newline
    runs: list[tuple[str, str]] = [(code, colors.text)]
    if lexer is not None:
        lexed = [(text, getattr(colors, role)) for text, role in _roles(lexer, code)]
        # Some lexers change the text that they read.
        runs = lexed if "".join(text for text, _ in lexed) == code else runs
    lines: list[list[tuple[str, str]]] = [[]]
    for text, color in runs:
        for number, line in enumerate(text.split("\n")):
            if number:
                lines.append([])
            if line:
                lines[-1].append((line, color))
    return [tuple(line) for line in lines[:-1]]


def _roles(lexer: "Lexer", code: str) -> Iterator[tuple[str, str]]:
    """Yield the tokens of code with the names of their colors."""
    from pygments.token import Generic

    before, is_comment = "", False
    for kind, text in lexer.get_tokens(code):
        # A shell session takes the sign of a comment for root's prompt.
        is_comment |= kind is Generic.Prompt and text.startswith("#")
        role = "faint" if is_comment else _role_of(kind)
        is_comment &= "\n" not in text
        # Some lexers, as of JavaScript, end a number at its separator.
        if before == "limit" and _DIGITS.fullmatch(text):
            role = before
        before = role
        yield text, role


@lru_cache(maxsize=64)
def _lexer(language: str) -> "Lexer | None":
    # Imported late, because a window without code does not need the lexers.
    from pygments.lexers import get_lexer_by_name
    from pygments.util import ClassNotFound

    try:
        lexer: Lexer = get_lexer_by_name(language, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return None
    return lexer


@lru_cache(maxsize=512)
def _role_of(kind: Any) -> str:
    """Return the name of the color of a kind of token in ``Colors``."""
    from pygments.token import Comment, Generic, Keyword, Name, Number, Operator, String

    roles = {
        "faint": (Comment, Generic.Heading),
        "match": (Keyword, Operator.Word),
        "done": (String, Generic.Inserted),
        "limit": (Number,),
        "tool": (
            Name.Function, Name.Class, Name.Tag, Name.Builtin, Name.Decorator, Generic.Subheading,
        ),
        "fault": (Generic.Deleted,),
    }  # fmt: skip
    family = kind.split()
    return next((role for role, kinds in roles.items() if set(kinds) & set(family)), "text")


@dataclass(frozen=True, slots=True)
class MarkdownStyle:
    """Fonts and colors of rendered Markdown; all lengths follow the size of the font."""

    font: QFont
    fixed: QFont
    colors: Colors
    code_wraps: bool
    code_has_numbers: bool
    em: float = field(init=False, compare=False)
    code_head_px: float = field(init=False, compare=False)
    code_foot_px: float = field(init=False, compare=False)  # below the last line
    code_pad_px: float = field(init=False, compare=False)  # at both sides
    gap_px: float = field(init=False, compare=False)  # around cards and tables
    plain: QTextCharFormat = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        plain = QTextCharFormat()
        plain.setFont(self.font)
        plain.setForeground(QBrush(QColor(self.colors.text)))
        object.__setattr__(self, "em", float(QFontInfo(self.font).pixelSize()))
        object.__setattr__(self, "plain", plain)
        lengths = {"code_head_px": 30, "code_foot_px": 12, "code_pad_px": 14, "gap_px": 10}
        for name, usual in lengths.items():
            object.__setattr__(self, name, self.px(usual))

    def width(self, text: str) -> float:
        return QFontMetricsF(self.font).horizontalAdvance(text)

    def fixed_width(self, code: str) -> float:
        return QFontMetricsF(self.fixed).horizontalAdvance(code)

    def px(self, usual: float) -> float:
        """Return a length in proportion to the text; ``usual`` is the length at the usual size."""
        return round(usual * self.em / 14)

    @property
    def code_line_percent(self) -> float:
        """The height of a line of code: fonts differ in the space above their letters."""
        return 145 * QFontInfo(self.fixed).pixelSize() / QFontMetricsF(self.fixed).lineSpacing()

    @property
    def code_numbers_px(self) -> float:
        """The room for the numbers of lines of code."""
        return self.fixed_width(_NUMBER) + self.px(10) if self.code_has_numbers else 0.0


@dataclass(frozen=True, slots=True)
class Decoration:
    """Something painted beneath the text from one document position to another."""

    kind: Literal["code", "quote", "rule", "table", "formula", "picture"]
    start: int
    end: int
    left_px: float = 0.0
    label: str = ""
    text: str = ""
    width_px: float = 0.0
    min_px: float = 0.0  # of a table: with less, it scrolls at its whole width
    columns_px: tuple[float, ...] = ()


def markdown_style() -> MarkdownStyle:
    """Return fonts and colors for rendered Markdown in the present theme."""
    theme = current_theme()
    font, fixed = theme.message_font(), theme.code_font()
    return MarkdownStyle(font, fixed, theme.colors, theme.code_wraps, theme.code_has_numbers)


def code_head_font(font: QFont) -> QFont:
    """Return the font of the language and the buttons above code."""
    small = QFont(font)
    small.setPointSizeF(font.pointSizeF() * 0.8)
    return small


def paint_code_label(
    painter: QPainter, style: MarkdownStyle, card: Decoration, area: QRectF
) -> None:
    """Paint the language at the top of an area."""
    painter.setFont(code_head_font(style.font))
    painter.setPen(QColor(style.colors.muted))
    left, width = area.left() + style.code_pad_px, area.width() - style.px(120)
    head = QRectF(left, round(area.top()), width, round(style.code_head_px))  # as its buttons
    right = Qt.TextElideMode.ElideRight
    label = painter.fontMetrics().elidedText(card.label or "code", right, int(head.width()))
    painter.drawText(head, Qt.AlignmentFlag.AlignVCenter, label)


def table_at(block: QTextBlock) -> QTextTable | None:
    """Return the table that a block is in; None if it is in none."""
    # Qt's type stubs lack that the result may be None.
    table: QTextTable | None = QTextCursor(block).currentTable()
    return table


class Decorations:
    """Computes the geometry of the decorations beneath a document's text, and paints them."""

    def __init__(self, document: QTextDocument, style: MarkdownStyle) -> None:
        self._document = document
        self._style = style
        metrics = QFontMetricsF(style.font)
        self._ascent_px, self._letters_px = metrics.ascent(), metrics.height()

    def area(
        self, decoration: Decoration, width: float, all_of_them: Sequence[Decoration]
    ) -> QRectF:
        if decoration.kind == "table":
            return self._table_area(decoration, width)
        if decoration.kind == "quote":
            inner = [d for d in all_of_them if d.kind in ("code", "table")]
            top = self._end_of(decoration.start, width, inner).top()
            bottom = self._end_of(decoration.end, width, inner).bottom()
        else:
            top = self._block_area(decoration.start).top()
            bottom = self._block_area(decoration.end).bottom()
        if decoration.kind == "rule":
            width = min(width, current_theme().text_px())
        if decoration.kind in ("code", "picture"):
            is_code = decoration.kind == "code"
            top -= self._style.code_head_px if is_code else self._style.code_foot_px
            bottom += self._style.code_foot_px
        return QRectF(decoration.left_px, top, width - decoration.left_px, bottom - top)

    def _table_area(self, decoration: Decoration, width: float) -> QRectF:
        """Return the area of a table without its margins; frame positions include them."""
        table = self.table(decoration)
        form, layout = table.format(), self._document.documentLayout()
        height = layout.frameBoundingRect(table).height() - form.topMargin() - form.bottomMargin()
        first = layout.blockBoundingRect(table.cellAt(0, 0).firstCursorPosition().block())
        top = first.top() - form.cellPadding() - form.border()
        return QRectF(decoration.left_px, top, width - decoration.left_px, height)

    def table(self, decoration: Decoration) -> QTextTable:
        """Return the table that is decorated."""
        table = table_at(self._document.findBlock(decoration.start))
        if table is None:
            raise LookupError(f"there is no table at {decoration.start}")
        return table

    def paint(self, painter: QPainter, decoration: Decoration, area: QRectF) -> None:
        style = self._style
        match decoration.kind:
            case "quote":
                painter.setPen(Qt.PenStyle.NoPen)
                painter.setBrush(QColor(style.colors.line))
                bar = QRectF(area.left() + 1, area.top(), style.px(3), area.height())
                painter.drawRoundedRect(bar, 1.5, 1.5)
            case "rule":
                painter.setPen(QPen(QColor(style.colors.line), 1))
                middle = round(area.center().y()) + 0.5
                painter.drawLine(QPointF(area.left(), middle), QPointF(area.right(), middle))
            case "picture":
                self._paint_ground(painter, area)
            case "code":
                self._paint_card(painter, decoration, area)
            case _:
                pass

    def paint_chips(self, painter: QPainter, seen: QRectF) -> None:
        """Paint the grounds of code within the lines that are seen."""
        layout = self._document.documentLayout()
        position = layout.hitTest(seen.topLeft(), Qt.HitTestAccuracy.FuzzyHit)
        block = self._document.findBlock(max(position, 0))
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(self._style.colors.code))
        while block.isValid():
            area = layout.blockBoundingRect(block)
            if area.top() > seen.bottom():
                break
            is_code = block.blockFormat().hasProperty(CODE_PROPERTY)
            fragments = block.end() if is_code else block.begin()
            while not fragments.atEnd():
                piece = fragments.fragment()
                form = piece.charFormat()
                if form.boolProperty(CHIP_PROPERTY):
                    begin = piece.position() - block.position()
                    after_px = _CHIP_PX - form.fontLetterSpacing()
                    for line, left, right in line_parts(block, begin, begin + piece.length()):
                        left = max(0.0, area.left() + left - _CHIP_PX)
                        width = area.left() + right + after_px - left
                        top = area.top() + line.y() + line.ascent() - self._ascent_px
                        chip = QRectF(left, top - 1, width, self._letters_px + 2)
                        painter.drawRoundedRect(chip, _CHIP_RADIUS_PX, _CHIP_RADIUS_PX)
                fragments += 1
            block = block.next()

    def _paint_ground(self, painter: QPainter, area: QRectF) -> None:
        painter.setPen(QPen(QColor(self._style.colors.line), 1))
        painter.setBrush(QColor(self._style.colors.code))
        outline = QRectF(area.toAlignedRect()).adjusted(0.5, 0.5, -0.5, -0.5)
        painter.drawRoundedRect(outline, 9, 9)

    def _paint_card(self, painter: QPainter, decoration: Decoration, area: QRectF) -> None:
        style = self._style
        self._paint_ground(painter, area)
        if decoration.label.split()[:1] in DIFFS:
            self._paint_changes(painter, decoration, area)
        paint_code_label(painter, style, decoration, area)
        if style.code_has_numbers:
            self._paint_numbers(painter, decoration, area)

    def _paint_changes(self, painter: QPainter, decoration: Decoration, area: QRectF) -> None:
        """Paint the grounds of added and removed lines from edge to edge."""
        block = self._document.findBlock(decoration.start)
        # Qt leaves the surplus of a line's height out of its area.
        second = block.next()
        gap_px = 0.0
        if second.isValid() and second.position() <= decoration.end:
            first_bottom = self._block_area(block.position()).bottom()
            gap_px = self._block_area(second.position()).top() - first_bottom
        while block.isValid() and block.position() <= decoration.end:
            ground = block.blockFormat().stringProperty(GROUND_PROPERTY)
            if ground:
                line = self._block_area(block.position())
                top, bottom = round(line.top() - gap_px / 2), round(line.bottom() + gap_px / 2)
                painter.fillRect(
                    QRectF(area.left() + 1, top, area.width() - 2, bottom - top), QColor(ground)
                )
            block = block.next()

    def _paint_numbers(self, painter: QPainter, decoration: Decoration, area: QRectF) -> None:
        """Paint the numbers of a card's lines that may be seen."""
        style = self._style
        painter.setFont(style.fixed)
        painter.setPen(QColor(style.colors.muted))
        seen = painter.clipBoundingRect()
        right = area.left() + style.code_pad_px + style.fixed_width(_NUMBER)
        first, last = (
            self._document.findBlock(decoration.start),
            self._document.findBlock(decoration.end),
        )
        block = first
        while block.isValid() and block.blockNumber() <= last.blockNumber():
            lines = block.layout()
            if lines.lineCount():
                line = lines.lineAt(0)
                base = lines.position().y() + line.y() + line.ascent()
                if seen.isValid() and base - line.ascent() > seen.bottom():
                    break
                number = str(block.blockNumber() - first.blockNumber() + 1)
                left = right - style.fixed_width(number)
                painter.drawText(QPointF(max(left, area.left() + 2), base), number)
            block = block.next()

    def _block_area(self, position: int) -> QRectF:
        block = self._document.findBlock(position)
        return self._document.documentLayout().blockBoundingRect(block)

    def _end_of(self, position: int, width: float, inner: Sequence[Decoration]) -> QRectF:
        block = self._document.findBlock(position)
        begin, end = block.position(), block.position() + block.length()
        for decoration in inner:
            if decoration.start <= position <= decoration.end or begin <= decoration.end < end:
                return self.area(decoration, width, ())
        return self._block_area(position)

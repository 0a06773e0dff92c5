"""Begins blocks in a ``QTextDocument``: margins, indentation, list marks, quotes. Main thread."""

import unicodedata
from dataclasses import dataclass, field

from PySide6.QtCore import Qt
from PySide6.QtGui import (
    QBrush,
    QColor,
    QFont,
    QTextBlockFormat,
    QTextCharFormat,
    QTextCursor,
    QTextOption,
)

from ui.kit.markdown.writing.inline_writer import InlineWriter
from ui.kit.markdown.writing.markdown_style import Decoration, MarkdownStyle

_QUOTE_PX = 18
_MARK_GAP_EM = 0.5
_FROM_THE_RIGHT = Qt.LayoutDirection.RightToLeft


@dataclass(frozen=True, slots=True)
class OpenList:
    """A list whose items are being written."""

    following: int | None = None
    is_loose: bool = False
    has_items: bool = False


@dataclass(frozen=True, slots=True)
class Before:
    """The state between closed and open text: the look of the next block depends on it."""

    is_first: bool = True
    is_after_code: bool = False
    is_after_table: bool = False
    is_after_note: bool = False
    is_after_blank: bool = True
    items: OpenList | None = None


@dataclass(slots=True)
class ItemMark:
    """The mark before an item's text."""

    text: str = ""
    is_done: bool | None = None
    anchor: str = ""
    text_px: float = 0.0


@dataclass
class BlockWriter:
    """Inserts empty blocks at the end of a document, for others to fill."""

    cursor: QTextCursor
    style: MarkdownStyle
    is_first: bool
    is_after_code: bool
    inline: InlineWriter
    room_px: float = 0.0
    is_after_table: bool = False
    decorations: list[Decoration] = field(default_factory=list)
    indent_px: float = 0.0
    mark: ItemMark | None = None
    is_close: bool = False
    _quotes: list[tuple[int, float]] = field(default_factory=list)
    _newest: int = 0

    def begin(self, top_px: float, line_percent: float = 128, text: str = "") -> None:
        """Begin a block of text, and write the mark that waits for it."""
        form = QTextBlockFormat()
        if is_right_to_left(text):
            form.setLayoutDirection(_FROM_THE_RIGHT)
            form.setRightMargin(self.indent_px)
        else:
            form.setLeftMargin(self.indent_px)
        form.setTopMargin(self.top_margin(top_px))
        form.setLineHeight(line_percent, QTextBlockFormat.LineHeightTypes.ProportionalHeight.value)
        if self.mark is not None:
            width = self.style.em if self.mark.is_done is not None else self._width(self.mark.text)
            # The mark is left of its item's text, also if that begins with a quote.
            hang = width + self.style.em * _MARK_GAP_EM + self.indent_px - self.mark.text_px
            form.setTextIndent(-hang)
            tab = QTextOption.Tab()
            tab.position = hang
            form.setTabPositions([tab])
        self.insert(form)
        # A tab would be measured from the left.
        self._write_mark("  " if form.layoutDirection() == _FROM_THE_RIGHT else "\t")

    def top_margin(self, top_px: float) -> float:
        """Return the space above a block; below a card there is more."""
        if self.is_first:
            return 0
        margin = self.style.px(top_px)
        return margin + self.style.code_foot_px if self.is_after_code else margin

    def insert(self, form: QTextBlockFormat) -> None:
        """Begin a block of the given form."""
        if self.is_first:
            self.cursor.setBlockFormat(form)
        else:
            self.cursor.insertBlock(form, QTextCharFormat())
        self.cursor.setBlockCharFormat(self.inline.plain())
        self.is_first = False
        self.is_after_code = self.is_after_table = False
        self.note_position(self.cursor.position())

    def begin_waiting_mark(self) -> None:
        """Write a waiting mark on a line of its own, because the next block cannot be beside it."""
        if self.mark is not None:
            self.begin(3)

    def begin_below_the_top(self) -> None:
        """Keep the document's first block empty: Qt ignores its margin, and tables need one."""
        if self.is_first:
            self.flatten()
            self.is_first = False

    def keep_empty_block(self) -> None:
        """Keep an empty block that has a meaning: Qt hides the empty block before a table."""
        if self.cursor.block().length() == 1 and not self.is_after_table and not self.is_first:
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
        """Begin a quote."""
        self.indent_px += self.style.px(_QUOTE_PX)
        self._quotes.append((-1, self.indent_px))

    def close_quote(self) -> None:
        """End a quote, and note where its bar is painted."""
        start, left = self._quotes.pop()
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
        form.setForeground(QBrush(QColor(self.style.muted)))
        if mark.anchor:
            form.setAnchor(True)
            form.setAnchorNames([mark.anchor])
        if mark.is_done is None:
            self.cursor.insertText(f"{mark.text}{gap}", form)
        else:
            self.inline.write_box(mark.is_done)
            self.cursor.insertText(gap, form)

    def _width(self, text: str) -> float:
        return self.style.width(text)


def is_right_to_left(text: str) -> bool:
    """Return whether the first letter with a direction is written from right to left."""
    kinds = (unicodedata.bidirectional(char) for char in text)
    return next((kind in ("R", "AL") for kind in kinds if kind in ("L", "R", "AL")), False)

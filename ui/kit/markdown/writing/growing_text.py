"""A Markdown text in a ``QTextDocument`` that grows: closed blocks are written once.

Main thread; knows the document and no widget.
"""

from collections.abc import Callable

from markdown_it.token import Token
from PySide6.QtGui import QTextBlockFormat, QTextCharFormat, QTextCursor, QTextDocument

from ui.kit.markdown.parsing.open_block import OpenBlock
from ui.kit.markdown.parsing.parser import (
    closed_tokens,
    note_labels,
    note_mentions,
    note_numbers,
    prepared,
)
from ui.kit.markdown.writing.block_writer import Before, BlockWriter
from ui.kit.markdown.writing.growing_block import GrowingCode, GrowingTable
from ui.kit.markdown.writing.inline_writer import InlineWriter
from ui.kit.markdown.writing.markdown_style import Decoration, MarkdownStyle
from ui.kit.markdown.writing.markdown_writer import MarkdownWriter


class GrowingText:
    """Writes a text into a document, and appends more of it as it arrives.

    Args:
        document: The document; nobody else may change it.
        style: Fonts and colors; a change takes effect with the next ``show``.
        room_px: Returns the width of the view.

    Attributes:
        source: The text exactly as it was given.
        decorations: The decorations to paint beneath the text.
        is_writing: Whether the document is being changed; the decorations do not fit it then.
        changed_from: The document position from which the last ``write`` changed it.
    """

    def __init__(
        self, document: QTextDocument, style: MarkdownStyle, room_px: Callable[[], float]
    ) -> None:
        self.style = style
        self.source = ""
        self.decorations: list[Decoration] = []
        self.is_writing = False
        self.changed_from = 0
        self._document = document
        self._room_px = room_px
        self._code, self._table = GrowingCode(), GrowingTable()
        self._open_block = OpenBlock()
        self._tail = ""
        self._frozen_end = 0
        self._frozen_format, self._frozen_char_format = QTextBlockFormat(), QTextCharFormat()
        self._before = Before()
        self._notes: set[str] = set()
        self._numbers: dict[str, int] = {}
        self._mentioned: set[str] = set()

    def show(self, text: str) -> None:
        """Replace the present text by another one."""
        self.source = text
        self._restart()
        self.write()

    def append(self, text: str) -> None:
        """Add more text; ``write`` writes it."""
        self.source += text
        self._tail += text

    def finish(self) -> None:
        """Write the rest of the text, which is complete now."""
        self._code.is_exact = True
        self.write()
        self._code.is_exact = False
        if self._notes and self._frozen_end:
            # A footnote may be defined far away: only writing everything again numbers it right.
            self.show(self.source)

    def write(self) -> None:
        """Write the text that arrived since the last call."""
        text = prepared(self._tail)
        tokens = self._open_block.parse(text, self._notes)
        labels = note_labels(tokens)
        if labels & self._mentioned - self._notes:  # closed text names a note that is new
            self._restart()
            text = prepared(self._tail)
            tokens = self._open_block.parse(text, ())
            labels = note_labels(tokens)
        self._notes |= labels
        self.is_writing = True
        cursor = QTextCursor(self._document)
        cursor.beginEditBlock()
        first_open_line = self._write_tokens(cursor, tokens, text)
        cursor.endEditBlock()
        self.is_writing = False
        if first_open_line:
            self._shorten_tail(first_open_line)

    # -- closed and open text --------------------------------------------------------------

    def _write_tokens(self, cursor: QTextCursor, tokens: list[Token], text: str) -> int:
        """Write tokens, and return the number of the first line that is open."""
        closed, first_open_line = closed_tokens(text, tokens)
        numbers = note_numbers(tokens[closed:], self._numbers)
        if not closed and self._grow(cursor, tokens, text, numbers):
            return 0
        self.changed_from = self._frozen_end
        self._remove_tail(cursor)
        if closed:
            closed_numbers = note_numbers(tokens[:closed], self._numbers)
            numbers = note_numbers(tokens[closed:], closed_numbers)
            writer = self._writer(cursor, numbers)
            writer.write(tokens[:closed], text)
            self.decorations += writer.decorations
            self._freeze(cursor, writer.after(text, first_open_line), closed_numbers)
        writer = self._writer(cursor, numbers)
        writer.write(tokens[closed:], text)
        self.decorations += writer.decorations
        newest = self.decorations[-1] if self.decorations else None
        self._code.note(tokens[closed:], newest, self.style)
        self._table.note(tokens[closed:], text)
        return first_open_line

    def _grow(
        self, cursor: QTextCursor, tokens: list[Token], text: str, numbers: dict[str, int]
    ) -> bool:
        """Write only the changes, if the open text is one block that has grown."""
        if not self.decorations:
            return False
        newest = self.decorations[-1]
        grown = self._code.grow(cursor, tokens, newest, self.style)
        self.changed_from = self._code.changed_from
        if grown is None:
            inline = InlineWriter(cursor, self.style, numbers)
            blocks = BlockWriter(cursor, self.style, False, False, inline, self._room_px())
            grown = self._table.grow(cursor, tokens, text, newest, blocks)
            self.changed_from = self._table.changed_from
        if grown is None:
            return False
        self.decorations[-1] = grown
        return True

    def _writer(self, cursor: QTextCursor, numbers: dict[str, int]) -> MarkdownWriter:
        return MarkdownWriter(cursor, self.style, self._before, numbers, self._room_px())

    def _freeze(self, cursor: QTextCursor, before: Before, numbers: dict[str, int]) -> None:
        self._frozen_end = cursor.position()
        self._frozen_format = cursor.blockFormat()
        self._frozen_char_format = cursor.blockCharFormat()
        self._before = before
        self._numbers = numbers

    def _remove_tail(self, cursor: QTextCursor) -> None:
        start = self._frozen_end if self._before.is_first else self._frozen_end + 1
        while self.decorations and self.decorations[-1].start >= start:
            self.decorations.pop()
        cursor.setPosition(self._frozen_end)
        cursor.movePosition(QTextCursor.MoveOperation.End, QTextCursor.MoveMode.KeepAnchor)
        cursor.removeSelectedText()
        cursor.setBlockFormat(self._frozen_format)
        cursor.setBlockCharFormat(self._frozen_char_format)

    def _shorten_tail(self, lines: int) -> None:
        at = 0
        for _ in range(lines):
            at = self._tail.index("\n", at) + 1
        self._mentioned |= note_mentions(self._tail[:at])
        self._tail = self._tail[at:]

    def _restart(self) -> None:
        """Start again with an empty document."""
        self._tail = self.source
        self.decorations = []
        self._frozen_end = 0
        self._frozen_format, self._frozen_char_format = QTextBlockFormat(), QTextCharFormat()
        self._before = Before()
        self._notes, self._numbers, self._mentioned = set(), {}, set()
        self.is_writing = True
        self._document.clear()
        self.is_writing = False

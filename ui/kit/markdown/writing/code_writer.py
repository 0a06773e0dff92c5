"""Writes the lines of code cards. Main thread."""

from PySide6.QtCore import Qt
from PySide6.QtGui import QBrush, QColor, QTextBlockFormat, QTextCharFormat

from ui.kit.markdown.writing.block_writer import BlockWriter
from ui.kit.markdown.writing.highlighting import Runs, highlighted_lines
from ui.kit.markdown.writing.markdown_style import Decoration, MarkdownStyle

TAB_CHARS = 4


def code_lines(body: str, info: str, style: MarkdownStyle) -> list[Runs]:
    """Return the lines of a code block, colored for the language that ``info`` names."""
    return highlighted_lines(body, language_of(info), style.code)


def language_of(info: str) -> str:
    """Return the language that the first line of a code block names."""
    return info.split()[0] if info.strip() else ""


class CodeWriter:
    """Writes code at the cursor of a ``BlockWriter``."""

    def __init__(self, blocks: BlockWriter) -> None:
        self._blocks = blocks
        self._style = blocks.style
        self._formats: dict[str, QTextCharFormat] = {}

    def write(self, code: str, info: str) -> None:
        """Write a whole card."""
        blocks = self._blocks
        body = code.removesuffix("\n")
        blocks.begin_waiting_mark()
        start, width = self.write_lines(code_lines(body, info, self._style), is_start=True)
        end = blocks.cursor.position()
        card = Decoration("code", start, end, blocks.indent_px, info, body, width)
        blocks.decorations.append(card)

    def write_lines(self, lines: list[Runs], *, is_start: bool) -> tuple[int, float]:
        """Write lines of code; ``is_start`` leaves room for the card's head."""
        blocks, style = self._blocks, self._style
        start, widest = -1, 0.0
        head_px = style.code_head_px + style.gap_px
        if is_start and blocks.is_after_code:
            head_px += style.code_foot_px
        if is_start and blocks.is_first:
            head_px -= style.gap_px
            blocks.begin_below_the_top()
        for number, line in enumerate(lines):
            form = QTextBlockFormat()
            form.setLeftMargin(blocks.indent_px + style.code_pad_px)
            form.setRightMargin(style.code_pad_px)
            form.setTopMargin(head_px if is_start and number == 0 else 0)
            is_last = number == len(lines) - 1
            form.setBottomMargin(style.code_foot_px + style.gap_px if is_last else 0)
            form.setLineHeight(125, QTextBlockFormat.LineHeightTypes.ProportionalHeight.value)
            form.setNonBreakableLines(True)
            form.setLayoutDirection(Qt.LayoutDirection.LeftToRight)
            blocks.insert(form)
            blocks.cursor.setBlockCharFormat(self._format(style.text))
            start = blocks.cursor.position() if start < 0 else start
            for text, color in line:
                blocks.cursor.insertText(text, self._format(color or style.text))
            said = "".join(text for text, _ in line)
            widest = max(widest, style.fixed_width(said.expandtabs(TAB_CHARS)))
        blocks.is_after_code = True
        return start, widest

    def _format(self, color: str) -> QTextCharFormat:
        form = self._formats.get(color)
        if form is None:
            form = QTextCharFormat()
            form.setFont(self._style.fixed)
            form.setForeground(QBrush(QColor(color)))
            self._formats[color] = form
        return form

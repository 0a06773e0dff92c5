"""Markdown as pages of a PDF file. Any thread."""

import re
from collections.abc import Iterator

from markdown_it.token import Token
from PySide6.QtCore import QBuffer, QIODevice, QMarginsF, QRectF, Qt, QUrl
from PySide6.QtGui import (
    QColor,
    QFont,
    QImage,
    QPageLayout,
    QPainter,
    QPdfWriter,
    QTextBlockFormat,
    QTextCharFormat,
    QTextCursor,
    QTextDocument,
    QTextFormat,
    QTextFrameFormat,
    QTextOption,
    QTextTable,
)

from ui.kit.flow_text import text_fragments
from ui.kit.markdown.parser import formula_source, parse, prepared
from ui.kit.markdown.pictures import Drawn, formula

_FOLD = re.compile(r"^(?:<details><summary>(?P<title>.*)</summary>|</details>)$", re.MULTILINE)
_POINTS, _CODE_POINTS = 10.5, 9.0
_HEADING_STEPS = {1: 2, 2: 1}  # of Qt's sizes of text; those of its headings are larger
_SHARPNESS = 4  # pixels of a formula per pixel of the page
_INK, _CODE_GROUND, _LINE = "#000000", "#f4f4f2", "#c8c8c4"


def pdf_of(markdown: str) -> bytes:
    """Return a PDF file with numbered pages; HTML in the text is printed, but for folds."""
    document = QTextDocument()
    font = QFont(document.defaultFont())
    font.setPointSizeF(_POINTS)
    document.setDefaultFont(font)
    # Long words of code and addresses would be cut at the edge of the page.
    document.setDefaultTextOption(_wrapping())
    features = QTextDocument.MarkdownFeature
    unfolded = _FOLD.sub(lambda fold: f"*{fold['title']}*" if fold["title"] else "", markdown)
    text, drawn = _draw_formulas(prepared(unfolded))
    document.setMarkdown(text, features.MarkdownDialectGitHub | features.MarkdownNoHTML)
    _insert_formulas(document, drawn)
    _style_blocks(document)
    for frame in document.rootFrame().childFrames():
        if isinstance(frame, QTextTable):
            _style_table(frame)
    buffer = QBuffer()
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    writer = QPdfWriter(buffer)
    # The document has margins of 2 cm itself.
    writer.setPageMargins(QMarginsF(), QPageLayout.Unit.Millimeter)
    document.print_(writer)
    del writer  # it completes the file
    return bytes(buffer.data().data())


def _wrapping() -> QTextOption:
    option = QTextOption()
    option.setWrapMode(QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere)
    return option


def _draw_formulas(text: str) -> tuple[str, dict[str, Drawn]]:
    """Return the text with named pictures instead of formulas; those that fail are kept."""
    parts: list[str] = []
    formulas: dict[str, Drawn] = {}
    begin = 0
    for number, token in enumerate(_formulas(parse(text))):
        source = formula_source(token)
        position = text.find(source, begin)
        is_display = token.markup in ("$$", "\\[")
        drawn = formula(token.content.strip(), _POINTS, _INK, is_display=is_display)
        if position < 0 or drawn is None:
            continue
        name = f"formula:{number}"
        formulas[name] = drawn
        parts += [text[begin:position], f"![formula]({name})"]
        begin = position + len(source)
    return "".join((*parts, text[begin:])), formulas


def _formulas(tokens: list[Token]) -> Iterator[Token]:
    for token in tokens:
        if token.type.startswith("math"):
            yield token
        yield from _formulas(token.children or [])


def _image(drawn: Drawn) -> QImage:
    width, height = drawn.width_px * _SHARPNESS, drawn.height_px * _SHARPNESS
    image = QImage(round(width) + 1, round(height) + 1, QImage.Format.Format_ARGB32)
    image.setDevicePixelRatio(_SHARPNESS)
    image.fill(Qt.GlobalColor.transparent)
    painter = QPainter(image)
    drawn.paint(painter, QRectF(0, 0, drawn.width_px, drawn.height_px))
    painter.end()
    return image


def _insert_formulas(document: QTextDocument, formulas: dict[str, Drawn]) -> None:
    """Give each formula its picture: on the base line, or in the middle of the line if higher."""
    for piece in list(text_fragments(document)):
        form = piece.charFormat().toImageFormat()
        drawn = formulas.get(form.name())
        if drawn is None:
            continue
        kind = QTextDocument.ResourceType.ImageResource
        document.addResource(kind.value, QUrl(form.name()), _image(drawn))
        form.setWidth(drawn.width_px)
        form.setHeight(drawn.height_px)
        alignments = QTextCharFormat.VerticalAlignment
        is_flat = drawn.descent_px < 1
        form.setVerticalAlignment(alignments.AlignNormal if is_flat else alignments.AlignMiddle)
        cursor = QTextCursor(document)
        cursor.setPosition(piece.position())
        cursor.setPosition(piece.position() + piece.length(), QTextCursor.MoveMode.KeepAnchor)
        cursor.setCharFormat(form)


def _style_blocks(document: QTextDocument) -> None:
    """Give headings their sizes, and code a ground and lines that wrap."""
    block = document.begin()
    while block.isValid():
        form, cursor = block.blockFormat(), QTextCursor(block)
        cursor.movePosition(QTextCursor.MoveOperation.EndOfBlock, QTextCursor.MoveMode.KeepAnchor)
        if level := form.headingLevel():
            heading = QTextCharFormat()
            step = _HEADING_STEPS.get(level, 0)
            heading.setProperty(QTextFormat.Property.FontSizeAdjustment, step)
            cursor.mergeCharFormat(heading)
            shape = QTextBlockFormat()
            shape.setTopMargin(0 if level == 1 else 14)
            shape.setBottomMargin(10 if level == 1 else 4)
            cursor.mergeBlockFormat(shape)
        elif form.hasProperty(QTextFormat.Property.BlockCodeFence) or form.nonBreakableLines():
            code = QTextCharFormat()
            code.setFontPointSize(_CODE_POINTS)
            cursor.mergeCharFormat(code)
            shape = QTextBlockFormat()
            shape.setNonBreakableLines(False)
            shape.setBackground(QColor(_CODE_GROUND))
            cursor.mergeBlockFormat(shape)
        block = block.next()


def _style_table(table: QTextTable) -> None:
    """Draw a table with thin lines; its head is bold and has the alignment of its columns."""
    form = table.format()
    form.setBorder(1)
    form.setBorderStyle(QTextFrameFormat.BorderStyle.BorderStyle_Solid)
    form.setBorderBrush(QColor(_LINE))
    form.setBorderCollapse(True)
    form.setCellPadding(5)
    form.setCellSpacing(0)
    form.setTopMargin(8)
    form.setBottomMargin(8)
    form.setHeaderRowCount(1)
    table.setFormat(form)
    bold = QTextCharFormat()
    bold.setFontWeight(QFont.Weight.Bold)
    for number in range(table.columns()):
        head, shape = table.cellAt(0, number), QTextBlockFormat()
        if table.rows() > 1:
            below = table.cellAt(1, number).firstCursorPosition().blockFormat()
            shape.setAlignment(below.alignment())
        cursor = head.firstCursorPosition()
        if cursor.block() != head.lastCursorPosition().block():
            cursor.deleteChar()  # Qt begins a table below code with an empty line
        cursor.setPosition(head.lastCursorPosition().position(), QTextCursor.MoveMode.KeepAnchor)
        cursor.mergeCharFormat(bold)
        for row in range(table.rows()):
            flat = QTextBlockFormat() if row else shape
            flat.setTopMargin(0)
            flat.setBottomMargin(0)
            table.cellAt(row, number).firstCursorPosition().mergeBlockFormat(flat)

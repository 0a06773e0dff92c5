"""A Markdown document as Qt lays it out: model cards and pages of help. Main thread."""

from PySide6.QtCore import QUrl, Signal
from PySide6.QtGui import (
    QColor,
    QImage,
    QTextBlockFormat,
    QTextCharFormat,
    QTextCursor,
    QTextDocument,
    QTextFormat,
    QTextFrameFormat,
    QTextTable,
)
from PySide6.QtWidgets import QTextBrowser

from ui.kit.flow_text import text_fragments
from ui.kit.theme import current_theme

_PICTURE = "\ufffc"


class DocumentPage(QTextBrowser):
    """Shows a Markdown document, which may come from elsewhere; nothing is loaded for it."""

    link_chosen = Signal(QUrl)

    def __init__(self, name: str) -> None:
        super().__init__()
        self.setObjectName("answer_text")
        self.setAccessibleName(name)
        self.setOpenLinks(False)
        self.anchorClicked.connect(self.link_chosen)

    def show_markdown(self, text: str) -> None:
        """Show a document from its beginning."""
        self.document().setMarkdown(text, QTextDocument.MarkdownFeature.MarkdownDialectGitHub)
        form = QTextBlockFormat()
        form.setLineHeight(130, QTextBlockFormat.LineHeightTypes.ProportionalHeight.value)
        code = QTextBlockFormat(form)
        code.setNonBreakableLines(False)  # long lines wrap
        begin = QTextBlockFormat(code)
        begin.setTopMargin(10)
        below = QTextBlockFormat(form)
        below.setTopMargin(12)
        # One change: Qt would lay out the document for each block.
        edit = QTextCursor(self.document())
        edit.beginEditBlock()
        block, was_code, was_picture = self.document().begin(), False, False
        while block.isValid():
            is_code = block.blockFormat().hasProperty(QTextFormat.Property.BlockCodeFence)
            is_picture = _PICTURE in block.text()
            if not is_picture:  # its line would be higher than the picture
                plain = below if was_picture else form
                one = (code if was_code else begin) if is_code else plain
                QTextCursor(block).mergeBlockFormat(one)
            block, was_code, was_picture = block.next(), is_code, is_picture
        for frame in self.document().rootFrame().childFrames():
            if isinstance(frame, QTextTable):
                lines = frame.format()
                lines.setBorderCollapse(True)
                lines.setBorderStyle(QTextFrameFormat.BorderStyle.BorderStyle_Solid)
                lines.setBorderBrush(QColor(current_theme().colors.strong_line))
                lines.setCellPadding(4)
                frame.setFormat(lines)
        self._shrink_code(edit)
        edit.endEditBlock()

    def _shrink_code(self, edit: QTextCursor) -> None:
        """Let code look as large as the text around it: its letters are wider."""
        small = QTextCharFormat()
        small.setFontPointSize(self.font().pointSizeF() * 0.9)
        document, fence = self.document(), QTextFormat.Property.BlockCodeFence
        spans = [
            (piece.position(), piece.position() + piece.length())
            for piece in text_fragments(document)
            if piece.charFormat().fontFixedPitch()
            or document.findBlock(piece.position()).blockFormat().hasProperty(fence)
        ]
        for begin, end in spans:
            edit.setPosition(begin)
            edit.setPosition(end, QTextCursor.MoveMode.KeepAnchor)
            edit.mergeCharFormat(small)

    def loadResource(self, kind: int, url: QUrl | str) -> object:
        """Load neither files nor addresses; a picture is a transparent pixel."""
        picture = QImage(1, 1, QImage.Format.Format_ARGB32)
        picture.fill(0)
        is_picture = kind == int(QTextDocument.ResourceType.ImageResource.value)
        return picture if is_picture else ""

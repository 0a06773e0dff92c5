"""A Markdown document as Qt lays it out: model cards and pages of help. Main thread."""

from PySide6.QtCore import QUrl, Signal
from PySide6.QtGui import QImage, QTextBlockFormat, QTextCursor, QTextDocument, QTextFormat
from PySide6.QtWidgets import QTextBrowser

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
        block, was_code, was_picture = self.document().begin(), False, False
        while block.isValid():
            is_code = block.blockFormat().hasProperty(QTextFormat.Property.BlockCodeFence)
            is_picture = _PICTURE in block.text()
            if not is_picture:  # its line would be higher than the picture
                plain = below if was_picture else form
                one = (code if was_code else begin) if is_code else plain
                QTextCursor(block).mergeBlockFormat(one)
            block, was_code, was_picture = block.next(), is_code, is_picture

    def loadResource(self, kind: int, url: QUrl | str) -> object:
        """Load neither files nor addresses; a picture is a transparent pixel."""
        picture = QImage(1, 1, QImage.Format.Format_ARGB32)
        picture.fill(0)
        is_picture = kind == int(QTextDocument.ResourceType.ImageResource.value)
        return picture if is_picture else ""

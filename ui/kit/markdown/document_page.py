"""A Markdown document as Qt lays it out: model cards and pages of help. Main thread."""

from PySide6.QtCore import QUrl, Signal
from PySide6.QtGui import QImage, QTextBlockFormat, QTextCursor, QTextDocument
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
        block = self.document().begin()
        while block.isValid():
            if _PICTURE not in block.text():  # its line would be higher than the picture
                QTextCursor(block).mergeBlockFormat(form)
            block = block.next()

    def loadResource(self, kind: int, url: QUrl | str) -> object:
        """Load neither files nor addresses; a picture is a transparent pixel."""
        picture = QImage(1, 1, QImage.Format.Format_ARGB32)
        picture.fill(0)
        is_picture = kind == int(QTextDocument.ResourceType.ImageResource.value)
        return picture if is_picture else ""

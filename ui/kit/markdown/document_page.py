"""A Markdown document as Qt lays it out: model cards and pages of help. Main thread."""

from PySide6.QtCore import QUrl, Signal
from PySide6.QtGui import QImage, QTextDocument
from PySide6.QtWidgets import QTextBrowser


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

    def loadResource(self, kind: int, url: QUrl | str) -> object:
        """Load neither files nor addresses; a picture is a transparent pixel."""
        picture = QImage(1, 1, QImage.Format.Format_ARGB32)
        picture.fill(0)
        is_picture = kind == int(QTextDocument.ResourceType.ImageResource.value)
        return picture if is_picture else ""

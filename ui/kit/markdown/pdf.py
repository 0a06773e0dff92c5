"""Markdown as pages of a PDF file. Any thread."""

import re

from PySide6.QtCore import QBuffer, QIODevice, QMarginsF
from PySide6.QtGui import QFont, QPageLayout, QPdfWriter, QTextDocument

_FOLD = re.compile(r"^(?:<details><summary>(?P<title>.*)</summary>|</details>)$", re.MULTILINE)
_MARGIN_MM = 18
_POINTS = 10.5


def pdf_of(markdown: str) -> bytes:
    """Return a PDF file with numbered pages; HTML in the text is printed, but for folds."""
    document = QTextDocument()
    font = QFont(document.defaultFont())
    font.setPointSizeF(_POINTS)
    document.setDefaultFont(font)
    features = QTextDocument.MarkdownFeature
    unfolded = _FOLD.sub(lambda fold: f"*{fold['title']}*" if fold["title"] else "", markdown)
    document.setMarkdown(unfolded, features.MarkdownDialectGitHub | features.MarkdownNoHTML)
    buffer = QBuffer()
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    writer = QPdfWriter(buffer)
    margin = QMarginsF(_MARGIN_MM, _MARGIN_MM, _MARGIN_MM, _MARGIN_MM)
    writer.setPageMargins(margin, QPageLayout.Unit.Millimeter)
    document.print_(writer)
    del writer  # it completes the file
    return bytes(buffer.data().data())

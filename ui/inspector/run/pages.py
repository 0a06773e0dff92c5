"""Pages of text in the inspector: their frames and their texts begin at one edge. Main thread."""

from PySide6.QtWidgets import QPlainTextEdit, QTextBrowser, QTextEdit

TEXT_MARGIN_PX = 12
# A plain text's frame has this much padding in the style sheet, where a page has two pixels.
_PLAIN_PADDING_PX = 6


def reading_page(says: str) -> QTextBrowser:
    """Return a page that is filled with markup, and opens no links by itself."""
    page = QTextBrowser()
    page.setOpenLinks(False)
    page.setAccessibleName(says)
    align(page)
    return page


def align(page: QTextEdit | QPlainTextEdit) -> None:
    """Let a page's text begin where that of every other page does."""
    if isinstance(page, QTextEdit):
        page.setProperty("kind", "page")
        page.document().setDocumentMargin(TEXT_MARGIN_PX)
    else:
        page.document().setDocumentMargin(TEXT_MARGIN_PX - _PLAIN_PADDING_PX)

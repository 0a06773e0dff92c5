"""Pages of text in the inspector, with one left edge for frames and texts. Main thread."""

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
    """Give a page the same left edge for its text as every other page."""
    if isinstance(page, QTextEdit):
        page.setProperty("kind", "page")
        page.document().setDocumentMargin(TEXT_MARGIN_PX)
    else:
        page.document().setDocumentMargin(TEXT_MARGIN_PX - _PLAIN_PADDING_PX)

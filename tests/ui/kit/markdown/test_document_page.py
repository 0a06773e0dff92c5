"""Documents as Qt lays them out."""

from PySide6.QtCore import QSizeF
from pytestqt.qtbot import QtBot

from ui.kit.markdown.document_page import DocumentPage
from ui.kit.theme import Theme


def test_document_is_not_laid_out_for_each_block(theme: Theme, qtbot: QtBot) -> None:
    page = DocumentPage("Card")
    qtbot.addWidget(page)
    page.show()
    sizes: list[QSizeF] = []
    page.document().documentLayout().documentSizeChanged.connect(sizes.append)
    page.show_markdown("## Part\n\nText with `code`.\n\n```\na\n```\n\n" * 20)
    assert 0 < len(sizes) < 10

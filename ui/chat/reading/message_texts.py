"""The text of messages as the screen shows it, also of those that are far from the screen.

Main thread. Markdown is written into a document that nobody sees; the texts are kept, so that each
message is written once.
"""

import re

from PySide6.QtGui import QTextDocument
from PySide6.QtWidgets import QApplication

from ui.kit.look.theme import Theme
from ui.kit.markdown.view.themed_style import markdown_style
from ui.kit.markdown.writing.growing_text import GrowingText
from ui.kit.text.places import block_texts
from ui.records.messages import ConversationMessage

# Only what is wider than the view depends on the width, never the text.
_ROOM_PX = 700.0
_LINE_ENDS = re.compile(r"\r\n|[\r\n\u2029]")


class MessageTexts:
    """Returns the lines, paragraphs and cells of messages."""

    def __init__(self, theme: Theme) -> None:
        self._theme = theme
        self._document: QTextDocument | None = None
        self._writer: GrowingText | None = None
        self._kept: dict[str, tuple[str, list[str]]] = {}

    def blocks(self, message: ConversationMessage) -> list[str]:
        """Return the shown text of a message, block by block."""
        if message.run is None:
            return _LINE_ENDS.split(message.typed)
        source = message.said
        kept = self._kept.get(message.id)
        if kept is None or kept[0] != source:
            kept = self._kept[message.id] = source, self._written(source)
        return kept[1]

    def forget(self) -> None:
        """Drop what is kept."""
        self._kept.clear()
        self._document = self._writer = None

    def _written(self, source: str) -> list[str]:
        if self._document is None or self._writer is None:
            self._document = QTextDocument()
            style = markdown_style(self._theme, QApplication.font())
            self._writer = GrowingText(self._document, style, lambda: _ROOM_PX)
        self._writer.show(source)
        return block_texts(self._document)

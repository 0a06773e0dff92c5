"""The text of messages as the screen shows it, even if they are folded or far from the screen.

Main thread. Markdown is written into a hidden document; the texts are kept, so that each message is
written only once.
"""

from collections.abc import Callable

from PySide6.QtGui import QTextDocument
from PySide6.QtWidgets import QApplication

from ui.chat.calling.call_words import call_lines
from ui.chat.composing.file_preview import shown_text
from ui.kit.look.theme import Theme
from ui.kit.markdown.view.themed_style import markdown_style
from ui.kit.markdown.writing.growing_text import GrowingText
from ui.kit.text.places import block_texts
from ui.records.messages import ConversationMessage
from ui.words.visible import lines_of

# The text does not depend on the width of the view.
_ROOM_PX = 700.0


class MessageTexts:
    """Returns the lines, paragraphs and cells of messages."""

    def __init__(self, theme: Theme) -> None:
        self._theme = theme
        self._document: QTextDocument | None = None
        self._writer: GrowingText | None = None
        self._kept: dict[str, tuple[str, list[str]]] = {}

    def blocks(self, message: ConversationMessage) -> list[str]:
        """Return the text of a message, block by block, in the order of its parts on the screen."""
        run = message.run
        if run is None:
            return self._once(message.id, message.text, lambda: _asked(message))
        said = self._once(message.id, message.said, lambda: self._written(message.said))
        thought = lines_of(run.thinking) if run.thinking else []
        return [*thought, *said, *call_lines(run), *(picture.name for picture in run.pictures)]

    def forget(self) -> None:
        """Drop the kept texts."""
        self._kept.clear()
        self._document = self._writer = None

    def _once(self, key: str, source: str, make: Callable[[], list[str]]) -> list[str]:
        kept = self._kept.get(key)
        if kept is None or kept[0] != source:
            kept = self._kept[key] = source, make()
        return kept[1]

    def _written(self, source: str) -> list[str]:
        if self._document is None or self._writer is None:
            self._document = QTextDocument()
            style = markdown_style(self._theme, QApplication.font())
            self._writer = GrowingText(self._document, style, lambda: _ROOM_PX)
        self._writer.show(source)
        return block_texts(self._document)


def _asked(message: ConversationMessage) -> list[str]:
    lines: list[str] = []
    for file in message.files:
        text = [] if file.picture_file else lines_of(shown_text(file.text))
        lines += [file.name, *text]
    return [*lines, *lines_of(message.typed)]

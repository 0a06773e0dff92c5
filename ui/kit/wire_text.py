"""Colors of requests and answers in a text view: names of headers, JSON's keys and values.

Main thread. Each line is read on its own, as events of a stream are.
"""

import re

from PySide6.QtGui import QColor, QSyntaxHighlighter, QTextCharFormat, QTextDocument

from ui.kit.colors import Colors
from ui.kit.html import Html, colored, joined
from ui.kit.theme import current_theme

_MAX_LINE_CHARS = 4_000  # a longer line is one long text, such as a picture
_MAX_CHARS = 60_000  # a longer text stays plain: coloring it takes longer than a frame
_PARTS = re.compile(
    r'(?P<muted>^[A-Za-z][\w-]*(?=: ))|(?P<tool>"(?:[^"\\]|\\.)*"(?=\s*:))'
    r'|(?P<done>"(?:[^"\\]|\\.)*(?:"|…$))|(?<![\w.-])'
    r"(?:(?P<limit>-?\d[\d.eE+-]*)|(?P<match>true|false|null))(?![\w.-])"
)
"""Each group has the name of its color; a text that is shown in part may end within a string."""


def wire_html(text: str, colors: Colors) -> Html:
    """Return a line in the colors of ``WireHighlighter``, for a page."""
    parts, end = [], 0
    for part in _PARTS.finditer(text):
        color = getattr(colors, part.lastgroup or "text")
        parts += [text[end : part.start()], colored(part.group(), color)]
        end = part.end()
    return joined(*parts, text[end:])


class WireHighlighter(QSyntaxHighlighter):
    """Colors a document, and again in the colors of another theme."""

    def __init__(self, document: QTextDocument) -> None:
        super().__init__(document)
        current_theme().changed.connect(self.rehighlight)

    def highlightBlock(self, text: str) -> None:  # noqa: N802 - Qt's name
        if len(text) > _MAX_LINE_CHARS or self.document().characterCount() > _MAX_CHARS:
            return
        colors = current_theme().colors
        for part in _PARTS.finditer(text):
            form = QTextCharFormat()
            form.setForeground(QColor(getattr(colors, part.lastgroup or "text")))
            self.setFormat(part.start(), part.end() - part.start(), form)

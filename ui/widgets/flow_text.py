"""A text that is as high as what it holds, for use in a scrolling column.

Main thread. Loads nothing by itself; a link only announces that it was chosen.
"""

import re
from collections.abc import Sequence
from math import ceil
from typing import Any

from PySide6.QtCore import QRectF, QSizeF, Qt, QUrl
from PySide6.QtGui import QColor, QTextCharFormat, QTextCursor, QTextOption, QWheelEvent
from PySide6.QtWidgets import QFrame, QSizePolicy, QTextBrowser, QTextEdit, QWidget


class FlowText(QTextBrowser):
    """Read-only text without scroll bars whose height follows its content.

    Selection works with mouse and keyboard. ``anchorClicked`` tells of a chosen link.
    """

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setOpenLinks(False)
        self.setUndoRedoEnabled(False)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setWordWrapMode(QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere)
        self.setTextInteractionFlags(Qt.TextInteractionFlag.TextBrowserInteraction)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setTabChangesFocus(True)
        self.viewport().setAutoFillBackground(False)
        # A line that is too long scrolls in its own place, never the whole text.
        bar = self.horizontalScrollBar()
        bar.rangeChanged.connect(lambda: bar.setRange(0, 0))
        self.found_words: tuple[str, ...] = ()
        self._found_colors = QColor(), QColor()
        document = self.document()
        document.setDocumentMargin(0)
        document.documentLayout().documentSizeChanged.connect(self._fit)

    def loadResource(self, kind: int, name: QUrl | str) -> Any:
        """Load nothing: a text must not reach for files or the network."""
        return None

    def set_found_colors(self, background: str, text: str) -> None:
        """Set how found words are marked."""
        self._found_colors = QColor(background), QColor(text)
        if self.found_words:
            self.show_found(self.found_words)

    def show_found(self, words: Sequence[str]) -> QRectF | None:
        """Mark every place where one of the words stands, in whatever case.

        Args:
            words: The words; none takes all marks away.

        Returns:
            Where the first one is; None where there is none.
        """
        self.found_words = tuple(words)
        form = QTextCharFormat()
        form.setBackground(self._found_colors[0])
        form.setForeground(self._found_colors[1])
        marks: list[QTextEdit.ExtraSelection] = []
        for begin, end in self._places_of(words):
            mark = QTextEdit.ExtraSelection()
            mark.cursor = QTextCursor(self.document())
            mark.cursor.setPosition(begin)
            mark.cursor.setPosition(end, QTextCursor.MoveMode.KeepAnchor)
            mark.format = form
            marks.append(mark)
        self.setExtraSelections(marks)
        if not marks:
            return None
        first = QTextCursor(self.document())
        first.setPosition(marks[0].cursor.selectionStart())
        return QRectF(self.cursorRect(first))

    def _places_of(self, words: Sequence[str]) -> list[tuple[int, int]]:
        if not words:
            return []
        spelled = (r"\s+".join(re.escape(part) for part in word.split()) for word in words)
        pattern = re.compile("|".join(spelled), re.IGNORECASE)
        places = []
        block = self.document().begin()
        while block.isValid():
            text = block.text()
            for match in pattern.finditer(text):
                begin = block.position() + _utf16_length(text[: match.start()])
                places.append((begin, begin + _utf16_length(match[0])))
            block = block.next()
        return places

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Leave scrolling to the column around this text."""
        event.ignore()

    def _fit(self, size: QSizeF) -> None:
        height = max(ceil(size.height()), self.fontMetrics().height())
        if height != self.height():
            self.setFixedHeight(height)


def _utf16_length(text: str) -> int:
    """Return how many positions a text takes in a document."""
    return len(text.encode("utf-16-le")) // 2

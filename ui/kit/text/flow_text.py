"""A text widget as high as its content, for use in a scrolling column.

Main thread. It loads no resources; choosing a link only emits a signal.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

from PySide6.QtCore import QRectF, QSizeF, Qt, QUrl
from PySide6.QtGui import QColor, QKeyEvent, QTextCharFormat, QTextCursor, QTextOption, QWheelEvent
from PySide6.QtWidgets import QFrame, QScrollArea, QSizePolicy, QTextBrowser, QTextEdit, QWidget

from ui.kit.text.places import utf16_length, word_places

# Each highlight follows the text when that changes: thousands of them would be slow.
_MOST_MARKS = 1_000


@dataclass(frozen=True, slots=True)
class Highlight:
    """Words to highlight in a text, and the colors.

    Attributes:
        words: The words; an empty list removes all highlights.
        background: The color behind a word.
        color: The color of its letters.
        has_case: Whether upper and lower case differ.
        current: The number of the current occurrence; None for none.
        current_background: The color behind the current occurrence.
        current_color: The color of its letters.
    """

    words: tuple[str, ...] = ()
    background: str = ""
    color: str = ""
    has_case: bool = False
    current: int | None = None
    current_background: str = ""
    current_color: str = ""


class FlowText(QTextBrowser):
    """Read-only text without scroll bars whose height follows its content.

    Text can be selected with mouse and keyboard. Choosing a link emits ``anchorClicked``.
    """

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setOpenLinks(False)
        self.setUndoRedoEnabled(False)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setWordWrapMode(QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere)
        flags = Qt.TextInteractionFlag
        # The caret shows where the keyboard is, and selects what is to be quoted or copied.
        self.setTextInteractionFlags(flags.TextBrowserInteraction | flags.TextSelectableByKeyboard)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setTabChangesFocus(True)
        self.viewport().setAutoFillBackground(False)
        # Only a line that is too long scrolls, never the whole text.
        bar = self.horizontalScrollBar()
        bar.rangeChanged.connect(lambda: bar.setRange(0, 0))
        self._found = Highlight()
        document = self.document()
        document.setDocumentMargin(0)
        document.documentLayout().documentSizeChanged.connect(self._fit)

    def loadResource(self, kind: int, name: QUrl | str) -> Any:
        """Load nothing: a text must not access files or the network."""
        return None

    def show_found(self, words: Sequence[str], background: str, color: str) -> QRectF | None:
        """Highlight every occurrence of the words, ignoring case.

        Args:
            words: The words; an empty list removes all highlights.
            background: The color behind a word.
            color: The color of its letters.

        Returns:
            The place of the first one; None if there is none.
        """
        return self.highlight(Highlight(tuple(words), background, color))

    def highlight(self, wanted: Highlight) -> QRectF | None:
        """Highlight every occurrence of words; return the place of the current or first one."""
        if not wanted.words and not self._found.words:
            return None
        self._found = wanted
        places = word_places(self.document(), wanted.words, wanted.has_case)
        current = wanted.current or 0
        begin = max(0, min(current - _MOST_MARKS // 2, len(places) - _MOST_MARKS))
        shown = places[begin : begin + _MOST_MARKS]
        marks = self._mark(shown, wanted.background, wanted.color)
        if not marks:
            return None
        looked_at = marks[min(current - begin, len(marks) - 1)]
        if wanted.current is not None:
            looked_at.format.setBackground(QColor(wanted.current_background))
            looked_at.format.setForeground(QColor(wanted.current_color))
            self.setExtraSelections(marks)
        there = QTextCursor(self.document())
        there.setPosition(looked_at.cursor.selectionStart())
        return QRectF(self.cursorRect(there))

    def show_spans(self, spans: Sequence[tuple[int, int]], background: str, color: str) -> None:
        """Highlight parts of ``toPlainText``.

        Args:
            spans: The first character of each part, and the character after its last one.
            background: The color behind them.
            color: The color of the text.
        """
        text, places, at, position = self.toPlainText(), [], 0, 0
        for begin, end in spans:
            start = position + utf16_length(text[at:begin])
            position = start + utf16_length(text[begin:end])
            at = end
            places.append((start, position))
        self._mark(places, background, color)

    def _mark(
        self, places: Sequence[tuple[int, int]], background: str, color: str
    ) -> list[QTextEdit.ExtraSelection]:
        form = QTextCharFormat()
        form.setBackground(QColor(background))
        form.setForeground(QColor(color))
        marks: list[QTextEdit.ExtraSelection] = []
        for begin, end in places:
            mark = QTextEdit.ExtraSelection()
            cursor = QTextCursor(self.document())
            cursor.setPosition(begin)
            cursor.setPosition(end, QTextCursor.MoveMode.KeepAnchor)
            mark.cursor = cursor
            mark.format = form
            marks.append(mark)
        self.setExtraSelections(marks)
        return marks

    def show_found_again(self) -> None:
        """Highlight the same words again after the text has changed."""
        if self._found.words:
            self.highlight(self._found)

    @property
    def found_texts(self) -> list[str]:
        """The highlighted words, as the text spells them."""
        return [mark.cursor.selectedText() for mark in self.extraSelections()]

    def scroll_to(self, position: int) -> None:
        """Scroll the column around this text until a position is in the upper third."""
        parent = self._column()
        inner = None if parent is None else parent.widget()
        if parent is not None and inner is not None:
            cursor = QTextCursor(self.document())
            cursor.setPosition(position)
            there = self.viewport().mapTo(inner, self.cursorRect(cursor).center())
            parent.ensureVisible(there.x(), there.y(), 0, parent.viewport().height() // 3)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Move the caret and keep it in sight; the column scrolls by pages."""
        if event.key() in (Qt.Key.Key_PageUp, Qt.Key.Key_PageDown):
            event.ignore()
            return
        before = self.textCursor().position()
        super().keyPressEvent(event)
        if self.textCursor().position() != before:
            self._show_caret()

    def _show_caret(self) -> None:
        parent = self._column()
        inner = None if parent is None else parent.widget()
        if parent is not None and inner is not None:
            caret = self.cursorRect()
            there = self.viewport().mapTo(inner, caret.center())
            parent.ensureVisible(there.x(), there.y(), 0, caret.height())

    def _column(self) -> QScrollArea | None:
        parent = self.parentWidget()
        while parent is not None and not isinstance(parent, QScrollArea):
            parent = parent.parentWidget()
        return parent

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Leave scrolling to the column around this text."""
        event.ignore()

    def _fit(self, size: QSizeF) -> None:
        height = max(ceil(size.height()), self.fontMetrics().height())
        if height != self.height():
            self.setFixedHeight(height)

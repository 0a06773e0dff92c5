"""The slot of one message in the column: its view if that is near the screen, else its height.

A long conversation has only the views that fit on a few screens. Main thread.
"""

from collections.abc import Sequence
from math import ceil

import shiboken6
from PySide6.QtCore import QRectF, QTimer, Signal
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QApplication, QVBoxLayout, QWidget

from ui.chat.messages.answer_view import AnswerView
from ui.chat.messages.question_view import QuestionView
from ui.kit.look.theme import Theme
from ui.kit.text.flow_text import Highlight
from ui.kit.text.searched import mark_parts, unfold_place
from ui.records.messages import ConversationMessage

_UNBOUND_PX = 16777215
_CHARS_A_LINE = 88
# The height around the text: the edge of a bubble; the line below an answer.
_QUESTION_PX, _ANSWER_PX = 22, 54
_MARKED_MS = 1600


class MessageSlot(QWidget):
    """Contains the view of a message, or keeps its height.

    Signals:
        height_changed: The height changed; carries the slot, the old and the new height.
    """

    height_changed = Signal(object, int, int)

    def __init__(self, theme: Theme, message: ConversationMessage) -> None:
        super().__init__()
        self.message = message
        self.view: QWidget | None = None
        self._theme = theme
        self._is_marked = False
        self.setFixedHeight(estimated_height(message, self.fontMetrics().lineSpacing()))

    def fill(self, view: QWidget) -> None:
        """Show the message."""
        self.view = view
        # Laid out at its final width from the start, so that its height is right at once.
        view.resize(self.width(), self.height())
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(view)
        self.setMinimumHeight(0)
        self.setMaximumHeight(_UNBOUND_PX)

    @property
    def can_be_emptied(self) -> bool:
        """Whether the view is not in use, and the message no longer grows."""
        focused = QApplication.focusWidget()
        is_used = focused is not None and self.isAncestorOf(focused)
        view = self.view
        is_edited = isinstance(view, QuestionView | AnswerView) and view.editor is not None
        return self.message.is_settled and not is_used and not is_edited

    def empty(self) -> None:
        """Drop the view and keep its height."""
        if self.view is not None:
            self.setFixedHeight(self.height())
            # A thousand empty layouts would cost as much as their messages.
            if (layout := self.layout()) is not None:
                shiboken6.delete(layout)
            self.view.hide()
            self.view.deleteLater()
            self.view = None

    def show_found(self, words: Sequence[str]) -> int | None:
        """Highlight words in the text of the message; an empty list removes the highlights.

        Returns:
            The distance of the first one from the top; None if the text shows none.
        """
        colors = self._theme.colors
        return self.highlight(Highlight(tuple(words), colors.found, colors.text))

    def highlight(self, wanted: Highlight) -> int | None:
        """Highlight words in the text of the message.

        Returns:
            The distance of the current or first one from the top; None if the text shows none.
        """
        if not isinstance(self.view, QuestionView | AnswerView):
            return None
        return mark_parts(self.view.searched_parts(), wanted, self)

    def unfold_place(self, wanted: Highlight) -> None:
        """Unfold the part with the current place: thinking, a result, a file."""
        if isinstance(self.view, QuestionView | AnswerView):
            unfold_place(self.view.searched_parts(), wanted)

    def mark(self) -> None:
        """Highlight the whole message for a moment."""
        self._is_marked = True
        self.update()
        QTimer.singleShot(_MARKED_MS, self, self._unmark)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the highlight."""
        if self._is_marked:
            painter = QPainter(self)
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.setPen(QColor(self._theme.colors.accent))
            painter.setBrush(QColor(self._theme.colors.accent_soft))
            painter.drawRoundedRect(QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5), 10, 10)
            painter.end()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Report a change of the height."""
        super().resizeEvent(event)
        before, after = event.oldSize().height(), event.size().height()
        if before != after and before >= 0:
            self.height_changed.emit(self, before, after)

    def _unmark(self) -> None:
        self._is_marked = False
        self.update()


def estimated_height(message: ConversationMessage, line_px: int) -> int:
    """Return an estimate of a message's height, in pixels, before it is laid out."""
    text = message.said if message.run is not None else message.typed
    lines = sum(max(1, ceil(len(line) / _CHARS_A_LINE)) for line in text.split("\n"))
    lines += 2 * len(message.files)
    around_px = _QUESTION_PX if message.run is None else _ANSWER_PX
    return round(lines * line_px * 1.2) + around_px

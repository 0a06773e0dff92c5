"""The slot of one message in the column: its height, and its view while that is near the screen.

A slot is no widget: thousands of messages far from the screen cost no more than their numbers. Main
thread.
"""

from collections.abc import Sequence

from PySide6.QtWidgets import QApplication

from ui.chat.messages.answer_view import AnswerView
from ui.chat.messages.question_view import QuestionView
from ui.kit.look.theme import Theme
from ui.kit.text.flow_text import Highlight
from ui.kit.text.searched import mark_parts, unfold_place
from ui.records.messages import ConversationMessage

_CHARS_A_LINE = 88
# The height around the text: the edge of a bubble; the line below an answer.
_QUESTION_PX, _ANSWER_PX = 22, 54


class MessageSlot:
    """A message's place in the column."""

    __slots__ = ("_theme", "height", "message", "top", "view")

    def __init__(self, theme: Theme, message: ConversationMessage, line_px: int) -> None:
        self.message = message
        self.view: QuestionView | AnswerView | None = None
        self.top = 0
        self.height = estimated_height(message, line_px)
        self._theme = theme

    @property
    def can_be_emptied(self) -> bool:
        """Whether the view is not in use, and the message no longer grows."""
        if self.view is None:
            return False
        focused = QApplication.focusWidget()
        is_used = focused is not None and self.view.isAncestorOf(focused)
        return self.message.is_settled and not is_used and self.view.editor is None

    def show_found(self, words: Sequence[str]) -> int | None:
        """Highlight words in the text of the message; an empty list removes the highlights."""
        colors = self._theme.colors
        return self.highlight(Highlight(tuple(words), colors.found, colors.text))

    def highlight(self, wanted: Highlight) -> int | None:
        """Highlight words in the text of the message."""
        if self.view is None:
            return None
        return mark_parts(self.view.searched_parts(), wanted, self.view)

    def unfold_place(self, wanted: Highlight) -> None:
        """Unfold the part with the current place: thinking, a result, a file."""
        if self.view is not None:
            unfold_place(self.view.searched_parts(), wanted)


def estimated_height(message: ConversationMessage, line_px: int) -> int:
    """Return an estimate of a message's height, in pixels, before it is laid out."""
    text = message.said if message.run is not None else message.typed
    lines = 1 + text.count("\n") + len(text) // _CHARS_A_LINE
    if message.attached_chars:
        lines += 2 * len(message.files)
    around_px = _QUESTION_PX if message.run is None else _ANSWER_PX
    return round(lines * line_px * 1.2) + around_px

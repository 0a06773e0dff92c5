"""Creates the views of messages near the screen, and drops those far from it. Main thread."""

from collections.abc import Callable

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QScrollArea

from ui.chat.messages.answer_view import AnswerView
from ui.chat.messages.column.message_slot import MessageSlot
from ui.chat.messages.column.slot_stack import SlotStack
from ui.chat.messages.question_view import QuestionView
from ui.records.messages import ConversationMessage

# In heights of the screen: views nearer than this are created, and views beyond are dropped.
_MADE_WITHIN, _KEPT_WITHIN = 0.75, 1.75


class NearViews(QObject):
    """The views of the messages near the screen.

    Args:
        area: Scrolls the slots.
        stack: The slots.
        make_view: Creates the view of a message.

    Signals:
        filled: A slot got a view; carries the slot.
    """

    filled = Signal(object)

    def __init__(
        self,
        area: QScrollArea,
        stack: SlotStack,
        make_view: Callable[[ConversationMessage], QuestionView | AnswerView],
    ) -> None:
        super().__init__(area)
        self._area = area
        self._stack = stack
        self._make_view = make_view
        self._is_filling = False

    def fill(self, slot: MessageSlot) -> None:
        """Create the view of a message, unless it has one."""
        if slot.view is None:
            self._stack.fill(slot, self._make_view(slot.message))
            self.filled.emit(slot)

    def fill_near(self) -> None:
        """Create the views near the screen, and drop those far from it."""
        if self._is_filling:
            return
        self._is_filling = True
        # A message that is lower than estimated leaves room for others beside it.
        while empty := [slot for slot in self._near(_MADE_WITHIN) if slot.view is None]:
            for slot in empty:
                self.fill(slot)
            self._stack.lay_out()
        kept = set(self._near(_KEPT_WITHIN))
        for slot in [one for one in self._stack.filled if one not in kept and one.can_be_emptied]:
            self._stack.empty(slot)
        self._is_filling = False

    def _near(self, screens: float) -> list[MessageSlot]:
        top, height = self._area.verticalScrollBar().value(), self._area.viewport().height()
        around = round(height * screens)
        return self._stack.within(top - around, top + height + around)

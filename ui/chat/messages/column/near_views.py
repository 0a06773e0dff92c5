"""Creates the views of messages near the screen, and drops those far from it. Main thread."""

from collections.abc import Callable

from PySide6.QtCore import QObject, QTimer, Signal
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

    What is seen is created at once; what is near follows, a view in each round of the event loop.

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
        self._filling = QTimer(self, singleShot=True, interval=0)
        self._filling.timeout.connect(self._fill_next)

    def fill(self, slot: MessageSlot) -> None:
        """Create the view of a message, unless it has one."""
        if slot.view is None:
            self._stack.fill(slot, self._make_view(slot.message))
            self.filled.emit(slot)

    def fill_near(self) -> None:
        """Create the views that are seen, and drop those far from the screen."""
        if self._is_filling or not self._area.isVisible():
            return
        self._is_filling = True
        # A message that is lower than estimated leaves room for others beside it.
        while empty := self._empty_within(0):
            for slot in empty:
                self.fill(slot)
            self._stack.lay_out()
        self._drop_beyond(_KEPT_WITHIN)
        self._is_filling = False
        if self._empty_within(_MADE_WITHIN):
            self._filling.start()

    def drop_unseen(self) -> None:
        """Drop the views beyond the screen: all that is left is going to be laid out again."""
        self._drop_beyond(0, now=True)

    def _fill_next(self) -> None:
        """Create the view next to the screen."""
        seen_px = self._area.verticalScrollBar().value() + self._area.viewport().height() // 2
        empty = self._empty_within(_MADE_WITHIN)
        if empty and self._area.isVisible():
            self.fill(min(empty, key=lambda slot: abs(slot.top + slot.height // 2 - seen_px)))
            self._stack.lay_out()
            self.fill_near()

    def _empty_within(self, screens: float) -> list[MessageSlot]:
        return [slot for slot in self._near(screens) if slot.view is None]

    def _drop_beyond(self, screens: float, *, now: bool = False) -> None:
        kept = set(self._near(screens))
        for slot in [one for one in self._stack.filled if one not in kept and one.can_be_emptied]:
            self._stack.empty(slot, now=now)

    def _near(self, screens: float) -> list[MessageSlot]:
        top, height = self._area.verticalScrollBar().value(), self._area.viewport().height()
        around = round(height * screens)
        return self._stack.within(top - around, top + height + around)

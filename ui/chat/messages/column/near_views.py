"""Creates the views of messages near the screen, and drops those far from it. Main thread."""

from collections.abc import Callable, Iterable

from PySide6.QtCore import QCoreApplication, QEvent, QObject, QTimer, Signal
from PySide6.QtWidgets import QScrollArea

from ui.chat.messages.answer_view import AnswerView
from ui.chat.messages.column.message_slot import MessageSlot
from ui.chat.messages.column.slot_stack import SlotStack
from ui.chat.messages.question_view import QuestionView
from ui.records.messages import ConversationMessage

# In heights of the screen: views nearer than this are created, and views beyond are dropped.
_MADE_WITHIN, _KEPT_WITHIN = 0.75, 3.0
_RETRY_MS = 20


class NearViews(QObject):
    """The views of the messages near the screen.

    Args:
        area: Scrolls the slots.
        stack: The slots.
        make_view: Creates the view of a message.

    Signals:
        filled: A slot got a view; carries the slot.

    Attributes:
        slots: The slots that have views.
    """

    filled = Signal(object)

    def __init__(
        self,
        area: QScrollArea,
        stack: SlotStack,
        make_view: Callable[[ConversationMessage], QuestionView | AnswerView],
    ) -> None:
        super().__init__(area)
        self.slots: set[MessageSlot] = set()
        self._area = area
        self._stack = stack
        self._make_view = make_view
        self._filling = QTimer(self, singleShot=True)
        self._filling.timeout.connect(self._lay_out_and_fill)
        stack.height_changed.connect(self._notice_height)

    def fill(self, slot: MessageSlot) -> None:
        """Create the view of a message, unless it has one."""
        if slot.view is None:
            slot.fill(self._make_view(slot.message))
            self.slots.add(slot)
            self.filled.emit(slot)

    def fill_end(self) -> None:
        """Create the views of the last messages that fit on the screen."""
        room = self._area.viewport().height()
        for slot in reversed(self._stack.slots):
            if room < 0:
                break
            self.fill(slot)
            room -= slot.sizeHint().height()

    def fill_near(self) -> None:
        """Create the views near the screen, and drop those far from it."""
        if not self._stack.is_laid_out:
            # Before they are laid out, all slots would seem near, and would get wrong heights.
            self.fill_later()
            return
        top, height = self._area.verticalScrollBar().value(), self._area.viewport().height()
        made, kept = round(height * _MADE_WITHIN), round(height * _KEPT_WITHIN)
        for slot in self._stack.within(top - made, top + height + made):
            self.fill(slot)
        near = set(self._stack.within(top - kept, top + height + kept))
        self.empty(slot for slot in self.slots - near if slot.can_be_emptied)

    def fill_later(self) -> None:
        """Create the views near the screen once all slots have their places."""
        self._filling.start(0)

    def empty(self, slots: Iterable[MessageSlot]) -> None:
        """Drop the views of messages; the slots keep their heights."""
        for slot in slots:
            slot.empty()
            self.slots.discard(slot)

    def _lay_out_and_fill(self) -> None:
        """Lay out all slots now, and create the views near the screen."""
        if self._area.isVisible():
            # The stack first lays out its slots, and gets their total height only after that.
            QCoreApplication.sendPostedEvents(None, int(QEvent.Type.LayoutRequest))
            if self._stack.is_laid_out:
                self.fill_near()
            else:
                self._filling.start(_RETRY_MS)

    def _notice_height(self, slot: MessageSlot, before: int, after: int) -> None:
        if after < before:
            # A message that is lower than estimated leaves room for those above it. If nothing
            # is scrolled, nothing else would create their views.
            self.fill_later()

"""The slots of a conversation's messages, one below another. Main thread.

Knows the place of each message, but nothing about its content.
"""

from bisect import bisect_right
from collections.abc import Sequence

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QVBoxLayout, QWidget

from ui.chat.messages.column.message_slot import MessageSlot
from ui.kit.look.theme import Theme
from ui.records.messages import ConversationMessage
from ui.records.runs import Run

_WIDEST_PX = 760
_LEAST_SIDE_PX = 26
_ABOVE_PX, _BELOW_PX, _BETWEEN_PX = 24, 18, 14


class SlotStack(QWidget):
    """The column of slots.

    Signals:
        height_changed: The height of a slot changed; carries the slot, its old and its new height.

    Attributes:
        slots: The slots, from the first message to the last.
    """

    height_changed = Signal(object, int, int)

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self.setObjectName("scrolled")
        self.slots: list[MessageSlot] = []
        self._theme = theme
        self._layout = QVBoxLayout(self)
        self._layout.setSpacing(_BETWEEN_PX)
        self._layout.addStretch(1)

    @property
    def is_laid_out(self) -> bool:
        """Whether the slots are laid out at their present heights."""
        if len(self.slots) > 1 and self.slots[-1].y() <= self.slots[0].y():
            return False
        return self.height() >= self.minimumSizeHint().height()

    def add(self, messages: Sequence[ConversationMessage]) -> None:
        """Add an empty slot for each message at the end."""
        for message in messages:
            slot = MessageSlot(self._theme, message)
            slot.height_changed.connect(self.height_changed)
            self.slots.append(slot)
            self._layout.insertWidget(self._layout.count() - 1, slot)

    def take_from(self, index: int) -> list[MessageSlot]:
        """Remove the slots from an index on, and return them."""
        gone, self.slots = self.slots[index:], self.slots[:index]
        for slot in gone:
            self._layout.removeWidget(slot)
            slot.hide()
            slot.deleteLater()
        return gone

    def slot_of(self, message: ConversationMessage) -> MessageSlot | None:
        """Return the slot of a message; None for a message that is not shown."""
        return next((slot for slot in reversed(self.slots) if slot.message is message), None)

    def slot_of_run(self, run: Run) -> MessageSlot | None:
        """Return the slot of a run's answer; None for an answer that is not shown."""
        return next((slot for slot in reversed(self.slots) if slot.message.run is run), None)

    def first_at(self, top: int) -> int:
        """Return the index of the slot at a height; 0 above the first one."""
        return max(0, bisect_right(self.slots, top, key=MessageSlot.y) - 1)

    def within(self, top: int, bottom: int) -> list[MessageSlot]:
        """Return the slots that are at least partly between two heights."""
        last = bisect_right(self.slots, bottom, key=MessageSlot.y)
        return self.slots[self.first_at(top) : last]

    def fit_sides(self, width: int) -> None:
        """Center the slots in a width, and keep them no wider than is readable."""
        side = max(_LEAST_SIDE_PX, (width - self._theme.px(_WIDEST_PX)) // 2)
        self._layout.setContentsMargins(side, _ABOVE_PX, side, _BELOW_PX)

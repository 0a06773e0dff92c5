"""The reader's place in the column of messages: at its end, at a wanted message, or elsewhere.

Main thread. Keeps a reader at the end while the column grows. For a reader elsewhere, scrolling
makes up for changed heights above the screen, so that the visible text stays.
"""

from collections.abc import Callable

from PySide6.QtCore import QCoreApplication, QEvent, QObject, QTimer, Signal
from PySide6.QtWidgets import QScrollArea

from ui.chat.messages.column.message_slot import MessageSlot

_NEAR_END_PX = 12
# A reader nearer to the end than this sees the last lines.
_END_SEEN_PX = 80
_ABOVE_WANTED_PX = 40
_ARRIVING_MS = 500


class ReadersPlace(QObject):
    """Scrolls a column for its reader.

    Args:
        area: The column.
        found_in: Returns the distance of the searched words from the top of a message; None
            if there are none.

    Signals:
        moved: Another part of the column is visible.
        grown: The height of the column has changed.
    """

    moved = Signal()
    grown = Signal()

    def __init__(self, area: QScrollArea, found_in: Callable[[MessageSlot], int | None]) -> None:
        super().__init__(area)
        self._area = area
        self._found_in = found_in
        self._is_at_end = True
        # How much the heights above the screen have changed since the last scrolling.
        self._owed_px = 0
        self._wanted: MessageSlot | None = None
        self._arriving = QTimer(self, singleShot=True, interval=_ARRIVING_MS)
        self._arriving.timeout.connect(self._end_arriving)
        self._bar = area.verticalScrollBar()
        self._bar.valueChanged.connect(self._notice_place)
        self._bar.rangeChanged.connect(self._keep_place)

    @property
    def is_end_seen(self) -> bool:
        """Whether the end of the column is on the screen, or nearly."""
        return self._is_at_end or self._bar.value() >= self._bar.maximum() - _END_SEEN_PX

    def go_to_end(self) -> None:
        """Scroll to the end of the column and stay there."""
        self.forget_wanted()
        self.follow_end()
        self._bar.setValue(self._bar.maximum())
        # The heights of the new views there differ from the estimates.
        self._is_at_end = True
        self.moved.emit()

    def follow_end(self) -> None:
        """Stay at the end of the column from now on."""
        self._is_at_end = True

    def go_to(self, slot: MessageSlot) -> None:
        """Scroll to a message, and stay with it until the heights around it are settled."""
        self._wanted = slot
        # The views that are created on the way change the heights above, for a moment.
        self._arriving.start()
        self._scroll_to(slot)

    def forget_wanted(self) -> None:
        """Stop scrolling to the wanted message."""
        self._arriving.stop()
        self._wanted = None

    def owe(self, slot: MessageSlot, before: int, after: int) -> None:
        """Note that the height of a message has changed.

        Args:
            slot: The message; below the top of the screen a change needs no scrolling.
            before: Its height before, in pixels.
            after: Its height now.
        """
        if slot.y() + before <= self._bar.value():
            self._owed_px += after - before

    def _scroll_to(self, slot: MessageSlot) -> None:
        down = self._found_in(slot) or 0
        height = self._area.viewport().height()
        # Scroll to the top of the message, unless the found words would then be out of sight.
        top = slot.y() - _ABOVE_WANTED_PX if down < height // 2 else slot.y() + down - height // 3
        self._bar.setValue(max(0, top))
        self._is_at_end = False
        self.moved.emit()

    def _end_arriving(self) -> None:
        """Forget the wanted message once it is in its place and stays there."""
        if self._wanted is None:
            return
        # On a slow machine, known heights may still wait for their layout.
        QCoreApplication.sendPostedEvents(None, int(QEvent.Type.LayoutRequest))
        before = self._bar.value()
        self._scroll_to(self._wanted)
        if self._arriving.isActive() or self._bar.value() != before:
            self._arriving.start()
        else:
            self.forget_wanted()

    def _notice_place(self, value: int) -> None:
        self._is_at_end = value >= self._bar.maximum() - _NEAR_END_PX
        self.moved.emit()

    def _keep_place(self, least: int, most: int) -> None:
        owed, self._owed_px = self._owed_px, 0
        if self._wanted is not None:
            self._arriving.start()  # heights still change, so wait again
            self._scroll_to(self._wanted)
        elif self._is_at_end:
            self._bar.setValue(most)
        elif owed:
            self._bar.setValue(self._bar.value() + owed)
        self.grown.emit()

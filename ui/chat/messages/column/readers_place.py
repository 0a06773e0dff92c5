"""The reader's place in the column of messages: at its end, at a wanted message, or elsewhere.

Main thread. Keeps a reader at the end while the column grows. For a reader elsewhere, scrolling
makes up for changed heights above the screen, so that the visible text stays; while the size or the
width of all text changes, the line at the top of the screen stays.
"""

from collections.abc import Callable

from PySide6.QtCore import QObject, QPoint, QTimer, Signal
from PySide6.QtGui import QTextCursor
from PySide6.QtWidgets import QScrollArea

from ui.chat.messages.column.message_slot import MessageSlot
from ui.chat.messages.column.slot_stack import SlotStack
from ui.kit.text.flow_text import FlowText

_NEAR_END_PX = 12
# A reader nearer to the end than this sees the last lines.
_END_SEEN_PX = 80
_ABOVE_WANTED_PX = 40
_ARRIVING_MS = 500


class ReadersPlace(QObject):
    """Scrolls a column for its reader.

    Signals:
        moved: Another part of the column is visible.
        grown: The height of the column has changed.
    """

    moved = Signal()
    grown = Signal()

    def __init__(
        self,
        area: QScrollArea,
        stack: SlotStack,
        found_in: Callable[[MessageSlot], int | None],
    ) -> None:
        super().__init__(area)
        self._area = area
        self._stack = stack
        self._found_in = found_in
        self._is_at_end = True
        self._is_scrolling = False
        # Where the column has to be scrolled to, as long as heights are not settled.
        self._wanted: Callable[[], int] | None = None
        self._arriving = QTimer(self, singleShot=True, interval=_ARRIVING_MS)
        self._arriving.timeout.connect(self.forget_wanted)
        self._bar = area.verticalScrollBar()
        self._bar.valueChanged.connect(self._notice_place)
        stack.laid_out.connect(self._keep_place)

    @property
    def is_end_seen(self) -> bool:
        """Whether the end of the column is on the screen, or nearly."""
        return self._is_at_end or self._bar.value() >= self._bar.maximum() - _END_SEEN_PX

    def go_to_end(self) -> None:
        """Scroll to the end of the column and stay there."""
        self.follow_end()
        self._scroll(self._bar.maximum())

    def follow_end(self) -> None:
        """Stay at the end of the column from now on."""
        self.forget_wanted()
        self._is_at_end = True

    def go_to(self, slot: MessageSlot) -> None:
        """Scroll to a message, and stay with it until the heights around it are settled."""
        self._want(lambda: self._top_for(slot))
        self._stack.lay_out()
        self._arrive()

    def hold(self) -> None:
        """Keep the line at the top of the screen there while sizes change."""
        if self._is_at_end or self._wanted is not None or not self._stack.slots:
            return
        slot = self._stack.slots[self._stack.first_at(self._bar.value())]
        self._want(self._line_in(slot) or self._share_of(slot))

    def forget_wanted(self) -> None:
        """Let the reader scroll freely."""
        self._arriving.stop()
        self._wanted = None

    # -- places ----------------------------------------------------------------------------

    def _top_for(self, slot: MessageSlot) -> int:
        """Return the place at which a message or the found words in it are seen."""
        down = self._found_in(slot) or 0
        height = self._area.viewport().height()
        # The top of the message, unless the found words would then be out of sight.
        return slot.top - _ABOVE_WANTED_PX if down < height // 2 else slot.top + down - height // 3

    def _line_in(self, slot: MessageSlot) -> Callable[[], int] | None:
        """Return where the text line at the top of the screen is; None if none is there."""
        view = slot.view
        if view is None:
            return None
        spot = QPoint(view.width() // 2, self._bar.value() - slot.top)
        part = view.childAt(spot)
        while part is not None and not isinstance(part, FlowText):
            part = part.parentWidget()
        if part is None:
            return None
        text, viewport = part, part.viewport()
        spot = viewport.mapFrom(view, spot)
        position = text.cursorForPosition(QPoint(0, spot.y())).position()

        def line() -> QPoint:
            cursor = QTextCursor(text.document())
            cursor.setPosition(min(position, text.document().characterCount() - 1))
            return text.cursorRect(cursor).topLeft()

        above = spot.y() - line().y()
        return lambda: slot.top + viewport.mapTo(view, line()).y() + above

    def _share_of(self, slot: MessageSlot) -> Callable[[], int]:
        """Return the place with as much of a message above the screen as now."""
        share = (self._bar.value() - slot.top) / max(1, slot.height)
        return lambda: slot.top + round(share * slot.height)

    # -- scrolling -------------------------------------------------------------------------

    def _want(self, place: Callable[[], int]) -> None:
        self._is_at_end = False
        self._wanted = place
        self._arriving.start()

    def _arrive(self) -> None:
        """Scroll to the wanted place; views that are made on the way change the heights again."""
        if self._wanted is not None:
            self._arriving.start()
            self._scroll(max(0, self._wanted()))

    def _scroll(self, value: int) -> None:
        is_at_end = self._is_at_end
        self._is_scrolling = True
        self._bar.setValue(value)
        self._is_scrolling = False
        self._is_at_end = is_at_end
        self.moved.emit()

    def _notice_place(self, value: int) -> None:
        """Follow a reader who scrolls."""
        if not self._is_scrolling and not self._stack.is_changing:
            self.forget_wanted()
            self._is_at_end = value >= self._bar.maximum() - _NEAR_END_PX
            self.moved.emit()

    def _keep_place(self, top: int) -> None:
        if self._wanted is not None:
            self._arrive()
        elif self._is_at_end:
            self._scroll(self._bar.maximum())
        else:
            self._scroll(top)
        self.grown.emit()

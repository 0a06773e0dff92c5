"""The slots of a conversation's messages, one below another, with the views near the screen.

Main thread. Knows the place of each message, but nothing about its content. Only views are laid
out; a slot without one is a number in a sum.
"""

from bisect import bisect_right
from collections.abc import Iterable

import shiboken6
from PySide6.QtCore import QCoreApplication, QEvent, QRectF, QTimer, Signal
from PySide6.QtGui import QColor, QPainter, QPaintEvent
from PySide6.QtWidgets import QWidget

from ui.chat.messages.answer_view import AnswerView
from ui.chat.messages.column.message_slot import MessageSlot
from ui.chat.messages.question_view import QuestionView
from ui.kit.look.theme import Theme
from ui.records.messages import ConversationMessage
from ui.records.runs import Run

_WIDEST_PX = 760
_LEAST_SIDE_PX = 26
_ABOVE_PX, _BELOW_PX, _BETWEEN_PX = 24, 18, 14
_MARKED_MS = 1600
# A view needs a round of layouts for each level of widgets whose height follows from their width.
_MOST_ROUNDS = 8


class SlotStack(QWidget):
    """The column of slots.

    Signals:
        laid_out: Heights changed, and all views have their places; carries the height in the column
            that has to be at the top of the screen for what is seen to stay there.
    """

    laid_out = Signal(int)

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self.setObjectName("scrolled")
        self.slots: list[MessageSlot] = []
        self.filled: set[MessageSlot] = set()
        self.marked: MessageSlot | None = None
        self.is_changing = False
        self._theme = theme
        self._line_px = self.fontMetrics().lineSpacing()
        self._side_px = _LEAST_SIDE_PX
        self._room_px = 0
        self._unmarking = QTimer(self, singleShot=True, interval=_MARKED_MS)
        self._unmarking.timeout.connect(lambda: self.mark(None))
        theme.changed.connect(self._estimate_again)

    # -- slots ------------------------------------------------------------------------------

    def add(self, messages: Iterable[ConversationMessage]) -> None:
        """Add an empty slot for each message at the end."""
        at = len(self.slots)
        self.slots += [MessageSlot(self._theme, one, self._line_px) for one in messages]
        self._place_from(at)

    def take_from(self, index: int) -> None:
        """Remove the slots from an index on."""
        gone, self.slots = self.slots[index:], self.slots[:index]
        for slot in gone:
            self.empty(slot)
            if slot is self.marked:
                self.mark(None)
        self._place_from(index)

    def fill(self, slot: MessageSlot, view: QuestionView | AnswerView) -> None:
        """Show the view of a message, a child of the stack; ``lay_out`` gives it its height."""
        slot.view = view
        self.filled.add(slot)
        # Laid out at its final width from the start, so that its height is right at once.
        view.setGeometry(self._side_px, slot.top, self._inner_px, slot.height)
        view.show()

    def empty(self, slot: MessageSlot, *, now: bool = False) -> None:
        """Drop the view of a message, if it has one; the slot keeps its height."""
        view, slot.view = slot.view, None
        self.filled.discard(slot)
        if view is not None and now:
            shiboken6.delete(view)
        elif view is not None:
            view.hide()
            view.deleteLater()

    def slot_of(self, message: ConversationMessage) -> MessageSlot | None:
        """Return the slot of a message; None for a message that is not shown."""
        return next((slot for slot in reversed(self.slots) if slot.message is message), None)

    def slot_of_run(self, run: Run) -> MessageSlot | None:
        """Return the slot of a run's answer; None for an answer that is not shown."""
        return next((slot for slot in reversed(self.slots) if slot.message.run is run), None)

    def first_at(self, top: int) -> int:
        """Return the index of the slot at a height; 0 above the first one."""
        return max(0, bisect_right(self.slots, top, key=lambda slot: slot.top) - 1)

    def within(self, top: int, bottom: int) -> list[MessageSlot]:
        """Return the slots that are at least partly between two heights."""
        last = bisect_right(self.slots, bottom, key=lambda slot: slot.top)
        return self.slots[self.first_at(top) : last]

    def mark(self, slot: MessageSlot | None) -> None:
        """Highlight a whole message for a moment, or none."""
        self.marked = slot
        self.update()
        if slot is not None:
            self._unmarking.start()

    # -- layout -----------------------------------------------------------------------------

    def fit(self, width: int, height: int) -> None:
        """Center the slots in the visible part of the column, no wider than is readable."""
        self._side_px = max(_LEAST_SIDE_PX, (width - self._theme.px(_WIDEST_PX)) // 2)
        self._room_px = height
        if width != self.width():
            self.resize(width, self.height())
        self._take_heights()
        self.lay_out()

    def lay_out(self) -> None:
        """Give each view its height and its place now."""
        for _ in range(_MOST_ROUNDS):
            QCoreApplication.sendPostedEvents(None, int(QEvent.Type.LayoutRequest))
            if all(slot.height == _height_of(slot.view, self._inner_px) for slot in self.filled):
                break
            self._take_heights()

    def event(self, event: QEvent) -> bool:
        """Follow the heights that views want."""
        if event.type() == QEvent.Type.LayoutRequest:
            self._take_heights()
        return super().event(event)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the highlight."""
        if self.marked is not None:
            painter = QPainter(self)
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.setPen(QColor(self._theme.colors.accent))
            painter.setBrush(QColor(self._theme.colors.accent_soft))
            top, height = self.marked.top, self.marked.height
            area = QRectF(self._side_px, top, self._inner_px, height)
            painter.drawRoundedRect(area.adjusted(0.5, 0.5, -0.5, -0.5), 10, 10)
            painter.end()

    @property
    def _inner_px(self) -> int:
        return max(0, self.width() - 2 * self._side_px)

    def _take_heights(self) -> None:
        """Read the heights that views want, and move what is below them."""
        seen_px = keep_px = -self.y()
        changed: list[int] = []
        for slot in self.filled:
            height = _height_of(slot.view, self._inner_px)
            if height != slot.height:
                changed.append(slot.top)
                # Whatever happens above the screen, what is seen stays.
                if slot.top + slot.height <= seen_px:
                    keep_px += height - slot.height
                slot.height = height
        self._place_from(self.first_at(min(changed)) if changed else len(self.slots), keep_px)

    def _place_from(self, index: int, keep_px: int | None = None) -> None:
        """Place the slots from an index on, whose heights or number changed."""
        keep_px = -self.y() if keep_px is None else keep_px
        top = _ABOVE_PX
        if index > 0 and self.slots:
            before = self.slots[index - 1]
            top = before.top + before.height + _BETWEEN_PX
        for slot in self.slots[index:]:
            slot.top = top
            top += slot.height + _BETWEEN_PX
        self.is_changing = True
        for slot in self.filled:
            if slot.view is not None:
                slot.view.setGeometry(self._side_px, slot.top, self._inner_px, slot.height)
        height = max(self._room_px, top - _BETWEEN_PX + _BELOW_PX)
        is_new = height != self.height() or keep_px != -self.y()
        self.resize(self.width(), height)
        self.is_changing = False
        if is_new:
            self.laid_out.emit(keep_px)

    def _estimate_again(self) -> None:
        """Give the slots without views the heights of text in its new size."""
        line_px, before_px = self.fontMetrics().lineSpacing(), self._line_px
        if line_px == before_px:
            return
        self._line_px = line_px
        for slot in self.slots:
            if slot.view is None:
                slot.height = round(slot.height * line_px / before_px)
        self._place_from(0)


def _height_of(view: QWidget | None, width: int) -> int:
    """Return the height that a view needs."""
    layout = None if view is None else view.layout()
    if layout is None:
        return 0
    if layout.hasHeightForWidth():
        return layout.totalHeightForWidth(width)
    return layout.totalSizeHint().height()

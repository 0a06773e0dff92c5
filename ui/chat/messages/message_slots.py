"""The places of a conversation's messages, with the views near the screen. Main thread."""

from bisect import bisect_right
from collections.abc import Iterable

import shiboken6
from PySide6.QtCore import QCoreApplication, QEvent, QObject, QRectF, QTimer, Signal
from PySide6.QtGui import QColor, QPainter, QPaintEvent
from PySide6.QtWidgets import QApplication, QScrollArea, QWidget

from ui.chat.messages.answer_view import AnswerView
from ui.chat.messages.question_view import QuestionView
from ui.kit.flow_text import Highlight, mark_parts, unfold_match
from ui.kit.theme import current_theme
from ui.records.conversations import ReadingPosition
from ui.records.messages import ConversationMessage
from ui.records.runs import Run

# A slot is no widget: thousands of messages far from the screen cost no more than their numbers.

_MIN_SIDE_PX = 26
_BELOW_QUESTION_PX, _BELOW_ANSWER_PX = 14, 4  # the foot of an answer is mostly not drawn
_NEAR_SCREENS = 0.75  # views nearer to the screen than this are created in advance


class MessageSlot:
    """A message's place in the column."""

    __slots__ = ("_highlight", "height", "message", "top", "view")

    def __init__(self, message: ConversationMessage, line_px: int) -> None:
        self.message = message
        self.view: QuestionView | AnswerView | None = None
        self.top = 0
        self.height = estimated_height(message, line_px)
        self._highlight = Highlight()

    @property
    def gap_px(self) -> int:
        """The room between the message and the next."""
        return _BELOW_QUESTION_PX if self.message.role == "user" else _BELOW_ANSWER_PX

    @property
    def can_be_emptied(self) -> bool:
        """Whether the view is not in use, and the message no longer grows."""
        if self.view is None:
            return False
        focused = QApplication.focusWidget()
        is_used = focused is not None and self.view.isAncestorOf(focused)
        return self.message.is_settled and not is_used and self.view.editor is None

    def highlight(self, target: Highlight) -> int | None:
        """Highlight terms; return the distance of the current or first match from the top."""
        had_terms = bool(self._highlight.terms)
        self._highlight = target
        if self.view is None or not (target.terms or had_terms):
            return None
        return mark_parts(self.view.searched_parts(), target, self.view)

    def find(self) -> int | None:
        """Highlight the same terms again, because the layout changed."""
        return self.highlight(self._highlight)

    def unfold_match(self, target: Highlight) -> None:
        """Unfold the part with the current place: thinking, a result, a file."""
        if self.view is not None:
            unfold_match(self.view.searched_parts(), target)


def estimated_height(message: ConversationMessage, line_px: int) -> int:
    """Return an estimate of a message's height, in pixels, before it is laid out."""
    text = message.content if message.run is not None else message.typed
    lines = 1 + text.count("\n") + len(text) // 88
    if message.attached_chars:
        lines += 2 * len(message.files)
    around_px = 22 if message.run is None else 54  # a bubble's edge; the line below an answer
    return round(lines * line_px * 1.2) + around_px


class MessageList(QWidget):
    """The column of slots."""

    laid_out = Signal(int)  # scroll position at which the visible text does not move

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("scrolled")
        self.slots: list[MessageSlot] = []
        self.filled: set[MessageSlot] = set()
        self.marked: MessageSlot | None = None
        self.is_changing = False
        self.setFont(current_theme().message_font())
        self._line_px = self.fontMetrics().lineSpacing()
        self._side_px = _MIN_SIDE_PX
        self._inner_px = 0
        self._visible_px = 0
        self._unmarking = QTimer(self, singleShot=True, interval=1600)
        self._unmarking.timeout.connect(lambda: self.mark(None))
        current_theme().changed.connect(self._zoom)

    # -- slots ------------------------------------------------------------------------------

    def add(self, messages: Iterable[ConversationMessage]) -> None:
        at = len(self.slots)
        self.slots += [MessageSlot(message, self._line_px) for message in messages]
        self._position_from(at)

    def take_from(self, index: int) -> None:
        removed, self.slots = self.slots[index:], self.slots[:index]
        for slot in removed:
            self.empty(slot)
            if slot is self.marked:
                self.mark(None)
        self._position_from(index)

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
        if view is not None:
            # The mouse leaves it while all its parts exist: event filters use them.
            view.hide()
            if now:
                shiboken6.delete(view)
            else:
                view.deleteLater()

    def slot_of(self, message: ConversationMessage) -> MessageSlot | None:
        return next((slot for slot in reversed(self.slots) if slot.message is message), None)

    def slot_of_run(self, run: Run) -> MessageSlot | None:
        return next((slot for slot in reversed(self.slots) if slot.message.run is run), None)

    def first_at(self, top: int) -> int:
        """Return the index of the slot at a height; 0 above the first one."""
        return max(0, bisect_right(self.slots, top, key=lambda slot: slot.top) - 1)

    def within(self, top: int, bottom: int) -> list[MessageSlot]:
        """Return the slots that are at least partly between two heights."""
        last = bisect_right(self.slots, bottom, key=lambda slot: slot.top)
        return self.slots[self.first_at(top) : last]

    def mark(self, slot: MessageSlot | None) -> None:
        self.marked = slot
        self.update()
        if slot is not None:
            self._unmarking.start()

    # -- layout -----------------------------------------------------------------------------

    def fit(self, width: int, height: int, bar_px: int = 0) -> None:
        """Center the slots in the visible part of the column, no wider than is readable."""
        available_px = width + bar_px
        self._inner_px = min(current_theme().column_px(), max(0, available_px - 2 * _MIN_SIDE_PX))
        # Where the room has an odd pixel, it is at the left, as beside the message field.
        self._side_px = max(_MIN_SIDE_PX, (available_px - self._inner_px + 1) // 2)
        self._visible_px = height
        if width != self.width():
            self.resize(width, self.height())
        self._take_heights()
        self.lay_out()

    def lay_out(self) -> None:
        """Give each view its height and its place now, unless all is being restyled."""
        if current_theme().is_changing:
            return
        for _ in range(8):  # at most one for each level of nested wrapping layouts
            # Only its own parts, the inner ones first: the window may be laying out this column.
            for part in reversed([self, *self.findChildren(QWidget)]):
                QCoreApplication.sendPostedEvents(part, int(QEvent.Type.LayoutRequest))
            if all(slot.height == _height_of(slot.view, self._inner_px) for slot in self.filled):
                break
            self._take_heights()

    def event(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.LayoutRequest:
            self._take_heights()
        return super().event(event)

    def paintEvent(self, event: QPaintEvent) -> None:
        theme = current_theme()
        if self.marked is not None:
            painter = QPainter(self)
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.setPen(QColor(theme.colors.accent))
            painter.setBrush(QColor(theme.colors.accent_soft))
            top, height = self.marked.top, self.marked.height
            area = QRectF(self._side_px, top, self._inner_px, height)
            painter.drawRoundedRect(area.adjusted(0.5, 0.5, -0.5, -0.5), 10, 10)
            painter.end()

    def _take_heights(self) -> None:
        """Read the heights of the views, and move the slots below them."""
        seen_px = keep_px = -self.y()
        changed: list[int] = []
        for slot in self.filled:
            height = _height_of(slot.view, self._inner_px)
            if height != slot.height:
                changed.append(slot.top)
                # A change above the screen does not move the visible text.
                if slot.top + slot.height <= seen_px:
                    keep_px += height - slot.height
                slot.height = height
        self._position_from(self.first_at(min(changed)) if changed else len(self.slots), keep_px)

    def _position_from(self, index: int, keep_px: int | None = None) -> None:
        """Place the slots from an index on, whose heights or number changed."""
        keep_px = -self.y() if keep_px is None else keep_px
        top = 24
        if index > 0 and self.slots:
            before = self.slots[index - 1]
            top = before.top + before.height + before.gap_px
        for slot in self.slots[index:]:
            slot.top = top
            top += slot.height + slot.gap_px
        self.is_changing = True
        for slot in self.filled:
            if slot.view is not None:
                slot.view.setGeometry(self._side_px, slot.top, self._inner_px, slot.height)
        gap_px = self.slots[-1].gap_px if self.slots else 0
        height = max(self._visible_px, top - gap_px + 18)
        is_new = height != self.height() or keep_px != -self.y()
        self.resize(self.width(), height)
        self.is_changing = False
        if is_new:
            self.laid_out.emit(keep_px)

    def _zoom(self) -> None:
        """Give the views the font of messages, and scale the estimated heights."""
        self.setFont(current_theme().message_font())
        line_px, before_px = self.fontMetrics().lineSpacing(), self._line_px
        if line_px == before_px:
            return
        self._line_px = line_px
        for slot in self.slots:
            if slot.view is None:
                slot.height = round(slot.height * line_px / before_px)
        self._position_from(0)


def _height_of(view: QWidget | None, width: int) -> int:
    """Return the height that a view needs."""
    layout = None if view is None else view.layout()
    if layout is None:
        return 0
    if layout.hasHeightForWidth():
        return layout.totalHeightForWidth(width)
    return layout.totalSizeHint().height()


class ViewportCache(QObject):
    """The views of the messages near the screen.

    Visible ones are created at once, near ones later, one in each round of the event loop.
    """

    view_needed = Signal(object)  # MessageSlot, which is then filled

    def __init__(self, area: QScrollArea, stack: MessageList) -> None:
        super().__init__(area)
        self._area = area
        self._stack = stack
        self._is_filling = False
        self._failed: set[MessageSlot] = set()
        self._filling = QTimer(self, singleShot=True, interval=0)
        self._filling.timeout.connect(self._fill_next)

    def fill(self, slot: MessageSlot) -> None:
        if slot.view is None:
            self.view_needed.emit(slot)
            # A view that cannot be built is not built again and again.
            self._failed = {slot, *self._failed} if slot.view is None else self._failed - {slot}

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
        self._drop_beyond(1.75)
        self._is_filling = False
        if self._empty_within(_NEAR_SCREENS):
            self._filling.start()

    def drop_unseen(self) -> None:
        """Drop the views beyond the screen: all that is left is going to be laid out again."""
        self._drop_beyond(0, now=True)

    def _fill_next(self) -> None:
        seen_px = self._area.verticalScrollBar().value() + self._area.viewport().height() // 2
        empty = self._empty_within(_NEAR_SCREENS)
        if empty and self._area.isVisible():
            self.fill(min(empty, key=lambda slot: abs(slot.top + slot.height // 2 - seen_px)))
            self._stack.lay_out()
            self.fill_near()

    def _empty_within(self, screens: float) -> list[MessageSlot]:
        near = self._near(screens)
        return [slot for slot in near if slot.view is None and slot not in self._failed]

    def _drop_beyond(self, screens: float, *, now: bool = False) -> None:
        kept = set(self._near(screens))
        for slot in [
            filled for filled in self._stack.filled if filled not in kept and filled.can_be_emptied
        ]:
            self._stack.empty(slot, now=now)

    def _near(self, screens: float) -> list[MessageSlot]:
        top, height = self._area.verticalScrollBar().value(), self._area.viewport().height()
        around = round(height * screens)
        return self._stack.within(top - around, top + height + around)


# Keeps a reader at the end while the column grows. For a reader elsewhere, scrolling makes up for
# changed heights above the screen, so that the visible text stays; while the size or the width of
# all text changes, the message at the top of the screen stays.


class ScrollAnchor(QObject):
    """Scrolls a column for its reader."""

    moved = Signal()
    grown = Signal()

    def __init__(self, area: QScrollArea, stack: MessageList) -> None:
        super().__init__(area)
        self._area = area
        self._stack = stack
        self._is_at_end = True
        self._is_scrolling = False
        # The message to scroll to until heights are settled, and its share above the screen; None
        # for its top or its first highlight.
        self._target: tuple[MessageSlot, float | None] | None = None
        self._arriving = QTimer(self, singleShot=True, interval=500)
        self._arriving.timeout.connect(self.release)
        self._bar = area.verticalScrollBar()
        self._bar.valueChanged.connect(self._on_scroll)
        stack.laid_out.connect(self._keep_anchor)

    @property
    def is_end_seen(self) -> bool:
        """Whether the end of the column is on the screen, or nearly."""
        return self._is_at_end or self._bar.value() >= self._bar.maximum() - 80

    def go_to_end(self) -> None:
        self.follow_end()
        self._scroll(self._bar.maximum())

    def follow_end(self) -> None:
        self.release()
        self._is_at_end = True

    def keep_end(self) -> None:
        """Scroll to the end again for a reader who is there: the screen changed its height."""
        if self._is_at_end:
            self._scroll(self._bar.maximum())

    def go_to(self, slot: MessageSlot, share: float | None = None) -> None:
        """Scroll to a message, or to where a share of it was above the screen."""
        self._aim(slot, share)
        self._stack.lay_out()
        self._arrive()

    def current_position(self) -> ReadingPosition | None:
        """Return which message is at the top of the screen, and how much of it is above."""
        if self._is_at_end or not self._stack.slots:
            return None
        slot, share = self._first_seen()
        return slot.message.id, min(max(share, 0.0), 1.0)

    def hold(self) -> None:
        """Keep the same text at the top of the screen while sizes change."""
        if not self._is_at_end and self._target is None and self._stack.slots:
            self._aim(*self._first_seen())

    def _first_seen(self) -> tuple[MessageSlot, float]:
        slot = self._stack.slots[self._stack.first_at(self._bar.value())]
        return slot, (self._bar.value() - slot.top) / max(1, slot.height)

    def release(self) -> None:
        self._arriving.stop()
        self._target = None

    # -- scrolling -------------------------------------------------------------------------

    def _aim(self, slot: MessageSlot, share: float | None) -> None:
        self._is_at_end = False
        self._target = slot, share
        self._arriving.start()

    def _arrive(self) -> None:
        """Scroll to the target; views that are made on the way change the heights again."""
        if self._target is None:
            return
        self._arriving.start()
        slot, share = self._target
        height = self._area.viewport().height()
        if share is not None:
            top = slot.top + round(share * slot.height)
        elif (down := slot.find() or 0) < height // 2:
            top = slot.top - 40
        else:  # the highlight would be out of sight
            top = slot.top + down - height // 3
        self._scroll(max(0, top))

    def _scroll(self, value: int) -> None:
        is_at_end = self._is_at_end
        self._is_scrolling = True
        self._bar.setValue(value)
        self._is_scrolling = False
        self._is_at_end = is_at_end
        self.moved.emit()

    def _on_scroll(self, value: int) -> None:
        if not self._is_scrolling and not self._stack.is_changing:
            self.release()
            self._is_at_end = value >= self._bar.maximum() - 12
            self.moved.emit()

    def _keep_anchor(self, top: int) -> None:
        if self._target is not None:
            self._arrive()
        elif self._is_at_end:
            self._scroll(self._bar.maximum())
        else:
            self._scroll(top)
        self.grown.emit()

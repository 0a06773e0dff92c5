"""The scrolling column of a conversation's messages. Main thread.

Only messages near the screen have views; the others keep their height.
``ui.chat.messages.column.readers_place`` scrolls for the reader.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence

from PySide6.QtCore import QCoreApplication, QEvent, Qt, QTimer, Signal, SignalInstance
from PySide6.QtGui import QResizeEvent, QWheelEvent
from PySide6.QtWidgets import (
    QApplication,
    QButtonGroup,
    QFrame,
    QScrollArea,
    QVBoxLayout,
    QWidget,
)

from ui.chat.messages.answer_view import AnswerView
from ui.chat.messages.column.jump_button import JumpButton
from ui.chat.messages.column.message_slot import MessageSlot
from ui.chat.messages.column.query import Query
from ui.chat.messages.column.readers_place import ReadersPlace
from ui.chat.messages.question_view import QuestionView
from ui.chat.session.open_conversation import OpenConversation
from ui.kit.look.theme import Theme
from ui.records.messages import ConversationMessage
from ui.records.runs import Run

_WIDEST_PX = 760
_LEAST_SIDE_PX = 26
# In heights of the screen: views are made this near to it, and given up beyond.
_MADE_WITHIN, _KEPT_WITHIN = 0.75, 3.0
_RETRY_MS = 20


class MessageColumn(QScrollArea):
    """Shows messages.

    Signals:
        view_made: A message near the screen has a view now; carries the ``QuestionView`` or
            ``AnswerView``, whose signals say what a person wants.

    Attributes:
        jump: The button that leads to the end while that is out of sight.
    """

    view_made = Signal(object)

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self._theme = theme
        theme.changed.connect(self._fit_sides)
        self._opened: OpenConversation | None = None
        self._slots: list[MessageSlot] = []
        self._filled: set[MessageSlot] = set()
        self._shown_run: Run | None = None
        self._found: tuple[ConversationMessage, tuple[str, ...]] | None = None
        self._query: Query | None = None
        self._current: tuple[ConversationMessage, int] | None = None
        self._reasons = QButtonGroup(self)
        self.setWidgetResizable(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setAccessibleName("Messages")
        self._inner = QWidget()
        self._inner.setObjectName("scrolled")
        self._layout = QVBoxLayout(self._inner)
        self._layout.setSpacing(14)
        self._layout.addStretch(1)
        self.setWidget(self._inner)
        self._filling = QTimer(self, singleShot=True)
        self._filling.timeout.connect(self._lay_out_and_fill)
        self._place = ReadersPlace(self, self._show_found)
        self.jump = JumpButton(theme, self)
        self.jump.clicked.connect(self.jump_to_latest)
        self._place.moved.connect(self._fill_near)
        self._place.moved.connect(self._show_place)
        self._place.grown.connect(self._show_place)
        theme.changed.connect(self._mark_again)

    # -- what is shown ---------------------------------------------------------------------

    def show_conversation(self, opened: OpenConversation) -> None:
        """Show another conversation's messages, the last ones first."""
        if self._opened is not None:
            for signal, slot in self._connections(self._opened):
                signal.disconnect(slot)
        self._opened = opened
        self._found = None
        self._remove_from(0)
        self._place.follow_end()
        self._add_all(opened.conversation.messages)
        self._filling.start(0)
        for signal, slot in self._connections(opened):
            signal.connect(slot)

    def show_run(self, run: Run | None) -> None:
        """Mark the answer that the stop panel shows."""
        self._shown_run = run
        for slot in self._slots:
            if isinstance(slot.view, AnswerView):
                slot.view.mark_shown(slot.message.run is run)

    def show_message(self, message: ConversationMessage, words: Sequence[str] = ()) -> None:
        """Scroll to a message and mark words in it, or the message where it shows none of them."""
        self.forget_found()
        slot = next((slot for slot in self._slots if slot.message is message), None)
        if slot is None:
            return
        self._fill(slot)
        self._found = message, tuple(words)
        if slot.show_found(words) is None:
            slot.mark()
        self._place.go_to(slot)

    def jump_to_latest(self) -> None:
        """Scroll to the end, and stay there while it grows."""
        self._place.go_to_end()

    def forget_found(self) -> None:
        """Take the marks of found words away."""
        self._found = None
        self._mark_again()

    def show_query(
        self, query: Query | None, current: tuple[ConversationMessage, int] | None = None
    ) -> None:
        """Mark what was looked for in every message.

        Args:
            query: What was looked for; None takes the marks away.
            current: The message, and which of its places, that is marked as the present one.
        """
        self._found, self._query, self._current = None, query, current
        self._mark_again()

    def go_to_message(self, message: ConversationMessage) -> None:
        """Scroll to a message, or to the marked place in it, and unfold what holds that."""
        slot = next((slot for slot in self._slots if slot.message is message), None)
        if slot is not None:
            self._fill(slot)
            if self._query is not None and self._current is not None:
                current = self._current[1] if self._current[0] is message else None
                slot.unfold_place(self._query.highlight(self._theme.colors, current))
            self._place.go_to(slot)

    @property
    def first_seen(self) -> int:
        """The number of the first message that is on the screen."""
        top = self.verticalScrollBar().value()
        return max(0, bisect_right(self._slots, top, key=MessageSlot.y) - 1)

    @property
    def views(self) -> list[QuestionView | AnswerView]:
        """The messages that have views now, from the first to the last."""
        found = (slot.view for slot in self._slots)
        return [one for one in found if isinstance(one, QuestionView | AnswerView)]

    def answer_view(self, run: Run) -> AnswerView | None:
        """Return the view of a run's answer, None while it is far from the screen."""
        for slot in reversed(self._slots):
            if slot.message.run is run:
                return slot.view if isinstance(slot.view, AnswerView) else None
        return None

    def question_view(self, message: ConversationMessage) -> QuestionView | None:
        """Return the view of a question, made if it is far from the screen."""
        for slot in reversed(self._slots):
            if slot.message is message:
                self._fill(slot)
                return slot.view if isinstance(slot.view, QuestionView) else None
        return None

    def focusNextPrevChild(self, is_next: bool) -> bool:  # noqa: N802 - Qt's name
        """Move the focus by Tab, and scroll only to what has it then.

        Qt's own way also follows the focus that a button loses when it is switched off or goes
        away: it scrolls to whatever had the focus here before.
        """
        if not QWidget.focusNextPrevChild(self, is_next):
            return False
        focused = QApplication.focusWidget()
        if focused is not None and self.isAncestorOf(focused):
            self.ensureWidgetVisible(focused)
        return True

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Keep the column in the middle and no wider than is good to read."""
        super().resizeEvent(event)
        self._fit_sides()
        self._fill_near()
        self.jump.place()

    def _fit_sides(self) -> None:
        widest = self._theme.px(_WIDEST_PX)
        side = max(_LEAST_SIDE_PX, (self.viewport().width() - widest) // 2)
        self._layout.setContentsMargins(side, 24, side, 18)

    # -- slots -----------------------------------------------------------------------------

    def _add_all(self, messages: list[ConversationMessage]) -> None:
        self._inner.setUpdatesEnabled(False)
        for message in messages:
            slot = MessageSlot(self._theme, message)
            slot.height_changed.connect(self._notice_height)
            self._slots.append(slot)
            self._layout.insertWidget(self._layout.count() - 1, slot)
        # Whoever comes to a conversation sees its end; the views above are made when needed.
        room = self.viewport().height()
        for slot in reversed(self._slots):
            if room < 0:
                break
            self._fill(slot)
            room -= slot.sizeHint().height()
        self._inner.setUpdatesEnabled(True)

    def _remove_from(self, index: int) -> None:
        self._place.forget_wanted()
        gone, self._slots = self._slots[index:], self._slots[:index]
        for slot in gone:
            slot.empty()
            self._filled.discard(slot)
            self._layout.removeWidget(slot)
            slot.hide()
            slot.deleteLater()

    def _fill_near(self) -> None:
        """Make the views that are near the screen, and give up those that are far."""
        if not self._is_laid_out:
            # Crowded together, all slots would be near, and would keep heights that are wrong.
            self._filling.start(0)
            return
        top, height = self.verticalScrollBar().value(), self.viewport().height()
        made, kept = round(height * _MADE_WITHIN), round(height * _KEPT_WITHIN)
        for slot in self._slots_within(top - made, top + height + made):
            self._fill(slot)
        near = set(self._slots_within(top - kept, top + height + kept))
        for slot in self._filled - near:
            if slot.can_be_emptied:
                slot.empty()
                self._filled.discard(slot)

    @property
    def _is_laid_out(self) -> bool:
        """Whether the slots are below one another, each as high as it has to be."""
        if len(self._slots) > 1 and self._slots[-1].y() <= self._slots[0].y():
            return False
        return self._inner.height() >= self._inner.minimumSizeHint().height()

    def _lay_out_and_fill(self) -> None:
        """Give all slots their places now, and make the views near the screen."""
        if self.isVisible():
            # The column lays out its slots first, and only then becomes as high as they are.
            QCoreApplication.sendPostedEvents(None, int(QEvent.Type.LayoutRequest))
            if self._is_laid_out:
                self._fill_near()
            else:
                self._filling.start(_RETRY_MS)

    def _notice_height(self, slot: MessageSlot, before: int, after: int) -> None:
        self._place.owe(slot, before, after)
        if after < before:
            # A message that takes less room leaves some to those above it, and where nothing
            # is to be scrolled, nothing else would make their views.
            self._filling.start(0)

    def _slots_within(self, top: int, bottom: int) -> list[MessageSlot]:
        first = bisect_right(self._slots, top, key=MessageSlot.y) - 1
        last = bisect_right(self._slots, bottom, key=MessageSlot.y)
        return self._slots[max(first, 0) : last]

    def _fill(self, slot: MessageSlot) -> None:
        if slot.view is not None or self._opened is None:
            return
        message = slot.message
        view: QuestionView | AnswerView
        if message.run is None:
            view = QuestionView(self._theme, message)
        else:
            view = AnswerView(self._theme, message, self._reasons)
            view.mark_shown(message.run is self._shown_run)
        versions = self._opened.conversation.tree.versions(message)
        view.action_row.show_versions(versions.index(message) + 1, len(versions))
        view.show_busy(self._opened.session.is_running)
        slot.fill(view)
        self._filled.add(slot)
        self._show_found(slot)
        self.view_made.emit(view)

    def _show_found(self, slot: MessageSlot) -> int | None:
        """Mark the words that were searched for, and return how far down the first one is."""
        if self._query is not None:
            message, place = self._current or (None, None)
            current = place if slot.message is message else None
            return slot.highlight(self._query.highlight(self._theme.colors, current))
        if self._found is None or slot.message is not self._found[0]:
            return None
        return slot.show_found(self._found[1])

    def _mark_again(self) -> None:
        for slot in self._filled:
            if self._query is None and self._found is None:
                slot.show_found(())
            else:
                self._show_found(slot)

    # -- what the session tells ------------------------------------------------------------

    def _connections(
        self, opened: OpenConversation
    ) -> Iterator[tuple[SignalInstance, Callable[..., None]]]:
        session = opened.session
        yield session.message_appended, self._append
        yield session.path_changed, self._show_from
        yield session.text_appended, self._append_text
        yield session.thinking_appended, self._append_thinking
        yield session.run_changed, self._refresh
        yield session.run_finished, self._refresh
        yield session.is_running_changed, self._show_busy

    def _append(self, message: ConversationMessage) -> None:
        if message.role == "user":
            self._place.follow_end()  # whoever sends wants to see the answer
        self._add_all([message])
        self._fill(self._slots[-1])

    def _show_from(self, index: int) -> None:
        """Show other versions of the messages from an index on."""
        if self._opened is not None:
            self._remove_from(index)
            self._add_all(self._opened.conversation.messages[index:])
            self._fill_near()

    def _show_place(self) -> None:
        self.jump.show_place(self._place.is_end_seen)

    def _append_text(self, run: Run, text: str) -> None:
        self.jump.tell_of_news()
        if (view := self.answer_view(run)) is not None:
            view.append_text(text)

    def _append_thinking(self, run: Run, text: str) -> None:
        self.jump.tell_of_news()
        if (view := self.answer_view(run)) is not None:
            view.append_thinking(text)

    def _refresh(self, run: Run) -> None:
        if (view := self.answer_view(run)) is not None:
            view.refresh()

    def _show_busy(self, is_busy: bool) -> None:
        for slot in self._slots:
            if isinstance(slot.view, QuestionView | AnswerView):
                slot.view.show_busy(is_busy)

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Let the reader go where they want."""
        self._place.forget_wanted()
        super().wheelEvent(event)

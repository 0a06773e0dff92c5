"""The scrolling column of a conversation's messages. Main thread."""

from collections.abc import Sequence
from dataclasses import replace

from PySide6.QtCore import QPointF, QSize, Qt, QTimer, Signal
from PySide6.QtGui import (
    QPainter,
    QPaintEvent,
    QResizeEvent,
    QShowEvent,
    QWheelEvent,
)
from PySide6.QtWidgets import QApplication, QButtonGroup, QFrame, QPushButton, QScrollArea, QWidget

from ui.chat.messages.answer_view import AnswerView
from ui.chat.messages.message_slots import MessageList, MessageSlot, ScrollAnchor, ViewportCache
from ui.chat.messages.question_view import QuestionView
from ui.chat.session.conversation_controller import ConversationController
from ui.kit.buttons import with_keys
from ui.kit.flow_text import Highlight
from ui.kit.following import Following
from ui.kit.icon_engine import themed_icon
from ui.kit.motion import edge_fade
from ui.kit.theme import current_theme, restyle
from ui.records.messages import ConversationMessage
from ui.records.prompt_fit import last_left_out
from ui.records.runs import LeftOut, Run


class JumpButton(QPushButton):
    """Floats at the bottom of its parent while the end is out of sight.

    Its shortcut belongs to the menu; clicking it does not move the focus.
    """

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._around = parent
        self.has_news = False  # text was added below the visible part
        self.setProperty("kind", "jump")
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setIconSize(QSize(15, 15))
        self._refresh_label()
        self.hide()

    def show_match(self, is_end_seen: bool) -> None:
        """Show the button, or hide it once the reader is at the end."""
        if is_end_seen:
            self._set_news(has_news=False)
        if self.isHidden() != is_end_seen:
            self.setVisible(not is_end_seen)
            self.raise_()

    def note_new_text(self) -> None:
        if not self.isHidden():
            self._set_news(has_news=True)

    def move_to_bottom(self) -> None:
        around = self._around
        size = self.sizeHint()
        self.resize(size)
        self.move(
            (around.width() - size.width()) // 2,
            around.height() - size.height() - 12,
        )

    def _set_news(self, has_news: bool) -> None:
        if has_news != self.has_news:
            self.has_news = has_news
            restyle(self, "has_news", has_news)
            self._refresh_label()

    def _refresh_label(self) -> None:
        text = "New Messages" if self.has_news else "Scroll to Bottom"
        self.setText(f"\u2009{text}")
        self.setAccessibleName("New text below: jump to the latest" if self.has_news else text)
        self.setToolTip(with_keys("Jump to the latest message", "Ctrl+J"))
        self.setIcon(themed_icon("down", "on_accent" if self.has_news else "muted"))
        self.move_to_bottom()


class BottomFade(QWidget):
    """Lets the text fade at the bottom edge while it goes on below."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.hide()

    def paintEvent(self, event: QPaintEvent) -> None:
        end, canvas = QPointF(0, self.height()), current_theme().colors.canvas
        painter = QPainter(self)
        painter.fillRect(self.rect(), edge_fade(end, QPointF(), canvas))
        painter.end()


class MessageColumn(QScrollArea):
    """Shows messages."""

    view_made = Signal(object)  # QuestionView or AnswerView
    position_changed = Signal(object)  # Conversation

    def __init__(self) -> None:
        super().__init__()
        theme = current_theme()
        self._opened: ConversationController | None = None
        self._following = Following()
        self._shown_run: Run | None = None
        self._has_marks = False
        self._shown_left_out: LeftOut | None = None
        self._has_moved = False
        self._reasons = QButtonGroup(self)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setAccessibleName("Messages")
        self._stack = MessageList()
        self.setWidget(self._stack)
        # The searched terms, the only message where they are highlighted (None for all), and the
        # current match with its message.
        self._search = Highlight()
        self._searched_in: ConversationMessage | None = None
        self._current: tuple[ConversationMessage, int] | None = None
        self._anchor = ScrollAnchor(self, self._stack)
        self._near = ViewportCache(self, self._stack)
        self._near.view_needed.connect(self._make_view)
        self._fade = BottomFade(self)
        self.jump = JumpButton(self)
        self.jump.clicked.connect(self.jump_to_latest)
        self._anchor.moved.connect(self._near.fill_near)
        self._anchor.moved.connect(self._refresh_jump)
        self._reading = QTimer(self, singleShot=True, interval=600)
        self._reading.timeout.connect(self.save_position)
        self._anchor.moved.connect(self._note_move)
        self._anchor.moved.connect(self._pin_heads)
        self._anchor.grown.connect(self._refresh_jump)
        theme.changing.connect(self._anchor.hold)
        theme.changing.connect(self._near.drop_unseen)
        theme.changed.connect(self._fit)
        theme.changed.connect(self._highlight_all)

    # -- the conversation ------------------------------------------------------------------

    def show_conversation(self, opened: ConversationController) -> None:
        """Show another conversation's messages, where they were read last, or their end."""
        self.save_position()
        self._opened = opened
        self.forget_found()
        self._anchor.follow_end()
        self._stack.take_from(0)
        self._add_all(opened.conversation.messages)
        self._following.follow(
            (opened.message_appended, self._append),
            (opened.path_changed, self._show_from),
            (opened.text_appended, self._append_text),
            (opened.thinking_appended, self._append_thinking),
            (opened.run_changed, self._refresh),
            (opened.run_finished, self._refresh),
            (opened.is_running_changed, self._show_busy),
            (opened.message_changed, self._show_again),
        )
        self._restore_anchor()
        self._has_moved = False

    def save_position(self) -> None:
        opened = self._opened
        if opened is None or not self.isVisible() or not self._has_moved:
            return
        self._has_moved = False
        position = self._anchor.current_position()
        if opened.conversation.reading_position != position:
            opened.conversation.reading_position = position
            self.position_changed.emit(opened.conversation)

    def _note_move(self) -> None:
        self._has_moved = True
        self._reading.start()

    def _pin_heads(self) -> None:
        for slot in self._stack.filled:
            if isinstance(slot.view, AnswerView):
                slot.view.text_view.follow_scrolling()

    def _restore_anchor(self) -> None:
        position = None if self._opened is None else self._opened.conversation.reading_position
        if position is None:
            return
        message_id, share = position
        slot = next((s for s in self._stack.slots if s.message.id == message_id), None)
        if slot is not None:
            self._near.fill(slot)
            self._anchor.go_to(slot, share)

    def show_run(self, run: Run | None) -> None:
        """Mark the answer that the stop panel shows, while it is open."""
        self._shown_run = run
        for view in self.views:
            if isinstance(view, AnswerView):
                view.mark_shown(self._is_marked(view.message))

    @property
    def _last_answer(self) -> ConversationMessage | None:
        messages = (slot.message for slot in reversed(self._stack.slots))
        return next((message for message in messages if message.run is not None), None)

    def _mark_last(self) -> None:
        last = self._last_answer
        for view in self.views:
            if isinstance(view, AnswerView):
                view.mark_last(view.message is last)

    def show_marks(self, has_marks: bool) -> None:
        """Mark the answer of the stop panel, or no answer while it is closed."""
        self._has_marks = has_marks
        self.show_run(self._shown_run)

    def _is_marked(self, message: ConversationMessage) -> bool:
        return self._has_marks and message.run is self._shown_run

    def show_message(self, message: ConversationMessage, text: Sequence[str] = ()) -> None:
        """Scroll to a message and highlight terms in it, or all of it if it shows none of them."""
        self.forget_found()
        slot = self._stack.slot_of(message)
        if slot is None:
            return
        self._near.fill(slot)
        self._search, self._searched_in, self._current = Highlight(tuple(text)), message, None
        self._highlight_all()
        if slot.find() is None:
            # They may be in something that is folded: the reasoning, a call, a file.
            slot.unfold_match(Highlight(tuple(text), current=0))
            if slot.find() is None:
                self._stack.mark(slot)
        self._anchor.go_to(slot)

    def jump_to_latest(self) -> None:
        self._anchor.go_to_end()

    def forget_found(self) -> None:
        """Remove the highlights in a single message."""
        if self._searched_in is not None:
            self.show_query("")

    def show_query(
        self,
        text: str,
        has_case: bool = False,
        current: tuple[ConversationMessage, int] | None = None,
    ) -> None:
        self._search = Highlight((text,) if text else (), has_case=has_case)
        self._searched_in, self._current = None, current
        self._highlight_all()

    def go_to_message(self, message: ConversationMessage) -> None:
        """Scroll to a message, or to the current place in it, and unfold the part with it."""
        slot = self._stack.slot_of(message)
        if slot is not None:
            self._near.fill(slot)
            slot.unfold_match(self._highlight_of(message))
            self._anchor.go_to(slot)

    @property
    def first_seen(self) -> int:
        return self._stack.first_at(self.verticalScrollBar().value())

    @property
    def views(self) -> list[QuestionView | AnswerView]:
        return [slot.view for slot in self._stack.slots if slot.view is not None]

    def answer_view(self, run: Run) -> AnswerView | None:
        """Return the view of a run's answer; None while it is far from the screen."""
        slot = self._stack.slot_of_run(run)
        view = None if slot is None else slot.view
        return view if isinstance(view, AnswerView) else None

    def question_view(self, message: ConversationMessage) -> QuestionView | None:
        """Return the view of a question; create it if the question is far from the screen."""
        slot = self._stack.slot_of(message)
        if slot is None:
            return None
        self._near.fill(slot)
        return slot.view if isinstance(slot.view, QuestionView) else None

    def focusNextPrevChild(self, is_next: bool) -> bool:  # noqa: N802 - Qt's name
        """Move the focus by Tab, and scroll only to the widget that gets it.

        Qt's own way also follows the focus that a button loses when it is disabled or disappears:
        it scrolls to the widget that had the focus here before.
        """
        if not QWidget.focusNextPrevChild(self, is_next):
            return False
        focused = QApplication.focusWidget()
        if focused is not None and self.isAncestorOf(focused):
            self.ensureWidgetVisible(focused)
        return True

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Keep the column centered and no wider than is readable."""
        super().resizeEvent(event)
        if event.size().width() != event.oldSize().width():
            self._anchor.hold()
        self._fit()
        self._anchor.keep_end()
        seen = self.viewport()
        self._fade.setGeometry(0, seen.height() - 24, seen.width(), 24)
        self.jump.move_to_bottom()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._fit()
        self._restore_anchor()
        self._has_moved = False

    def _fit(self) -> None:
        seen = self.viewport()
        self._stack.fit(seen.width(), seen.height(), self.width() - seen.width())
        self._near.fill_near()

    # -- slots and views -------------------------------------------------------------------

    def _add_all(self, messages: Sequence[ConversationMessage]) -> None:
        self.setUpdatesEnabled(False)
        self._stack.add(messages)
        self._near.fill_near()
        self.setUpdatesEnabled(True)

    def _make_view(self, slot: MessageSlot) -> None:
        message = slot.message
        view: QuestionView | AnswerView
        if message.run is None:
            view = QuestionView(message, self._stack)
            view.show_prompt_line(self._left_out_before(message))
        else:
            view = AnswerView(message, self._reasons, self._stack)
            view.mark_shown(self._is_marked(message))
            view.mark_last(message is self._last_answer)
        if self._opened is not None:
            versions = self._opened.conversation.tree.versions(message)
            view.action_row.show_versions(versions.index(message) + 1, len(versions))
            view.show_busy(self._opened.is_answering)
        self._stack.fill(slot, view)
        slot.highlight(self._highlight_of(message))
        self.view_made.emit(view)

    def _highlight_of(self, message: ConversationMessage) -> Highlight:
        if self._searched_in is not None and self._searched_in is not message:
            return Highlight()
        current_in, current = self._current or (None, None)
        return replace(self._search, current=current if current_in is message else None)

    def _highlight_all(self) -> None:
        for slot in self._stack.filled:
            slot.highlight(self._highlight_of(slot.message))

    # -- signals of the session ------------------------------------------------------------

    def show_prompt_begin(self) -> None:
        """Show above which message others are not sent, as the last answer's prompt was."""
        for view in self.views:
            if isinstance(view, QuestionView):
                view.show_prompt_line(self._left_out_before(view.message))

    def _left_out_before(self, message: ConversationMessage) -> LeftOut | None:
        if self._opened is None:
            return None
        conversation = self._opened.conversation
        shown = conversation.messages
        left_out = last_left_out(shown)
        if left_out is None or conversation.when_full == "ask":
            return None
        # The record may come from a damaged or foreign file.
        is_there = left_out.until < len(shown) and shown[left_out.until] is message
        return left_out if is_there else None

    def _show_again(self, message: ConversationMessage) -> None:
        """Show that a message was pinned, its files were cut, or its summary was changed."""
        slot = self._stack.slot_of(message)
        view = None if slot is None else slot.view
        if view is not None:
            view.refresh()
        if isinstance(view, QuestionView):
            view.show_prompt_line(self._left_out_before(message))

    def _append(self, message: ConversationMessage) -> None:
        if message.role == "user":
            self._anchor.follow_end()  # the user who sends a message wants to see the answer
        self._add_all([message])
        self._near.fill(self._stack.slots[-1])
        self._stack.lay_out()
        self._mark_last()

    def _show_from(self, index: int) -> None:
        if self._opened is not None:
            self._anchor.release()
            self._stack.take_from(index)
            self._add_all(self._opened.conversation.messages[index:])
            self._mark_last()

    def _refresh_jump(self) -> None:
        self._fade.setVisible(not self._anchor.is_end_seen)
        self.jump.show_match(self._anchor.is_end_seen)

    def _append_text(self, run: Run, text: str) -> None:
        self.jump.note_new_text()
        if (view := self.answer_view(run)) is not None:
            view.append_text(text)

    def _append_thinking(self, run: Run, text: str) -> None:
        self.jump.note_new_text()
        if (view := self.answer_view(run)) is not None:
            view.append_thinking(text)

    def _refresh(self, run: Run) -> None:
        if run.left_out != self._shown_left_out:
            self._shown_left_out = run.left_out
            self.show_prompt_begin()
        if (view := self.answer_view(run)) is not None:
            view.refresh()

    def _show_busy(self, is_busy: bool) -> None:
        for view in self.views:
            view.show_busy(is_busy)

    def wheelEvent(self, event: QWheelEvent) -> None:
        self._anchor.release()
        super().wheelEvent(event)

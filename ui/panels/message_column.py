"""The scrolling column of a conversation's messages. Main thread."""

from PySide6.QtCore import Qt, QUrl, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QButtonGroup, QFrame, QScrollArea, QVBoxLayout, QWidget

from ui.panels.answer_view import AnswerView, QuestionView
from ui.theme import Theme
from ui.viewmodels.conversations import ChatMessage
from ui.viewmodels.runs import Run
from ui.viewmodels.workspace import OpenConversation

_WIDEST_PX = 760
_LEAST_SIDE_PX = 26
_NEAR_END_PX = 12


class MessageColumn(QScrollArea):
    """Shows messages; stays at the end while it is there, and never moves a reader who is not.

    Signals:
        reason_chosen: Carries the ``Run`` whose end is to be explained.
        retry_wanted: Carries the ``Run`` whose question is to be asked again.
        link_chosen: Carries the ``QUrl`` of a chosen link.
    """

    reason_chosen = Signal(object)
    retry_wanted = Signal(object)
    link_chosen = Signal(QUrl)

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self._theme = theme
        self._opened: OpenConversation | None = None
        self._answers: dict[str, AnswerView] = {}
        self._is_at_end = True
        self._reasons = QButtonGroup(self)
        self.setWidgetResizable(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setAccessibleName("Messages")
        self._inner = QWidget()
        self._inner.setObjectName("scrolled")
        self._layout = QVBoxLayout(self._inner)
        self._layout.setSpacing(22)
        self._layout.addStretch(1)
        self.setWidget(self._inner)
        bar = self.verticalScrollBar()
        bar.valueChanged.connect(self._notice_place)
        bar.rangeChanged.connect(self._follow_end)

    def show_conversation(self, opened: OpenConversation) -> None:
        """Show another conversation's messages."""
        if self._opened is not None:
            self._disconnect(self._opened)
        self._opened = opened
        self._clear()
        self._is_at_end = True
        for message in opened.conversation.messages:
            self._add(message)
        session = opened.session
        session.message_appended.connect(self._append)
        session.text_appended.connect(self._append_text)
        session.thinking_appended.connect(self._append_thinking)
        session.run_changed.connect(self._refresh)
        session.run_finished.connect(self._refresh)

    def show_run(self, run: Run | None) -> None:
        """Mark the answer that the stop panel shows."""
        for run_id, view in self._answers.items():
            view.mark_shown(run is not None and run.id == run_id)

    def answer_view(self, run: Run) -> AnswerView | None:
        """Return the view of a run's answer."""
        return self._answers.get(run.id)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Keep the column in the middle and no wider than is good to read."""
        super().resizeEvent(event)
        side = max(_LEAST_SIDE_PX, (self.viewport().width() - _WIDEST_PX) // 2)
        self._layout.setContentsMargins(side, 24, side, 18)

    def _append(self, message: ChatMessage) -> None:
        if message.role == "user":
            self._is_at_end = True  # whoever sends wants to see the answer
        self._add(message)

    def _add(self, message: ChatMessage) -> None:
        if message.run is None:
            self._insert(QuestionView(message.text))
            return
        view = AnswerView(self._theme, message.run, self._reasons)
        view.reason_chosen.connect(self.reason_chosen)
        view.retry_wanted.connect(self.retry_wanted)
        view.link_chosen.connect(self.link_chosen)
        self._answers[message.run.id] = view
        self._insert(view)

    def _insert(self, view: QWidget) -> None:
        self._layout.insertWidget(self._layout.count() - 1, view)

    def _append_text(self, run: Run, text: str) -> None:
        self._answers[run.id].append_text(text)

    def _append_thinking(self, run: Run, text: str) -> None:
        self._answers[run.id].append_thinking(text)

    def _refresh(self, run: Run) -> None:
        self._answers[run.id].refresh()

    def _clear(self) -> None:
        self._answers.clear()
        while self._layout.count() > 1:
            item = self._layout.takeAt(0)
            widget = item.widget() if item is not None else None
            if widget is not None:
                widget.hide()
                widget.deleteLater()

    def _disconnect(self, opened: OpenConversation) -> None:
        session = opened.session
        session.message_appended.disconnect(self._append)
        session.text_appended.disconnect(self._append_text)
        session.thinking_appended.disconnect(self._append_thinking)
        session.run_changed.disconnect(self._refresh)
        session.run_finished.disconnect(self._refresh)

    def _notice_place(self, value: int) -> None:
        self._is_at_end = value >= self.verticalScrollBar().maximum() - _NEAR_END_PX

    def _follow_end(self, least: int, most: int) -> None:
        if self._is_at_end:
            self.verticalScrollBar().setValue(most)

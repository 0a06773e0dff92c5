"""Notifications of answers that end, or wait for the user, while another program is in front."""

import time

from PySide6.QtCore import QObject, Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QApplication

from engine.stopping.record import StopKind
from engine.wording import counted
from ui.kit.windows import bring_forward
from ui.records.conversations import Conversation
from ui.records.runs import Run
from ui.window.window_parts import WindowParts

# After a tool call the answer continues, and the user who stops an answer knows that it ended.
_SILENT = (StopKind.TOOL_CALL, StopKind.CANCELLED)

_PLAIN = str.maketrans("<>", "‹›")


class AnswerNotices(QObject):
    """Watches the answers of all conversations."""

    waiting_changed = Signal()
    notified = Signal(str, str, object)  # title, text, Conversation

    def __init__(self, window: WindowParts) -> None:
        super().__init__(window)
        workspace = window.workspace
        self._workspace, self._library = workspace, window.model_library
        self._preferences, self._window = window.preferences, window
        self.waiting: list[Conversation] = []
        workspace.in_memory.answer_ended.connect(self._consider)
        workspace.in_memory.need_changed.connect(self._note_need)

    def _consider(self, conversation: Conversation, run: Run) -> None:
        is_seen = QApplication.activeWindow() is not None
        if is_seen or not self._preferences.now.tells_of_answers:
            return
        # Within ten seconds, the user has hardly turned to something else.
        is_silent = run.finished is not None and run.finished.stop.kind in _SILENT
        if time.time() - run.started_at < 10 or is_silent:
            return
        QApplication.alert(self._window)
        self.notified.emit(conversation.short_title, notice_text(run), conversation)

    def _note_need(self, conversation: Conversation, run: Run) -> None:
        """Mark the app's icon while answers wait for the user, and tell who is elsewhere."""
        self.waiting = [waiting for waiting in self.waiting if waiting is not conversation]
        if conversation.needs_user:
            self.waiting.append(conversation)
        application = QApplication.instance()
        if isinstance(application, QGuiApplication):
            application.setBadgeNumber(len(self.waiting))  # where the system has badges
        choices = (conversation.model for conversation in self.waiting)
        self._library.mark_waiting(
            frozenset(
                choice.folder
                for choice in choices
                if choice is not None and choice.folder is not None
            )
        )
        self.waiting_changed.emit()
        is_seen = QApplication.activeWindow() is not None
        if conversation.needs_user and not is_seen and self._preferences.now.tells_of_answers:
            QApplication.alert(self._window)
            self.notified.emit(conversation.short_title, need_text(run), conversation)

    def show(self, conversation: Conversation) -> None:
        """Bring the window to the front, with the conversation if it still exists."""
        bring_forward(self._window)
        if self._workspace.conversations.row_of(conversation) >= 0:
            self._workspace.open(conversation)


def need_text(run: Run) -> str:
    """Return what an answer waits for, without the arguments of the call."""
    asking = next(progress for progress in run.live.progress.values() if progress.needs_user)
    question = f"{asking.server} asks a question."
    text = question if asking.question else f"May the model use {asking.tool}?"
    return f"Needs you: {text}".translate(_PLAIN)


def notice_text(run: Run) -> str:
    """Return why an answer ended and how long it is, without any of its text."""
    verdict = run.verdict
    if run.state == "refused" or run.finished is None or verdict is None:
        return "The question could not be answered."
    # Some desktops read HTML tags in a notification, and a stop sequence may look like a tag.
    label = verdict.text.label.translate(_PLAIN)
    return f"{label} · {counted(run.finished.usage.output_tokens, 'token')}"

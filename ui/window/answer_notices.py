"""Notifies about a long answer that ended while another program was in front. Main thread.

It decides when to notify and what to say; the application delivers it.
"""

import time
from collections.abc import Callable

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QApplication, QMainWindow

from engine import StopKind, counted
from ui.chat.session.workspace import Workspace
from ui.kit.controls.own_window import bring_forward
from ui.preferences.preferences_state import PreferencesState
from ui.records.conversations import Conversation
from ui.records.runs import Run, RunState

# In less time than this, a person has hardly turned to something else.
LONG_S = 10.0
# After a tool call the answer continues, and a person who stops an answer knows that it ended.
_SILENT = (StopKind.TOOL_CALL, StopKind.CANCELLED)

_PLAIN = str.maketrans("<>", "‹›")

Deliver = Callable[[str, str, Callable[[], None]], None]


class AnswerNotices(QObject):
    """Watches the answers of all conversations."""

    def __init__(
        self, workspace: Workspace, preferences: PreferencesState, window: QMainWindow
    ) -> None:
        super().__init__(window)
        self._workspace = workspace
        self._preferences = preferences
        self._window = window
        self.deliver: Deliver | None = None
        workspace.in_memory.answer_ended.connect(self._consider)

    def _consider(self, conversation: Conversation, run: Run) -> None:
        is_seen = QApplication.activeWindow() is not None
        if is_seen or not self._preferences.now.tells_of_answers:
            return
        if time.time() - run.started_at < LONG_S or _is_silent(run):
            return
        QApplication.alert(self._window)
        if self.deliver is not None:
            self.deliver(conversation.title, notice_words(run), lambda: self._show(conversation))

    def _show(self, conversation: Conversation) -> None:
        """Bring the window to the front, with the conversation if it still exists."""
        bring_forward(self._window)
        if self._workspace.conversations.row_of(conversation) >= 0:
            self._workspace.open(conversation)


def _is_silent(run: Run) -> bool:
    return run.finished is not None and run.finished.stop.kind in _SILENT


def notice_words(run: Run) -> str:
    """Return why an answer ended and how long it is, without any of its text."""
    said = run.verdict
    if run.state is RunState.REFUSED or run.finished is None or said is None:
        return "The question could not be answered."
    # Some desktops read HTML tags in a notification, and a stop sequence may look like a tag.
    label = said.words.label.translate(_PLAIN)
    return f"{label} · {counted(run.finished.usage.output_tokens, 'token')}"

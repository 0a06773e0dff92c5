"""Bars that say what could not be saved, read or moved. Main thread."""

from PySide6.QtCore import QObject, QTimer, Signal
from PySide6.QtGui import QFont
from PySide6.QtWidgets import (
    QFrame,
    QMessageBox,
    QProgressBar,
    QStatusBar,
    QWidget,
)

from ui.chat.session.transfers import Transfers
from ui.kit.buttons import IconBadge, IconButton, push_button
from ui.kit.dialogs import BoxButton, confirm, show_in_files
from ui.kit.labels import ElidedLabel, label
from ui.kit.layouts import column, row
from ui.kit.tasks import finish_tasks, start_task
from ui.records.store import ConversationStore, StoreProblem
from ui.words import Tone

_DETAIL = (
    "If you quit now, the unsaved text is lost. Saving is tried again every two seconds, and the "
    "program quits once it works. You can also export your conversations to another place."
)


class UnsavedText(QObject):
    """Decides whether a window may close, and asks the user if text would be lost."""

    export_requested = Signal()
    quit_requested = Signal(bool)  # whether unsaved text may be lost

    def __init__(self, window: QWidget, store: ConversationStore) -> None:
        super().__init__(window)
        self._window = window
        self._store = store
        self._is_waiting = False
        self._box: QMessageBox | None = None

    def holds_window(self) -> bool:
        """Return whether the window must stay open for now.

        It is closed once everything is saved; if saving fails, the user is asked.
        """
        if self._store.has_unsaved:
            self._ask()
            return True
        if self._store.is_writing and not self._is_waiting:
            self._is_waiting = True
            start_task(self, self._close_once_saved(), "save before closing")
        return self._is_waiting

    def note_saved(self) -> None:
        """Close the window that the user wanted to close, because everything is saved now."""
        if self._box is not None:
            self._box.close()
            self.quit_requested.emit(False)

    async def finish(self) -> None:
        await finish_tasks(self)

    async def _close_once_saved(self) -> None:
        try:
            await self._store.flush()
        finally:
            self._is_waiting = False
        self.quit_requested.emit(False)

    def _ask(self) -> None:
        if self._box is not None:
            return
        answers = [
            BoxButton("Export…", self.export_requested.emit),
            BoxButton(
                "Quit Without Saving", lambda: self.quit_requested.emit(True), is_destructive=True
            ),
        ]
        cause = self._store.failing_because
        why = f"The file of your conversations cannot be written: {cause}. " if cause else ""
        text = "Some of what you wrote is not saved."
        self._box = confirm(self._window, text, why + _DETAIL, answers=answers, is_warning=True)
        self._box.finished.connect(self._forget_box)

    def _forget_box(self) -> None:
        self._box = None


class ProblemBar(QFrame):
    """Shows the problem, its cause and the file, with a button that dismisses it."""

    solved = Signal()
    recovery_requested = Signal(object)  # path of the damaged file

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("problem_bar")
        self._problem: StoreProblem | None = None
        badge = IconBadge(30)
        badge.show_icon("fault", Tone.FAULT)
        self.sentence = label("", "title", is_wrapped=True, weight=QFont.Weight.DemiBold)
        self.detail = label("", "muted", 0.95, is_wrapped=True)
        self.show_file = push_button("Show the Folder", "Show the folder of this file")
        self.recover = push_button(
            "Recover What Can Be Read", "Recover what can be read of the damaged file"
        )
        close = IconButton("close", "Dismiss this message", size=16)
        row(
            badge,
            (column(self.sentence, self.detail, spacing=2), 1),
            self.recover,
            self.show_file,
            close,
            spacing=12,
            margins=(16, 10, 10, 10),
            on=self,
        )
        self.recover.clicked.connect(self._recover)
        self.show_file.clicked.connect(self._show_file)
        close.clicked.connect(self.hide)
        self.hide()

    def show_problem(self, problem: StoreProblem | None) -> None:
        self._problem = problem
        self.setVisible(problem is not None)
        if problem is None:
            self.solved.emit()
        else:
            self.sentence.setText(problem.sentence)
            self.detail.setText(problem.detail)
            self.show_file.setVisible(problem.path is not None)
            self.recover.setVisible(problem.can_be_recovered)
            self.recover.setEnabled(True)

    def _recover(self) -> None:
        self.recover.setEnabled(False)  # not twice
        if self._problem is not None:
            self.recovery_requested.emit(self._problem.path)

    def _show_file(self) -> None:
        if self._problem is not None and self._problem.path is not None:
            path = self._problem.path
            folder = path if path.is_dir() else path.parent
            show_in_files(self, folder)


class TransferBar(QStatusBar):
    """The running transfer, its progress, and a Cancel button; then the result for a moment.

    Hidden while nothing runs.
    """

    def __init__(self, transfers: Transfers) -> None:
        super().__init__()
        self._transfers = transfers
        self.caption = ElidedLabel()
        self.progress = QProgressBar()
        self.progress.setTextVisible(False)
        self.progress.setAccessibleName("Progress of the export or import")
        self.cancel = push_button("Cancel", "Cancel the export or import")
        # A shorter transfer shows no bar, which would only flicker.
        self._delay = QTimer(self, singleShot=True, interval=400)
        self._delay.timeout.connect(self._appear)
        self._outcome = QTimer(self, singleShot=True, interval=8_000)
        self._outcome.timeout.connect(self._refresh)
        self.setSizeGripEnabled(False)
        self.setContentsMargins(14, 4, 10, 4)
        self.addWidget(self.caption, 2)
        self.addWidget(self.progress, 1)
        self.addPermanentWidget(self.cancel)
        self.cancel.clicked.connect(transfers.cancel)
        transfers.changed.connect(self._refresh)
        transfers.ended.connect(self._show_outcome)
        self.hide()

    def _appear(self) -> None:
        self.setVisible(self._transfers.now is not None)

    def _refresh(self) -> None:
        now = self._transfers.now
        self._outcome.stop()
        if now is None:
            self._delay.stop()
            self.hide()
            return
        self._show_parts(is_running=True)
        if not self.isVisible() and not self._delay.isActive():
            self._delay.start()
        position = f": {now.done:,} so far…" if now.done else "…"
        position = f": {now.done:,} of {now.total:,}" if now.total > 1 else position
        self.caption.setText(f"{now.label}{position}")
        self.progress.setRange(0, now.total if now.total > 1 else 0)
        self.progress.setValue(now.done)

    def _show_outcome(self, outcome: str) -> None:
        if self._transfers.now is None:
            self.caption.setText(outcome)
            self._show_parts(is_running=False)
            self.show()
            self._outcome.start()

    def _show_parts(self, *, is_running: bool) -> None:
        self.progress.setVisible(is_running)
        self.cancel.setVisible(is_running)

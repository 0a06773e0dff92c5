"""Keeps a window open while text is unsaved. Main thread."""

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QMessageBox, QWidget

from ui.kit.commands import Command
from ui.kit.dialogs import confirm
from ui.kit.tasks import finish_tasks, start_task
from ui.records.store import ConversationStore

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
            Command("Export…", self.export_requested.emit),
            Command(
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

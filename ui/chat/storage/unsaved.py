"""Keeps a window open while something that a person wrote is not saved. Main thread."""

from collections.abc import Callable

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QMessageBox, QWidget

from ui.kit.background.tasks import Tasks
from ui.kit.system.boxes import BoxButton, ask
from ui.records.store import ConversationStore

_DETAIL = (
    "If you quit now, the unsaved text is lost. Saving is tried again every two seconds, and the "
    "program quits once it works. You can also export your conversations to another place."
)


class UnsavedText(QObject):
    """Decides whether a window may close, and asks the person if text would be lost.

    Args:
        window: The window.
        store: Saves the text.
        export: Writes the conversations to a file that a person chooses.
        leave: Closes the window; its argument says whether text may be lost.
    """

    def __init__(
        self,
        window: QWidget,
        store: ConversationStore,
        *,
        export: Callable[[], object],
        leave: Callable[[bool], object],
    ) -> None:
        super().__init__(window)
        self._window = window
        self._store = store
        self._export = export
        self._leave = leave
        self._tasks = Tasks()
        self._is_waiting = False
        self._box: QMessageBox | None = None

    def holds_window(self) -> bool:
        """Return whether the window must stay open for now.

        It is closed once everything is saved; if saving fails, the person is asked.
        """
        if self._store.has_unsaved:
            self._ask()
            return True
        if self._store.is_writing and not self._is_waiting:
            self._is_waiting = True
            self._tasks.start(self._close_once_saved(), "save before closing")
        return self._is_waiting

    def note_saved(self) -> None:
        """Close the window that a person wanted to close, because everything is saved now."""
        if self._box is not None:
            self._box.close()
            self._leave(False)

    async def finish(self) -> None:
        """Wait until the background work has ended."""
        await self._tasks.finish()

    async def _close_once_saved(self) -> None:
        try:
            await self._store.settled()
        finally:
            self._is_waiting = False
        self._leave(False)

    def _ask(self) -> None:
        if self._box is not None:
            return
        answers = [
            BoxButton("Export…", self._export),
            BoxButton("Quit Without Saving", lambda: self._leave(True), is_destructive=True),
        ]
        cause = self._store.failing_because
        why = f"The file of your conversations cannot be written: {cause}. " if cause else ""
        text = "Some of what you wrote is not saved."
        self._box = ask(self._window, text, why + _DETAIL, answers=answers, is_warning=True)
        self._box.finished.connect(self._forget_box)

    def _forget_box(self) -> None:
        self._box = None

"""Shows how much disk space cached prompts or recorded tokens take. Main thread."""

import asyncio
from concurrent.futures import Future
from typing import Protocol

from PySide6.QtGui import QHideEvent, QShowEvent
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QWidget

from engine import size_in_words
from ui.kit.background.tasks import Tasks
from ui.kit.text.labels import label
from ui.preferences.preferences_state import PreferencesState


class KeptPrompts(Protocol):
    """The files that are kept on disk: cached prompts, or recorded tokens."""

    def measured(self) -> "Future[int]":
        """Return their size in bytes, after all earlier calls are done."""
        ...

    def forget_all(self) -> object:
        """Delete them, before any later call is done."""
        ...


class KeptPromptsRow(QWidget):
    """The size of the kept files, and a button that deletes them. Reads the disk while visible."""

    def __init__(
        self,
        kept: KeptPrompts,
        preferences: PreferencesState,
        what: str,
    ) -> None:
        super().__init__()
        self._kept = kept
        self._tasks = Tasks()
        self._looking: asyncio.Task[None] | None = None
        self.said = label("…", "muted")
        self._what = what.replace("&", "")
        self.forget = QPushButton(f"Forget {what}")
        self.forget.setAccessibleName(f"Forget {self._what} of conversations")
        self.forget.setEnabled(False)
        self.forget.clicked.connect(self._forget)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(14)
        layout.addWidget(self.said)
        layout.addWidget(self.forget)
        layout.addStretch(1)
        preferences.changed.connect(self._refresh)

    def showEvent(self, event: QShowEvent) -> None:
        """Read the size from the disk."""
        super().showEvent(event)
        self._refresh()

    def hideEvent(self, event: QHideEvent) -> None:
        """Stop reading the disk: the widget may be deleted now."""
        super().hideEvent(event)
        if self._looking is not None:
            self._looking.cancel()

    def _forget(self) -> None:
        self._kept.forget_all()
        self._refresh()

    def _refresh(self) -> None:
        if not self.isVisible():
            return
        if self._looking is not None:
            self._looking.cancel()
        self._looking = self._tasks.start(self._look(), "look at what is kept on disk")

    async def _look(self) -> None:
        self.forget.setEnabled(False)
        size = await asyncio.wrap_future(self._kept.measured())
        self.said.setText(size_in_words(size))
        self.said.setAccessibleName(f"{self._what} on Disk: {size_in_words(size)}")
        self.forget.setEnabled(size > 0)

"""Loads a model after its download, if a person asked for that. Main thread."""

import asyncio
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from engine import ModelLoadFailed
from engine.library.memory import Fit, Memory, need
from ui.kit.background.tasks import Tasks
from ui.models.model_library import ModelLibrary
from ui.models.model_words import fit_words


class LoadingAfter(QObject):
    """Waits for the newest download that a person wants to chat with.

    A model is not loaded if the person has chosen another one meanwhile, or if it does not fit.

    Signals:
        ready: The model is loaded; carries its name.
        not_loaded: The model is here, but is not loaded; carries its name and the reason in words.
    """

    ready = Signal(str)
    not_loaded = Signal(str, str)

    def __init__(self, library: ModelLibrary, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._library = library
        self._tasks = Tasks()
        self._wanted = ""
        self._asked_before: Path | None = None
        self._loading: tuple[Path, str] | None = None
        library.downloads.arrived.connect(self._arrive)
        library.model.changed.connect(self._follow_load)

    def want(self, repository: str) -> None:
        """Load this model when it arrives; earlier ones are only downloaded."""
        self._wanted = repository
        self._asked_before = self._library.model.path

    async def finish(self) -> None:
        """Wait until the background work has ended."""
        self._wanted = ""
        await self._tasks.finish()

    def _arrive(self, folder: Path) -> None:
        repository = next(
            (one.repository for one in self._library.downloads.items if one.folder == folder), ""
        )
        if repository and repository == self._wanted:
            self._wanted = ""
            self._tasks.start(self._load(folder, repository), "load what was downloaded")

    async def _load(self, folder: Path, repository: str) -> None:
        memory = await self._library.memory_now()
        trouble = await asyncio.to_thread(_trouble, folder, memory)
        state = self._library.model
        if trouble:
            self.not_loaded.emit(repository, trouble)
        elif state.path != self._asked_before:
            self.not_loaded.emit(repository, "Another model was chosen meanwhile.")
        else:
            self._loading = folder, repository
            # No conversation uses it yet: the open one keeps its own model.
            state.begin_to_load(folder)

    def _follow_load(self) -> None:
        state = self._library.model
        if self._loading is None or state.stage == "loading":
            return
        (folder, repository), self._loading = self._loading, None
        if state.stage == "ready" and state.is_at(folder):
            self.ready.emit(repository)


def _trouble(folder: Path, memory: Memory) -> str:
    """Return why a model should not be loaded without asking first; empty if it can be."""
    try:
        wanted = need(folder)
    except (ModelLoadFailed, OSError):
        return ""  # loading the model reports what is wrong
    fit = wanted.fit(memory)
    return fit_words(wanted, fit, memory) if fit is Fit.TOO_LARGE else ""

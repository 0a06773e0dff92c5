"""Loads a model once it is downloaded. Main thread."""

import asyncio
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from engine.errors import ModelLoadFailed
from engine.library.memory_need import Fit, Memory, need
from ui.kit.tasks import finish_tasks, start_task
from ui.models.model_library import ModelLibrary
from ui.models.model_words import fit_text


class LoadingAfter(QObject):
    """Loads the newest download the user wants, unless another was chosen or it does not fit."""

    ready = Signal(str)
    not_loaded = Signal(str, str)

    def __init__(self, library: ModelLibrary, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._library = library
        self._repository = ""
        self._path_before: Path | None = None
        self._loading: tuple[Path, str] | None = None
        library.downloads.arrived.connect(self._arrive)
        library.models.changed.connect(self._follow_load)

    def want(self, repository: str) -> None:
        """Load this model when it arrives; earlier ones are only downloaded."""
        self._repository = repository
        self._path_before = self._library.models.path

    async def finish(self) -> None:
        self._repository = ""
        await finish_tasks(self)

    def _arrive(self, folder: Path) -> None:
        repository = next(
            (item.repository for item in self._library.downloads.items if item.folder == folder), ""
        )
        if repository and repository == self._repository:
            self._repository = ""
            start_task(self, self._load(folder, repository), "load what was downloaded")

    async def _load(self, folder: Path, repository: str) -> None:
        memory = await self._library.memory_now()
        trouble = await asyncio.to_thread(_trouble, folder, memory)
        state = self._library.models
        if trouble:
            self.not_loaded.emit(repository, trouble)
        elif state.path != self._path_before:
            self.not_loaded.emit(repository, "Another model was chosen meanwhile.")
        else:
            self._loading = folder, repository
            self._library.pair(folder)
            # No conversation uses it yet: the open one keeps its own model.
            state.begin_to_load(folder)

    def _follow_load(self) -> None:
        state = self._library.models
        if self._loading is None or state.stage == "loading":
            return
        (folder, repository), self._loading = self._loading, None
        if state.stage == "ready" and state.is_at(folder.resolve()):
            self.ready.emit(repository)


def _trouble(folder: Path, memory: Memory) -> str:
    """Return why a model should not be loaded without asking first; empty if it can be."""
    try:
        target = need(folder)
    except (ModelLoadFailed, OSError):
        return ""  # loading the model reports the problem
    fit = target.fit(memory)
    return fit_text(target, fit, memory) if fit is Fit.TOO_LARGE else ""

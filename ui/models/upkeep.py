"""Deletes the models on this computer, and updates them to a newer revision.

Main thread; disks and the hub are read on others. The hub is asked only if the user wants it, or,
unless the preferences forbid it, for newer revisions while the window of models is open.
"""

import asyncio
import logging
import math
import time
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from engine.errors import EngineError
from engine.library.hub_models import HubModel, look_up_all
from engine.library.local_models import (
    FoundModel,
    Origin,
    removal_of,
    remove,
    remove_replaced_revision,
)
from engine.values.verdict import UNEXPECTED
from engine.wording import as_sentence, counted, format_size
from ui.kit.tasks import cancel_tasks, finish_tasks, start_task
from ui.models.finder import ask_hub
from ui.models.model_library import ModelLibrary
from ui.words import describe_error, display_name

_CHECK = "look for updates"
_log = logging.getLogger(__name__)


class Upkeep(QObject):
    """Deletes and updates models."""

    changed = Signal()
    deletion_ready = Signal(object, object, object)  # FoundModel, folder, bytes
    finished = Signal(str)

    def __init__(self, library: ModelLibrary, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._library = library
        self.updates: dict[str, HubModel] = {}
        self.is_checking = False
        self._checked_at_s = -math.inf
        self.outcome = ""
        # Repository to the folder of the revision that an update replaces.
        self._replaced: dict[str, Path] = {}
        # Loading folder to the repository and the folder that it replaces.
        self._freed_later: dict[Path, tuple[str, Path]] = {}
        library.downloads.arrived.connect(self._arrive)
        library.models.loaded.connect(self._free_after_load)

    @property
    def can_check(self) -> bool:
        return bool(self._downloaded())

    # -- deleting --------------------------------------------------------------------------

    def obstacle(self, model: FoundModel) -> str:
        """Return why a model cannot be deleted now; empty if it can."""
        name = display_name(model.name)
        if self._library.models.uses(model.folder):
            return f"{name} is in use. Unload it before you delete it."
        if self._library.downloads.is_running(model.name):
            return f"{name} is being downloaded. Pause the download before you delete it."
        return ""

    def ask_deletion(self, model: FoundModel) -> None:
        """Measure what deleting a model would free; ``deletion_ready`` follows."""
        start_task(self, self._measure(model), "measure a model")

    def delete(self, model: FoundModel, folder: Path, freed_bytes: int) -> None:
        start_task(self, self._delete(model, folder, freed_bytes), "delete a model")

    async def _measure(self, model: FoundModel) -> None:
        try:
            folder, freed_bytes = await asyncio.to_thread(removal_of, model)
        except EngineError as error:
            self.finished.emit(describe_error(error))
        else:
            self.deletion_ready.emit(model, folder, freed_bytes)

    async def _delete(self, model: FoundModel, folder: Path, freed_bytes: int) -> None:
        # The model may have been loaded while the question was open.
        if obstacle := self.obstacle(model):
            self.finished.emit(obstacle)
            return
        try:
            await asyncio.to_thread(remove, folder)
        except EngineError as error:
            text = describe_error(error)
        else:
            text = f"{display_name(model.name)} was deleted. This freed {format_size(freed_bytes)}."
            self._library.downloads.forget_all(model.name)
            self.updates.pop(model.name, None)
        self._library.refresh()
        self.finished.emit(text)

    # -- updating --------------------------------------------------------------------------

    def check(self, *, is_requested: bool = True) -> None:
        if not self.is_checking:
            self._checked_at_s = time.monotonic()
            self.is_checking, self.outcome = True, ""
            self.changed.emit()
            start_task(self, self._check(is_requested), _CHECK)

    def check_sometimes(self) -> None:
        """Ask the hub, because the window of models is open, if that was not done for hours."""
        since_s = time.monotonic() - self._checked_at_s
        is_allowed = self._library.preferences.now.models.looks_for_updates
        if since_s > 6 * 3_600 and is_allowed and self.can_check:
            self.check(is_requested=False)

    def newer(self, model: FoundModel) -> HubModel | None:
        """Return the newer revision that the hub has; None while it is being downloaded."""
        is_running = self._library.downloads.is_running(model.name)
        is_theirs = model.origin is Origin.HUGGING_FACE and not is_running
        return self.updates.get(model.name) if is_theirs else None

    def update(self, model: FoundModel) -> None:
        self._replaced[model.name] = model.folder
        self._library.downloads.start(model.name)

    async def finish(self) -> None:
        cancel_tasks(self, _CHECK)
        await finish_tasks(self)

    def _downloaded(self) -> list[FoundModel]:
        models = [model.found for model in self._library.local]
        return [
            model
            for model in models
            if model.origin is Origin.HUGGING_FACE and not (model.is_partial or model.is_adapter)
        ]

    async def _check(self, is_requested: bool) -> None:
        here = self._downloaded()
        try:
            self._take(here, await ask_hub(look_up_all, tuple(model.name for model in here)))
        except EngineError as error:
            self.outcome = describe_error(error)
        except Exception:
            _log.exception("looking for updates failed unexpectedly")
            self.outcome = as_sentence(UNEXPECTED)
        if not (is_requested or self.updates):
            self.outcome = ""  # nobody asked, and there is nothing to do
        self.is_checking = False
        self.changed.emit()

    def _take(self, here: list[FoundModel], replies: tuple[HubModel | None, ...]) -> None:
        self.updates = {
            own.name: model
            for own, model in zip(here, replies, strict=True)
            if model is not None and model.commit and not own.folder.name.startswith(model.commit)
        }
        count = len(self.updates)
        self.outcome = (
            f"{counted(count, 'update')} available."
            if count
            else "All models from the hub are up to date."
        )

    def _arrive(self, folder: Path) -> None:
        """Replace a revision by the downloaded newer revision."""
        repository = next(
            (name for name, old in self._replaced.items() if _is_same_model(folder, old)), ""
        )
        if not repository:
            return
        old = self._replaced.pop(repository)
        self.updates.pop(repository, None)
        self.outcome = ""
        self.changed.emit()
        if old == folder:
            self.finished.emit(f"{repository} is up to date.")
            return
        self._library.choices.move(old, folder)
        if self._library.models.uses(old):
            loaded = self._library.replace_loaded(old, folder)
            self._freed_later[loaded] = repository, old
        else:
            start_task(self, self._free(repository, old), "delete an old revision")

    def _free_after_load(self, folder: Path) -> None:
        if (waiting := self._freed_later.pop(folder, None)) is not None:
            start_task(self, self._free(*waiting), "delete an old revision")

    async def _free(self, repository: str, old: Path) -> None:
        await self._library.models.release(old)
        if self._library.models.uses(old):
            self.finished.emit(
                f"{repository} was updated. The old revision is in use, so it was kept."
            )
            return
        try:
            freed = await asyncio.to_thread(remove_replaced_revision, old)
        except EngineError as error:
            kept = f"{repository} was updated, but the old revision was kept."
            text = f"{kept} {describe_error(error)}"
        else:
            remainder = f". Deleting the old revision freed {format_size(freed)}" if freed else ""
            text = f"{repository} was updated{remainder}."
        self._library.refresh()
        self.finished.emit(text)


def _is_same_model(folder: Path, other: Path) -> bool:
    return folder.parent == other.parent

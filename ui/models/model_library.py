"""The models on this computer. Main thread; disks are scanned on others."""

import asyncio
import time
from dataclasses import dataclass, replace
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from engine.errors import ModelLoadFailed
from engine.library.adapters import is_adapter
from engine.library.local_models import (
    FoundModel,
    ModelFolders,
    Origin,
    discover,
    look_into,
    with_base,
)
from engine.library.memory_need import Fit, Memory, MemoryNeed, memory, need
from engine.library.model_files import model_name
from engine.library.tokenizer_file import vocabulary_key
from ui.kit.tasks import finish_tasks, start_task
from ui.models.downloads import Downloads
from ui.models.model_choices import ChoicesState
from ui.models.models import Models
from ui.preferences_state import PreferencesState


@dataclass(frozen=True, slots=True)
class LibraryModel:
    """A model, and whether it fits into the memory of this computer."""

    found: FoundModel
    folder: Path  # resolved
    need: MemoryNeed | None
    fit: Fit
    used_at: float  # Unix time of the last load; 0 for never
    draft: Path | None = None
    has_user_template: bool = False
    vocabulary: str = ""


class ModelLibrary(QObject):
    """Lists the models on this computer; loads, adds and downloads them."""

    changed = Signal()

    def __init__(
        self,
        models: Models,
        preferences: PreferencesState,
        model_folders: ModelFolders,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self.models, self.choices = models, models.choices
        self.preferences = preferences
        self._model_folders = model_folders
        self.local: list[LibraryModel] = []
        self.memory = Memory(0, 0)
        self.is_looking = self.has_looked = False
        self._is_stale = False
        self.waiting: frozenset[Path] = frozenset()
        self.downloads = Downloads(model_folders.hub_cache or Path.home(), self)
        self.downloads.arrived.connect(lambda _folder: self.refresh())
        models.loaded.connect(self._note_use)
        models.changed.connect(self._pin_loaded)
        self._apply_idle_minutes()
        preferences.changed.connect(self._apply_idle_minutes)

    @property
    def folders(self) -> tuple[Path, ...]:
        return tuple(Path(folder) for folder in self.preferences.now.models.folders)

    def pin(self, folder: Path, is_pinned: bool) -> None:
        """Keep a model in memory whenever it is loaded, idle or not, or not any more."""
        self.choices.change(folder, is_pinned=is_pinned)
        self.models.pin(folder, is_pinned)

    def refresh(self) -> None:
        if self.is_looking:
            self._is_stale = True
            return
        self.is_looking = True
        self.changed.emit()
        start_task(self, self._look(), "look for models")

    def add_folder(self, folder: Path, position: int | None = None) -> None:
        known = list(self.preferences.now.models.folders)
        if str(folder) not in known:
            known.insert(len(known) if position is None else position, str(folder))
            self.preferences.change_value("models.folders", tuple(known))
        self.refresh()

    def remove_folder(self, folder: Path) -> None:
        """Stop looking for models in a folder; nothing is deleted."""
        known = self.preferences.now.models.folders
        self.preferences.change_value(
            "models.folders", tuple(f for f in known if Path(f) != folder)
        )
        self.refresh()

    def in_folder(self, folder: Path) -> list[FoundModel]:
        return [
            model.found
            for model in self.local
            if folder == model.found.folder or folder in model.found.folder.parents
        ]

    def unlisted(self) -> list[LibraryModel]:
        """Return the loaded and the failed models whose folders the last scan did not find."""
        listed = {model.folder for model in self.local}
        shown = {
            status.folder: FoundModel(
                status.id,
                status.folder,
                Origin.FOLDER,
                size_bytes=status.info.size_bytes,
                architecture=status.info.architecture,
                context_length=status.info.context_length,
            )
            for status in self.models.in_memory
            if self.models.may_be_several and status.info is not None
        }
        if (failed := self.models.failed_at) is not None:
            found = FoundModel(model_name(failed), failed, Origin.FOLDER)
            shown.setdefault(failed.resolve(), found)
        if not self.has_looked:
            return []
        return [
            LibraryModel(found, folder, None, Fit.FITS, used_at=0.0)
            for folder, found in shown.items()
            if folder not in listed
        ]

    def every(self) -> list[LibraryModel]:
        return [*self.local, *self.unlisted()]

    def is_lost(self, model: LibraryModel) -> bool:
        """Return whether a loaded model's folder is gone."""
        return self.has_looked and model not in self.local and not model.folder.exists()

    def mark_waiting(self, folders: frozenset[Path]) -> None:
        self.waiting = folders
        self.changed.emit()

    def damaged_repository(self) -> str:
        """Return the hub's name of the model that could not be loaded because it is damaged."""
        models = self.models
        failed = {models.failed_at, models.failed_at and models.failed_at.resolve()}
        found = (m.found for m in self.local if m.folder in failed and models.is_damaged)
        return next((one.name for one in found if one.can_be_fetched_again), "")

    def is_bundled(self, folder: Path) -> bool:
        bundled = self._model_folders.bundled
        return bundled is not None and folder.resolve() == bundled.resolve()

    def replace_loaded(self, old: Path, new: Path) -> Path:
        """Load a newer revision of a used model; return the folder to load."""
        default, old = self.models.status().info, old.resolve()
        loaded = self.models.in_memory
        others = [m.info for m in loaded if m.info is not None and not m.is_default]
        users = [info for info in (default, *others) if info is not None]
        own = next((info for info in users if info.path == old), None)
        user = own or next((i for i in users if i.draft is not None and i.draft.path == old), None)
        folder = new if user is None or own is not None else user.path
        is_beside = default is not None and user is not default
        self.models.begin_to_load(folder, keeps_default=is_beside)
        return folder

    def choose_draft(self, folder: Path, draft: Path | None) -> None:
        """Load a draft model beside the model of a folder from now on, or none."""
        self.choices.change(folder, draft="" if draft is None else str(draft.resolve()))
        self.refresh()

    def choose_base(self, folder: Path, base: Path) -> None:
        """Load the adapter of a folder over this base from now on."""
        self.choices.change(folder, base=str(base.resolve()))
        self.refresh()

    def pair(self, folder: Path) -> None:
        """Let an adapter that is not listed yet be loaded over the base that it names."""
        if is_adapter(folder):
            found = [model.found for model in self.local]
            adapter = look_into(folder, Origin.FOLDER)
            paired = with_base(adapter, found, self.choices.base_of(folder))
            self.choices.use(folder, None, None, paired.base)

    def bases_for(self, model: LibraryModel) -> list[FoundModel]:
        """Return the models that an adapter may be loaded over; none for a model."""
        found = [other.found for other in self.local] if model.found.is_adapter else []
        return [other for other in found if other.can_be_loaded and not other.is_adapter]

    def choose_template(self, folder: Path, template: str) -> None:
        """Use a chat template for a model from now on, empty for its own; a loaded one at once."""
        self.choices.change(folder, template=template)
        self.refresh()
        if self.models.status(folder.resolve()).stage in ("ready", "loading"):
            # Each chat keeps its model, and the default model stays.
            self.models.begin_to_load(folder, keeps_default=True)

    def drafts_for(self, model: LibraryModel) -> list[FoundModel]:
        """Return the smaller models with the same vocabulary, or that were made for this one."""

        def fits(other: LibraryModel) -> bool:
            if other.found.is_assistant:
                return other.found.pairing == model.found.pairing
            return (
                other.found.can_be_loaded
                and bool(model.vocabulary)
                and other.vocabulary == model.vocabulary
            )

        smaller = [m for m in self.local if m.found.size_bytes < model.found.size_bytes]
        return [other.found for other in smaller if fits(other)]

    async def memory_now(self) -> Memory:
        """Return this computer's memory; the memory of the loaded model counts as free."""
        now = await asyncio.to_thread(memory)
        model = self.models.status()
        freed = 0 if model.info is None or model.is_idle else model.info.weights_bytes
        return Memory(now.usable, now.available + freed)

    def folder_named(self, name: str) -> Path | None:
        return next(
            (
                model.found.folder
                for model in self.local
                if model.found.name == name and model.found.can_be_loaded
            ),
            None,
        )

    async def finish(self) -> None:
        self.downloads.cancel_all()
        await finish_tasks(self)

    async def _look(self) -> None:
        try:
            while True:
                self._is_stale = False
                added = (*self._model_folders.added, *self.folders)
                folders = replace(self._model_folders, added=added)
                listed = await asyncio.to_thread(_found, folders, self.choices)
                self.memory = await self.memory_now()
                if not self._is_stale:
                    break
        finally:
            self.is_looking = False
        self.has_looked = True
        self.local = [
            LibraryModel(
                model,
                folder,
                target,
                Fit.FITS if target is None else target.fit(self.memory),
                self.choices.of(model.folder).used_at,
                self.choices.draft_of(model.folder),
                self.choices.template_of(model.folder) is not None,
                vocabulary,
            )
            for model, folder, target, vocabulary in listed
        ]
        self.changed.emit()

    def _pin_loaded(self) -> None:
        """Pin loaded models that the user pinned, also in an earlier session."""
        for model in self.models.in_memory:
            if not model.is_pinned and self.choices.of(model.folder).is_pinned:
                self.models.pin(model.folder, True)

    def _note_use(self, folder: Path) -> None:
        self.choices.change(folder, used_at=time.time())
        self.local = [
            replace(model, used_at=self.choices.of(model.found.folder).used_at)
            for model in self.local
        ]

    def _apply_idle_minutes(self) -> None:
        minutes = self.preferences.now.models.rests_after_min
        self.models.unload_after(minutes * 60.0 if minutes else None)


def _found(
    positions: ModelFolders, choices: ChoicesState
) -> list[tuple[FoundModel, Path, MemoryNeed | None, str]]:
    listed: list[tuple[FoundModel, Path, MemoryNeed | None, str]] = []
    for model in discover(positions, choices.base_of):
        folder = model.folder.resolve()
        vocabulary = vocabulary_key(model.model_folder) if model.can_be_loaded else ""
        try:
            draft = choices.draft_of(model.folder)
            # If a draft model is gone, loading the model reports that.
            there = draft if draft is not None and draft.is_dir() else None
            listed.append((model, folder, need(model.folder, there, model.base), vocabulary))
        except (ModelLoadFailed, OSError):
            listed.append((model, folder, None, vocabulary))
    return listed

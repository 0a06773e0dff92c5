"""The models that the engine holds in memory, by their folders. Main thread."""

from pathlib import Path

from engine import Engine, ModelInfo, ModelStatus
from engine.library.models import model_name


class ModelsInMemory:
    """The models that the engine has loaded or is loading, one or several."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @property
    def may_be_several(self) -> bool:
        """Whether several models may be in memory, so that a load leaves the others there."""
        return self._engine.is_choosing

    @property
    def answers_under_way(self) -> int:
        """How many answers are running or waiting, including those for other programs."""
        return self._engine.status.running + self._engine.status.waiting

    def status_of(self, folder: Path | None) -> ModelStatus | None:
        """Return the status of one of several models; None if the engine holds only one."""
        if folder is None or not self._engine.is_choosing:
            return None
        return next((one for one in self._engine.models if one.folder == folder), None)

    @property
    def loaded(self) -> list[ModelStatus]:
        """Those of several models that are in memory; empty if the engine holds only one."""
        return [one for one in self._engine.models if one.is_loaded and self.may_be_several]

    def name_of(self, info: ModelInfo, asked: Path | None) -> str:
        """Return the name of the default model, which may be the name of a link to its folder.

        Args:
            info: The default model.
            asked: The folder that was requested last.
        """
        if self._engine.is_choosing:
            return next((one.id for one in self._engine.models if one.is_default), info.id)
        is_it = asked is not None and asked.resolve() == info.path
        return model_name(asked) if asked is not None and is_it else info.id

    def stuck_at(self, folder: Path | None) -> str:
        """Return why the model of a folder was given up; empty if it was not, or is again there."""
        for one in self._engine.models:
            is_it = one.is_default if folder is None else one.folder in (folder, folder.resolve())
            if is_it and one.is_stuck:
                return one.message
        return ""

    def stuck_folders(self) -> frozenset[Path]:
        """Return the folders of the models that were given up because they were stuck."""
        return frozenset(one.folder for one in self._engine.models if one.is_stuck)

    def answers_at(self, folder: Path) -> int:
        """Return how many answers of the model of a folder are running or waiting."""
        status = self.status_of(folder.resolve())
        return self.answers_under_way if status is None else status.running + status.waiting

    def used_folders(self) -> set[Path]:
        """Return the folders of the models that are loaded or loading, and of their draft models.

        A model that was unloaded while idle counts: the next request loads it again.
        """
        # Requests of other programs may have loaded more models than the window's own.
        loaded = [one.info for one in self._engine.models if one.state in ("loading", "ready")]
        used: list[Path | None] = [
            one.folder for one in self._engine.models if one.state == "loading"
        ]
        for info in (self._engine.model, *loaded):
            if info is not None:
                used += [info.path, None if info.draft is None else info.draft.path]
        return {one for one in used if one is not None}

"""What the engine holds in memory, by the folders of the models. Main thread."""

from pathlib import Path

from engine import Engine, ModelStatus


class ModelsInMemory:
    """The models that the engine has loaded or is loading, one or several.

    Args:
        engine: The engine.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @property
    def may_be_several(self) -> bool:
        """Whether several models may be in memory, so that a load leaves the others there."""
        return self._engine.is_choosing

    @property
    def answers_under_way(self) -> int:
        """Answers that are running or waiting, those of other programs included."""
        return self._engine.status.running + self._engine.status.waiting

    def status_of(self, folder: Path | None) -> ModelStatus | None:
        """Return what one of several models is doing; None where the engine holds only one."""
        if folder is None or not self._engine.is_choosing:
            return None
        return next((one for one in self._engine.models if one.folder == folder), None)

    def answers_at(self, folder: Path) -> int:
        """Return how many answers the model of a folder writes, or is to write."""
        status = self.status_of(folder.resolve())
        return self.answers_under_way if status is None else status.running + status.waiting

    def used_folders(self) -> set[Path]:
        """Return the folders of the models that answer, are being loaded, or draft for those.

        A model that was unloaded while idle counts: the next request loads it again.
        """
        # Other programs may have had more models loaded than the one of the window.
        loaded = [one.info for one in self._engine.models if one.state in ("loading", "ready")]
        used: list[Path | None] = [
            one.folder for one in self._engine.models if one.state == "loading"
        ]
        for info in (self._engine.model, *loaded):
            if info is not None:
                used += [info.path, None if info.draft is None else info.draft.path]
        return {one for one in used if one is not None}

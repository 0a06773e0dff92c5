"""What the window knows of the engine's model: none, loading, ready, failed.

Main thread.
"""

import time
from pathlib import Path
from typing import Literal

from PySide6.QtCore import QObject, Signal

from engine.errors import EngineError
from engine.models import ModelInfo
from engine.service import Engine
from ui.viewmodels.tasks import Tasks

ModelStage = Literal["none", "loading", "ready", "failed"]


class ModelState(QObject):
    """Loads models and says how that goes.

    Signals:
        changed: The stage or the model is another now.
    """

    changed = Signal()

    def __init__(self, engine: Engine, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._engine = engine
        self._tasks = Tasks()
        self.stage: ModelStage = "none" if engine.model is None else "ready"
        self.name = "" if engine.model is None else engine.model.id
        self.message = ""
        self.path: Path | None = None
        self._began_s = 0.0

    @property
    def info(self) -> ModelInfo | None:
        """The loaded model."""
        return self._engine.model if self.stage == "ready" else None

    @property
    def loading_s(self) -> float:
        """Seconds since loading began."""
        return time.monotonic() - self._began_s

    def load(self, path: Path) -> None:
        """Load the model of a folder in the background, in place of the present one."""
        if self.stage == "loading":
            return
        self.path = path
        self._begin(path.name)
        self._tasks.start(self._load(path), f"load {path.name}")

    def load_again(self) -> None:
        """Try once more after a failure."""
        if self.path is not None:
            self.load(self.path)

    async def finish(self) -> None:
        """Wait until nothing is loading."""
        await self._tasks.finish()

    async def _load(self, path: Path) -> None:
        try:
            info = await self._engine.load(path)
        except EngineError as error:
            self.stage = "failed"
            self.message = str(error)
        else:
            self.stage = "ready"
            self.name = info.id
            self.message = ""
        self.changed.emit()

    def _begin(self, name: str) -> None:
        self.stage = "loading"
        self.name = name
        self.message = ""
        self._began_s = time.monotonic()
        self.changed.emit()

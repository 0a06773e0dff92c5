"""The state of the engine's models, for the window: in memory, loading, ready, failed.

Main thread.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Literal

from PySide6.QtCore import QObject, QTimer, Signal

from engine import (
    DraftLoadFailed,
    Engine,
    LoadCancelled,
    LoadProgress,
    ModelInfo,
    ModelStatus,
    as_sentence,
    plain_cause,
)
from engine.library.models import model_name
from ui.kit.tasks import finish_tasks, start_task
from ui.words import failure_words


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
        return next((model for model in self._engine.models if model.folder == folder), None)

    @property
    def loaded(self) -> list[ModelStatus]:
        """Those of several models that are in memory; empty if the engine holds only one."""
        return [model for model in self._engine.models if model.is_loaded and self.may_be_several]

    @property
    def every(self) -> list[ModelStatus]:
        """All models that are in memory, one or several."""
        return [model for model in self._engine.models if model.is_loaded]

    def name_of(self, info: ModelInfo, asked: Path | None) -> str:
        """Return the name of the default model, which may be the name of a link to its folder.

        Args:
            info: The default model.
            asked: The folder that was requested last.
        """
        if self._engine.is_choosing:
            return next((model.id for model in self._engine.models if model.is_default), info.id)
        is_it = asked is not None and asked.resolve() == info.path
        return model_name(asked) if asked is not None and is_it else info.id

    def stuck_at(self, folder: Path | None) -> str:
        """Return why the model of a folder was given up; empty if it was not, or is again there."""
        for model in self._engine.models:
            is_it = (
                model.is_default if folder is None else model.folder in (folder, folder.resolve())
            )
            if is_it and model.is_stuck:
                return model.message
        return ""

    def stuck_folders(self) -> frozenset[Path]:
        """Return the folders of the models that were given up because they were stuck."""
        return frozenset(model.folder for model in self._engine.models if model.is_stuck)

    def answers_at(self, folder: Path) -> int:
        """Return how many answers of the model of a folder are running or waiting."""
        status = self.status_of(folder.resolve())
        return self.answers_under_way if status is None else status.running + status.waiting

    def used_folders(self) -> set[Path]:
        """Return the folders of the models that are loaded or loading, and of their draft models.

        A model that was unloaded while idle counts: the next request loads it again.
        """
        # Requests of other programs may have loaded more models than the window's own.
        loaded = [
            model.info for model in self._engine.models if model.state in ("loading", "ready")
        ]
        used: list[Path | None] = [
            model.folder for model in self._engine.models if model.state == "loading"
        ]
        for info in (self._engine.model, *loaded):
            if info is not None:
                used += [info.path, None if info.draft is None else info.draft.path]
        return {folder for folder in used if folder is not None}


_log = logging.getLogger(__name__)

ModelStage = Literal["none", "loading", "ready", "failed"]

_LOOK_WHILE_LOADING_MS = 120
_LOOK_MS = 1000


class ModelState(QObject):
    """Loads models, and keeps the state of loading.

    Signals:
        changed: The stage or the model has changed.
        progressed: Loading has progressed, or the model was unloaded while idle or loaded again.
        loaded: A model was loaded; carries its folder.
        chosen: A person wants another model to answer; carries its folder.

    Attributes:
        in_memory: The models that the engine holds in memory, by their folders.
        stage: Whether there is a model, it is loading, or loading it failed.
        name: The name of the model, even if it is still loading or has failed.
        message: Why loading failed or ended, even if the previous model stays.
        failed_name: The model that could not be loaded, if the previous one stays; else empty.
        path: The folder that was requested last.
        draft_of: Returns the draft model that is loaded beside a model; None for none.
    """

    changed = Signal()
    progressed = Signal()
    loaded = Signal(object)
    chosen = Signal(object)

    def __init__(self, engine: Engine, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._engine = engine
        self.in_memory = ModelsInMemory(engine)
        self.stage: ModelStage = "none" if engine.model is None else "ready"
        self.name = "" if engine.model is None else engine.model.id
        self.message = ""
        self.failed_name = ""
        self.path: Path | None = None
        self.draft_of: Callable[[Path], Path | None] = lambda _folder: None
        self._load_number = self._cancelled_number = 0
        self._turn = asyncio.Lock()
        self._settled = asyncio.Event()
        self._failure: tuple[Path, Exception] | None = None
        self._began_s = 0.0
        self._was_loading_again = False
        self._seen: object = None
        self._look = QTimer(self, interval=_LOOK_MS)
        self._look.timeout.connect(self._look_at_engine)
        self._look.start()

    @property
    def info(self) -> ModelInfo | None:
        """The loaded model."""
        return self._default if self.stage == "ready" else None

    @property
    def _default(self) -> ModelInfo | None:
        """The engine's default model, unless it was given up."""
        status = self._engine.status
        return None if status.state == "failed" else status.info

    @property
    def is_stuck(self) -> bool:
        """Whether the default model does not respond until it is restarted."""
        return bool(self.in_memory.stuck_at(None))

    @property
    def loading_s(self) -> float:
        """Seconds since loading began."""
        return time.monotonic() - self._began_s

    @property
    def progress(self) -> LoadProgress | None:
        """The progress of loading; None before it begins and while nothing loads."""
        return self._engine.status.loading

    @property
    def is_loading_again(self) -> bool:
        """Whether the model, which was unloaded while idle, is being loaded for a request."""
        return self.stage == "ready" and self._engine.status.state == "loading"

    @property
    def is_unloaded(self) -> bool:
        """Whether the model is unloaded until the next request."""
        return self._engine.status.is_unloaded

    def uses(self, folder: Path) -> bool:
        """Return whether the model of a folder is loaded or loading, or is the draft model of one.

        A model that was unloaded while idle counts: the next request loads it again.
        """
        used = self.in_memory.used_folders()
        if self._is_loading and self.path is not None:
            draft = self.draft_of(self.path)
            used |= {self.path} if draft is None else {self.path, draft}
        return folder.resolve() in {other.resolve() for other in used}

    def load(self, path: Path, *, cancels_running: bool = False) -> None:
        """Load the model of a folder in the background, because a person chose it.

        It replaces the present one. A running load is cancelled. The engine waits for running
        answers first, or ends them with ``cancels_running``.
        """
        self.chosen.emit(path)
        self.begin_to_load(path, cancels_running=cancels_running)

    def begin_to_load(
        self, path: Path, *, cancels_running: bool = False, keeps_default: bool = False
    ) -> None:
        """Load as ``load`` does, without ``chosen``: no person chose the model now.

        Args:
            path: The model's folder.
            cancels_running: As for ``load``.
            keeps_default: Whether the default one of several models stays the one that it is.
        """
        self.path = path
        if self.stage == "loading":
            self._engine.cancel_load()
        self._begin(model_name(path))
        self._load_number += 1
        work = self._load(path, self._load_number, cancels_running, keeps_default)
        start_task(self, work, f"load {path.name}")

    def load_again(self, folder: Path | None = None) -> None:
        """Load a model again that failed or got stuck; each chat keeps its model.

        Args:
            folder: Where it is; None for the one that was requested last.
        """
        folder = folder or self.path
        if folder is not None and self.stage != "loading":
            status = self.in_memory.status_of(folder.resolve())
            is_beside = status is not None and status.is_stuck and not status.is_default
            self.begin_to_load(folder, keeps_default=is_beside)

    def loaded_folders(self) -> set[Path]:
        """Return the folders of the models that are in memory."""
        if self._engine.is_choosing:
            return {model.folder for model in self._engine.models if model.is_loaded}
        info = self.info
        return set() if info is None or self.is_unloaded else {info.path.resolve()}

    def info_of(self, folder: Path | None) -> ModelInfo | None:
        """Return the model of a folder, if it is loaded; without a folder, the default one."""
        status = self.in_memory.status_of(folder)
        if status is not None and status.is_loaded and status.info is not None:
            # Requests name a model as the engine offers it: that name is unique.
            return replace(status.info, id=status.id)
        return self.info if folder is None or self.is_at(folder) else None

    def is_at(self, folder: Path | None) -> bool:
        """Whether what is loaded, being loaded, or failed to load is the model of a folder."""
        if folder is None or self.stage == "none":
            return False
        there = self.path if self.info is None else self.info.path
        return there is not None and (there == folder or there.resolve() == folder.resolve())

    @asynccontextmanager
    async def ready(self, wanted: Callable[[], Path | None]) -> AsyncIterator[ModelInfo | None]:
        """Keep a model loaded while a request is submitted, so that no other model answers it.

        If the model is not loaded, it is loaded first. Later callers wait, in order.

        Args:
            wanted: Returns the folder of the model; None takes whichever is loaded. Called again
                whenever another model was loaded meanwhile.

        Raises:
            ModelLoadFailed: It cannot be loaded, or loading was cancelled.
        """
        if self.in_memory.may_be_several and (info := self.info_of(wanted())) is not None:
            yield info  # the request names its model, so no other model can answer it
            return
        async with self._turn:
            while not self._has(folder := wanted()):
                if self.stage != "loading":
                    assert folder is not None
                    self.begin_to_load(folder)
                await self._settled.wait()
                if self._failure is not None and self._failure[0] == folder:
                    raise self._failure[1]
            yield self.info_of(folder)

    def _has(self, folder: Path | None) -> bool:
        if self.in_memory.may_be_several and folder is not None:
            return self.info_of(folder) is not None
        return self.stage != "loading" and (
            folder is None or (self.stage == "ready" and self.is_at(folder))
        )

    def cancel_load(self) -> None:
        """Cancel loading, if a model is being loaded."""
        if self.stage == "loading":
            self._cancelled_number = self._load_number
            self._engine.cancel_load()

    def unload(self, *, cancels_running: bool = False) -> None:
        """Unload the model after the running answers, or end them first."""
        if self.stage == "ready":
            start_task(self, self._unload(cancels_running), "unload")

    def unload_at(self, folder: Path, *, cancels_running: bool = False) -> None:
        """Unload the model of a folder; others that are in memory stay.

        Args:
            folder: Where it is.
            cancels_running: Whether to end its answers; otherwise it is unloaded after them.
        """
        status = self.in_memory.status_of(folder.resolve())
        if status is None or status.is_default:
            self.unload(cancels_running=cancels_running)
        else:
            start_task(self, self._unload_other(status.id, cancels_running), "unload")

    def pin(self, folder: Path, is_pinned: bool, idle_s: float | None) -> None:
        """Keep a model in memory, idle or not, until it is unloaded; or not any more.

        Args:
            folder: Where it is.
            is_pinned: Whether it stays.
            idle_s: Seconds after which a model that is not pinned is unloaded; None for never.
        """
        status = self.in_memory.status_of(folder)
        name = None if status is None else status.id
        self._engine.pin(name, is_pinned=is_pinned)
        self._engine.unload_after(None if is_pinned else idle_s, name)

    def unload_after(self, idle_s: float | None) -> None:
        """Unload a model that was idle for this many seconds; None never unloads it."""
        self._engine.unload_after(idle_s)

    async def finish(self) -> None:
        """Wait until nothing is loading."""
        self.cancel_load()
        self._look.stop()
        await finish_tasks(self)

    async def _load(
        self, path: Path, number: int, cancels_running: bool, keeps_default: bool
    ) -> None:
        # A newer load has replaced this one, which then has nothing to report.
        try:
            if self._cancelled_number == number:
                raise LoadCancelled  # cancelled before the engine began to load
            await self._engine.load(
                path,
                cancels_running=cancels_running,
                draft=self.draft_of(path),
                keeps_default=keeps_default,
            )
        except LoadCancelled as cancelled:
            if self._load_number == number:
                self._failure = path, cancelled
                self._end("none", "Loading was cancelled.")
        except DraftLoadFailed as error:
            if self._load_number == number:
                self._failure = path, error
                menu = "Choose another one, or None, in the menu of the model."
                self._end("failed", f"{failure_words(error)} {menu}")
        except Exception as error:
            _log.error("a model could not be loaded", exc_info=error)
            if self._load_number == number:
                self._failure = path, error
                self._end("failed", failure_words(error))
        else:
            self.loaded.emit(path)
            if self._load_number == number:
                self._end("ready", "")

    async def _unload(self, cancels_running: bool) -> None:
        try:
            await self._engine.unload(cancels_running=cancels_running)
        except Exception as error:
            _log.error("a model could not be unloaded", exc_info=error)
            self._end("failed", failure_words(error))
        else:
            self._end("none", "")

    async def _unload_other(self, name: str, cancels_running: bool) -> None:
        try:
            await self._engine.unload(name, cancels_running=cancels_running)
        except Exception as error:
            _log.error("a model could not be unloaded", exc_info=error)
        self.changed.emit()

    def _begin(self, name: str) -> None:
        self.stage = "loading"
        self.name = name
        self.message = self.failed_name = ""
        self._failure = None
        self._settled.clear()
        self._began_s = time.monotonic()
        self._look.setInterval(_LOOK_WHILE_LOADING_MS)
        self.changed.emit()

    def _end(self, stage: ModelStage, message: str) -> None:
        self._look.setInterval(_LOOK_MS)
        info = self._default
        has_failed = stage == "failed" and info is not None
        self.failed_name = self.name if has_failed else ""
        # A load that was cancelled or failed leaves the previous model in place.
        self.stage = "ready" if info is not None else stage
        if info is not None:
            self.name = self.in_memory.name_of(info, self.path)
        elif stage == "none":
            self.name = ""
        self.message = message
        self._settled.set()
        self.changed.emit()

    @property
    def failure(self) -> str:
        """A sentence about the model that could not be loaded while the previous one stays."""
        if not self.failed_name:
            return ""
        return f"Could not load {self.failed_name}. {self.name} stays loaded."

    def _look_at_engine(self) -> None:
        loaded = frozenset(self.loaded_folders()) if self.in_memory.may_be_several else None
        if self.is_loading_again and not self._was_loading_again:
            self._began_s = time.monotonic()
        self._was_loading_again = self.is_loading_again
        loads = self._is_loading or self.is_loading_again
        self._look.setInterval(_LOOK_WHILE_LOADING_MS if loads else _LOOK_MS)
        since_s = int(self.loading_s) if loads else 0
        stuck = self.in_memory.stuck_folders()
        seen = (self.progress, self.is_unloaded, since_s, loaded, stuck, self._engine.status.state)
        if seen == self._seen:
            return
        self._seen = seen
        is_new = not self._is_loading and self._follow_engine()
        if loaded is None and not is_new:
            self.progressed.emit()
        else:
            self.changed.emit()

    def _follow_engine(self) -> bool:
        """Take over what the engine did by itself; return whether the stage has changed."""
        status, info = self._engine.status, self._default
        if self.stage == "ready" and status.state == "failed":
            # The model was given up because it was stuck, or the engine with all its models.
            if status.info is not None:
                self.name, self.path = status.info.id, status.info.path
            self.stage, self.message = "failed", as_sentence(plain_cause(status.message))
            return True
        if info is None or self.stage == "none":
            return False
        has_recovered = self.stage == "failed"
        if has_recovered:
            self.stage, self.message = "ready", ""
        self.name = self.in_memory.name_of(
            info, self.path
        )  # another one of several models may be the default now
        return has_recovered

    @property
    def _is_loading(self) -> bool:
        return self.stage == "loading"

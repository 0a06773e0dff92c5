"""The engine's models as the window shows them: in memory, loading, ready, failed. Main thread."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from PySide6.QtCore import QObject, QTimer, Signal

from engine import Engine, LoadCancelled, LoadProgress, ModelStatus
from engine.errors import DraftLoadFailed, ModelDamaged, ModelLoadFailed
from engine.library.adapters import adapted_name
from engine.library.model_files import model_name
from engine.library.model_info import ModelInfo
from engine.values.verdict import plain_cause
from engine.wording import as_sentence
from ui.kit.tasks import finish_tasks, restart_task, start_task
from ui.models.model_choices import ChoicesState
from ui.records.conversations import Conversation
from ui.words import describe_error, display_name

LoadStage = Literal["none", "unloaded", "loading", "ready", "failed", "missing"]

_POLL_LOADING_MS = 120
_POLL_MS = 1000

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ShownModel:
    """The state of one model, for the window.

    Attributes:
        stage: Of a load from the user's click to its end; else as the engine has it.
        is_loading: Also while the engine loads an unloaded model again for a request.
        is_idle: Ready, but not in memory: the next request loads it again.
        has_lost_folder: Ready, but its folder is gone.
    """

    name: str
    folder: Path | None
    stage: LoadStage
    message: str = ""
    info: ModelInfo | None = None
    progress: LoadProgress | None = None
    is_loading: bool = False
    loading_s: float = 0.0
    is_idle: bool = False
    is_stuck: bool = False
    has_lost_folder: bool = False

    @property
    def title(self) -> str:
        """Its name for people."""
        return display_name(self.name)

    @property
    def can_answer(self) -> bool:
        """Whether a message can be sent; it may have to wait for the model."""
        return self.stage in ("ready", "loading", "unloaded")


class Models(QObject):
    """Loads and unloads models, and follows their state in the engine.

    Attributes:
        stage: Of the default model, as are ``name``, ``path`` and ``message``.
        failure: The load or unload that failed; ``message`` says why.
        failed_at: The folder of the model whose load or unload failed last.
        is_damaged: Whether it failed because a file of the model is damaged.
    """

    changed = Signal()
    loaded = Signal(object)
    chosen = Signal(object)

    def __init__(
        self, engine: Engine, choices: ChoicesState, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._engine = engine
        self.choices = choices
        self.stage: LoadStage = "none" if engine.model is None else "ready"
        self.name = "" if engine.model is None else engine.model.id
        self.message = ""
        self.failure = ""
        self.failed_at: Path | None = None
        self.is_damaged = False
        self.path: Path | None = None
        self._is_load_cancelled = False
        self._turn = asyncio.Lock()
        self._load_ended = asyncio.Event()
        self._failure: tuple[Path, Exception] | None = None
        self._began_s = 0.0
        self._was_reloading = False
        self._polled: object = None
        self._poll_timer = QTimer(self, interval=_POLL_MS)
        self._poll_timer.timeout.connect(self._poll)
        self._poll_timer.start()

    @property
    def may_be_several(self) -> bool:
        """Whether several models may be in memory, so that a load leaves the others there."""
        return self._engine.is_choosing

    @property
    def in_memory(self) -> list[ModelStatus]:
        return [model for model in self._engine.models if model.is_loaded]

    def status(self, folder: Path | None = None) -> ShownModel:
        """Return the state of the model of a folder; without one, of the default model."""
        default, own = self._engine.status, self._status_of(folder)
        is_default = folder is None or self.is_at(folder)
        info, stage = (self._ready_info if is_default else None), self.stage
        if own is not None and own.is_loaded and own.info is not None:
            # Requests name a model as the engine offers it: that name is unique.
            info, stage = replace(own.info, id=own.id), "ready"
        own = own or (default if is_default else ModelStatus())
        if not is_default and info is None:
            stage = "failed" if own.is_stuck else "unloaded"
        is_ready = is_default and stage == "ready"
        is_loading = stage == "loading" or (is_ready and default.state == "loading")
        return ShownModel(
            self.name if folder is None else own.id or model_name(folder),
            self.path if folder is None else folder,
            stage,
            as_sentence(own.message) if own.is_stuck else self.message,
            info,
            default.loading if is_loading else None,
            is_loading,
            self._loading_s,
            is_idle=is_ready and default.is_unloaded,
            is_stuck=own.is_stuck,
        )

    def name_of(self, folder: Path) -> str:
        """Return the name of the model of a folder, as the engine offers it or will offer it."""
        status = self._status_of(folder.resolve())
        offered = "" if status is None else status.id
        return offered or adapted_name(folder, self.choices.base_of(folder))

    def is_at(self, folder: Path | None) -> bool:
        """Return whether the default model is that of a resolved folder."""
        if folder is None or self.stage == "none":
            return False
        if (info := self._ready_info) is not None:
            return info.path == folder  # both are resolved: this is asked for each row of a list
        path = self.path
        return path is not None and (path == folder or path.resolve() == folder.resolve())

    def answers_under_way(self, folder: Path | None = None) -> int:
        status = None if folder is None else self._status_of(folder.resolve())
        status = status or self._engine.status
        return status.running + status.waiting

    def uses(self, folder: Path) -> bool:
        """Return whether a model is loaded, loading or unloaded while idle, or a draft of one."""
        models = [m for m in self._engine.models if m.state in ("loading", "ready")]
        used = [model.folder for model in models if model.state == "loading"]
        for info in (self._engine.model, *(model.info for model in models)):
            if info is not None:
                used += [info.path, info.model_folder]
                used += [] if info.draft is None else [info.draft.path]
        if self.stage == "loading" and self.path is not None:
            draft = self.choices.draft_of(self.path)
            used += [self.path, *([] if draft is None else [draft])]
        return folder.resolve() in {other.resolve() for other in used}

    # -- loading -------------------------------------------------------------------------------

    def load(self, path: Path, *, cancels_running: bool = False) -> None:
        """Load the user's choice in place of the present model, after the running answers."""
        self.chosen.emit(path)
        self.begin_to_load(path, cancels_running=cancels_running)

    def begin_to_load(
        self, path: Path, *, cancels_running: bool = False, keeps_default: bool = False
    ) -> None:
        """Load as ``load`` does, without ``chosen``."""
        self.path = path
        self.stage, self.name = "loading", self.name_of(path)
        self.message = self.failure = ""
        self._failure = self.failed_at = None
        self._load_ended.clear()
        self._began_s = time.monotonic()
        self._poll_timer.setInterval(_POLL_LOADING_MS)
        self._is_load_cancelled = False
        self.changed.emit()
        # An earlier load is cancelled with its task, and has no report.
        restart_task(self, self._load(path, cancels_running, keeps_default), "load a model")

    def load_again(self, folder: Path | None = None) -> None:
        """Load a model again that failed or got stuck; each chat keeps its model."""
        folder = folder or self.path
        if folder is not None and self.stage != "loading":
            status = self._status_of(folder.resolve())
            is_beside = status is not None and status.is_stuck and not status.is_default
            self.begin_to_load(folder, keeps_default=is_beside)

    @asynccontextmanager
    async def ready(self, conversation: Conversation) -> AsyncIterator[ModelInfo | None]:
        """Keep a conversation's model loaded while a request is submitted; load it if necessary.

        Later callers wait, in order. The conversation's choice is read again whenever another
        model was loaded meanwhile.

        Raises:
            ModelLoadFailed: It cannot be loaded, or loading was cancelled.
        """
        if self.may_be_several and (info := self.status(_folder(conversation)).info) is not None:
            yield info  # the request names its model, so no other model can answer it
            return
        async with self._turn:
            while not self._has(folder := _folder(conversation)):
                if self.stage != "loading":
                    assert folder is not None
                    self.begin_to_load(folder)
                await self._load_ended.wait()
                if self._failure is not None and self._failure[0] == folder:
                    raise self._failure[1]
            yield self.status(folder).info

    def cancel_load(self) -> None:
        if self.stage == "loading":
            self._is_load_cancelled = True
            self._engine.cancel_load()

    def unload(self, folder: Path | None = None, *, cancels_running: bool = False) -> None:
        """Unload the model of a folder, or the default one; others that are in memory stay."""
        status = None if folder is None else self._status_of(folder.resolve())
        if status is not None and not status.is_default:
            start_task(self, self._unload(status.id, cancels_running, folder), "unload")
        elif self.stage == "ready":
            folder = folder or (None if self._default is None else self._default.path)
            start_task(self, self._unload(None, cancels_running, folder), "unload")

    async def release(self, folder: Path) -> None:
        """Unload one of several models after its running answers, unless it is the default one."""
        status = self._status_of(await asyncio.to_thread(folder.resolve))
        if status is not None and status.is_loaded and not status.is_default:
            await self._unload(status.id, cancels_running=False, folder=folder)

    def pin(self, folder: Path, is_pinned: bool) -> None:
        status = self._status_of(folder)
        self._engine.pin(None if status is None else status.id, is_pinned=is_pinned)

    def unload_after(self, idle_s: float | None) -> None:
        """Unload a model that was idle for this many seconds; None never unloads it."""
        self._engine.unload_after(idle_s)

    async def finish(self) -> None:
        self.cancel_load()
        self._poll_timer.stop()
        await finish_tasks(self)

    # -- inside --------------------------------------------------------------------------------

    @property
    def _default(self) -> ModelInfo | None:
        """The engine's default model, unless it was given up."""
        status = self._engine.status
        return None if status.state == "failed" else status.info

    @property
    def _ready_info(self) -> ModelInfo | None:
        return self._default if self.stage == "ready" else None

    @property
    def _loading_s(self) -> float:
        return time.monotonic() - self._began_s

    def _status_of(self, folder: Path | None) -> ModelStatus | None:
        """Return the status of one of several models; None if the engine holds only one."""
        if folder is None or not self.may_be_several:
            return None
        return next((model for model in self._engine.models if model.folder == folder), None)

    def _has(self, folder: Path | None) -> bool:
        if self.may_be_several and folder is not None:
            return self.status(folder).info is not None
        return self.stage != "loading" and (
            folder is None or (self.stage == "ready" and self.is_at(folder))
        )

    async def _load(self, path: Path, cancels_running: bool, keeps_default: bool) -> None:
        failure: Exception | None = None
        stage: LoadStage = "failed"
        message = ""
        try:
            if self._is_load_cancelled:
                raise LoadCancelled  # cancelled before the engine began to load
            await self._engine.load(
                path,
                cancels_running=cancels_running,
                draft=self.choices.draft_of(path),
                user_template=self.choices.template_of(path),
                base=self.choices.base_of(path),
                keeps_default=keeps_default,
            )
        except LoadCancelled as cancelled:
            failure, stage, message = cancelled, "none", "Loading was cancelled."
        except DraftLoadFailed as error:
            failure = error
            remedy = "Choose another one, or None, in the menu of the model."
            message = f"{describe_error(error)} {remedy}"
        except Exception as error:
            if not isinstance(error, ModelLoadFailed):
                _log.error("a model could not be loaded", exc_info=error)
            failure, message = error, describe_error(error)
        else:
            stage = "ready"
            self.loaded.emit(path)
        self._failure = None if failure is None else (path, failure)
        self.failed_at = path if stage == "failed" else None
        self.is_damaged = isinstance(failure, ModelDamaged)
        self._end(stage, message)

    async def _unload(self, name: str | None, cancels_running: bool, folder: Path | None) -> None:
        """Unload a model beside the default one, or without a name the default one."""
        if name is None or folder == self.failed_at:  # the failure of another model stays
            self.message = self.failure = ""
            self.failed_at = None
        try:
            await self._engine.unload(name, cancels_running=cancels_running)
        except Exception as error:
            _log.error("a model could not be unloaded", exc_info=error)
            self.failure = f"{display_name(name or self.name)} couldn’t be unloaded."
            self.message = describe_error(error)
            self.failed_at = folder
        else:
            if name is None:
                self._end("none", "")
        self.changed.emit()

    def _end(self, stage: LoadStage, message: str) -> None:
        self._poll_timer.setInterval(_POLL_MS)
        self.message, self.failure, self.stage = message, "", stage
        # A load that was cancelled or failed leaves the previous model in place.
        failed = display_name(self.name)
        if stage == "failed":
            self.failure = f"{failed} couldn’t be loaded."
        if (info := self._default) is not None:
            self.name, self.stage = self._default_name(info), "ready"
            if stage == "failed" and (kept := display_name(self.name)) != failed:
                self.failure += f" {kept} stays loaded."
        elif stage == "none":
            self.name = ""
        self._load_ended.set()
        self.changed.emit()

    def _default_name(self, info: ModelInfo) -> str:
        """Return the name of the default model, which may be the name of a link to its folder."""
        if self.may_be_several:
            return next((model.id for model in self._engine.models if model.is_default), info.id)
        is_requested = self.path is not None and self.path.resolve() == info.path
        return self.name_of(self.path) if self.path is not None and is_requested else info.id

    def _poll(self) -> None:
        """Take over what the engine did by itself, and report progress."""
        shown, status = self.status(), self._engine.status
        is_again = shown.stage == "ready" and shown.is_loading
        if is_again and not self._was_reloading:
            self._began_s = time.monotonic()
        self._was_reloading = is_again
        self._poll_timer.setInterval(_POLL_LOADING_MS if shown.is_loading else _POLL_MS)
        polled = (
            status.loading,
            status.state,
            status.is_unloaded,
            int(self._loading_s) if shown.is_loading else 0,
            frozenset((m.folder, m.is_loaded, m.is_stuck) for m in self._engine.models),
        )
        if polled != self._polled:
            self._polled = polled
            if self.stage != "loading":
                self._follow_engine()
            self.changed.emit()

    def _follow_engine(self) -> None:
        status, info = self._engine.status, self._default
        if self.stage == "ready" and status.state == "failed":
            # The model was given up because it was stuck, or the engine with all its models.
            if status.info is not None:
                self.name, self.path = status.info.id, status.info.path
            self.stage, self.message = "failed", as_sentence(plain_cause(status.message))
        elif info is not None and self.stage != "none":
            if self.stage == "failed":
                self.stage, self.message = "ready", ""
            self.name = self._default_name(info)  # another model may be the default now


def _folder(conversation: Conversation) -> Path | None:
    return None if conversation.model is None else conversation.model.folder

"""What each model is doing, for any thread."""

import itertools
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from engine.library.loading import LoadProgress
from engine.library.models import ModelInfo, model_name
from engine.scheduling.inbox import EngineStatus
from engine.scheduling.offering import OfferedModel, Offering

# The status of one of several models, for lists of models.

ModelState = Literal["unloaded", "loading", "ready", "failed"]
"""``unloaded`` and ``failed``: loaded when next needed; ``failed`` if the last load failed."""


@dataclass(frozen=True, slots=True)
class ModelStatus:
    """The status of one model.

    Attributes:
        id: Its name.
        folder: The folder that contains it.
        state: Whether it is in memory.
        message: Why loading failed, or what a load waits for; otherwise empty.
        loading: The progress of loading, while it is being loaded.
        info: What is known about it from loading; None until it was loaded once.
        offered: The offer that it belongs to; None for a model that was not offered.
        memory_bytes: The memory that its weights and caches take now.
        running: Answers that are being generated.
        waiting: Answers that wait for a place, or for the model.
        used_at: When it was last used, in Unix seconds; None if it never was.
        unloads_at: When it is unloaded if nobody uses it, in Unix seconds; None for never.
        is_pinned: Whether it stays in memory when another model needs room.
        is_default: Whether it answers requests that name no model.
        is_stuck: Whether it was given up because it was stuck; it answers nothing until it is
            restarted.
    """

    id: str
    folder: Path
    state: ModelState = "unloaded"
    message: str = ""
    loading: LoadProgress | None = None
    info: ModelInfo | None = None
    offered: OfferedModel | None = None
    memory_bytes: int = 0
    running: int = 0
    waiting: int = 0
    used_at: float | None = None
    unloads_at: float | None = None
    is_pinned: bool = False
    is_default: bool = False
    is_stuck: bool = False

    @property
    def is_loaded(self) -> bool:
        """Whether it is in memory."""
        return self.state == "ready"


# The statuses of all models of the engine thread, for other threads to read.
#
# The engine thread writes, or the thread that gives it up; any thread reads.


@dataclass(frozen=True, slots=True)
class Posted:
    """The status of one model."""

    offered: OfferedModel | None
    status: EngineStatus
    is_default: bool


class StatusBoard:
    """The statuses of the models, by their numbers."""

    def __init__(self) -> None:
        self.status = EngineStatus()
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        # A model that is not here posts nothing any more: its thread was given up.
        self._by_number: dict[int, tuple[OfferedModel | None, EngineStatus | None]] = {}
        self._default = 0

    @property
    def posted(self) -> list[Posted]:
        """The status of every model."""
        with self._lock:
            return [
                Posted(offered, status, number == self._default)
                for number, (offered, status) in self._by_number.items()
                if status is not None
            ]

    def add(self) -> int:
        """Return the number of a new model."""
        with self._lock:
            number = next(self._numbers)
            self._by_number[number] = None, None
            return number

    def post(self, number: int, offered: OfferedModel | None, status: EngineStatus) -> None:
        """Note what a model is doing."""
        with self._lock:
            if number not in self._by_number:
                return
            self._by_number[number] = offered, status
            if number == self._default:
                self.status = status

    def begin(self, first: int) -> None:
        """Forget the models of an earlier thread, once those of the next one have been posted.

        The status of the default model stays until another one is posted.
        """
        with self._lock:
            for number in [number for number in self._by_number if number < first]:
                del self._by_number[number]

    def choose(self, number: int) -> None:
        """Note the model that answers requests that name no model."""
        with self._lock:
            self._default = number
            _, status = self._by_number.get(number, (None, None))
            if status is not None:
                self.status = status

    def remove(self, number: int) -> None:
        """Forget a model."""
        with self._lock:
            self._by_number.pop(number, None)

    def clear(self, status: EngineStatus) -> None:
        """Note that no model is in memory any more, and the status of the default one."""
        with self._lock:
            offered, _ = self._by_number.get(self._default, (None, None))
            self._by_number = {self._default: (offered, status)}
            self.status = status


# Finds the model that a request names, and reports what each model is doing.


class ModelChoice:
    """The models that requests may name. Until models are offered, one answers every request."""

    def __init__(self, board: StatusBoard) -> None:
        self._board = board
        self._lock = threading.Lock()
        self._offering: Offering | None = None

    @property
    def is_one(self) -> bool:
        """Whether one model answers all requests, whatever they name."""
        return self._offering is None

    def offer(self, models: Sequence[OfferedModel] | None) -> None:
        """Let requests name these models; None lets the default model answer all of them."""
        with self._lock:
            self._offering = None if models is None else Offering(models)

    def find(self, name: str | None) -> OfferedModel | None:
        """Return the model that a request names; None for the default one."""
        offering = self._offering
        return None if offering is None or not name else offering.find(name)

    def loading(self, folder: Path, draft: Path | None) -> OfferedModel | None:
        """Return which of several models is to be loaded; None where there is only one.

        A folder that was not offered becomes offered, because its owner asks to load it.
        """
        with self._lock:
            if self._offering is None:
                return None
            known = self._offering.of_folder(folder)
            model = known or OfferedModel(model_name(folder.resolve()), folder)
            if draft is not None or known is None:
                model = replace(model, draft=draft)
                rest = [one for one in self._offering.models if one.id != model.id]
                self._offering = Offering([*rest, model])
            return model

    def status_of(self, name: str | None) -> ModelStatus | None:
        """Return the status of the model that a request names; None if there is no default
        model.
        """
        model = self.find(name)
        if model is None:
            return next((one for one in self.statuses if one.is_default), None)
        return next(one for one in self.statuses if one.id == model.id)

    @property
    def statuses(self) -> tuple[ModelStatus, ...]:
        """The status of every model: those that are offered, then others in memory."""
        offering = self._offering
        posted = self._board.posted
        found: dict[str, ModelStatus] = {}
        for model in () if offering is None else offering.models:
            own = next((one for one in posted if _is_of(one, model)), None)
            found[model.id] = (
                ModelStatus(model.id, model.folder, offered=model, is_pinned=model.is_pinned)
                if own is None
                else _status(own, model.id, model.folder, model)
            )
            if own is not None:
                posted.remove(own)
        for one in posted:
            info = one.status.model
            if info is not None:
                found.setdefault(info.id, _status(one, info.id, info.path, one.offered))
        return tuple(found.values())


def _is_of(posted: Posted, model: OfferedModel) -> bool:
    if posted.offered is not None:
        return posted.offered.id == model.id
    info = posted.status.model
    return info is not None and info.path in (model.folder, model.folder.resolve())


def _status(
    posted: Posted, model_id: str, folder: Path, offered: OfferedModel | None
) -> ModelStatus:
    status = posted.status
    states: dict[str, ModelState] = {"loading": "loading", "failed": "failed", "ready": "ready"}
    state = "unloaded" if status.is_unloaded else states.get(status.state, "unloaded")
    unloads_at = None
    if state == "ready" and status.used_at is not None and status.keeps_s is not None:
        unloads_at = status.used_at + status.keeps_s
    return ModelStatus(
        model_id,
        folder,
        state=state,
        message=status.message,
        loading=status.loading,
        info=status.model,
        offered=offered,
        memory_bytes=status.memory_bytes if state == "ready" else 0,
        running=status.running,
        waiting=status.waiting,
        used_at=status.used_at,
        unloads_at=unloads_at,
        is_pinned=status.is_pinned,
        is_default=posted.is_default,
        is_stuck=status.is_stuck,
    )

"""Finds the model that a request names, and reports what each model is doing.

Any thread may use it.
"""

import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from engine.library.models import model_name
from engine.scheduling.model_status import ModelState, ModelStatus
from engine.scheduling.offering import OfferedModel, Offering
from engine.scheduling.thread.board import Posted, StatusBoard


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

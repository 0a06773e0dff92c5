"""The status of one of several models, for lists of models. Pure values; any thread."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from engine.library.loading import LoadProgress
from engine.library.models import ModelInfo
from engine.scheduling.offering import OfferedModel

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

"""What one of several models is doing, for those who list models. Pure values; any thread."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from engine.library.loading import LoadProgress
from engine.library.models import ModelInfo
from engine.scheduling.offering import OfferedModel

ModelState = Literal["unloaded", "loading", "ready", "failed"]
"""``unloaded``: it is loaded when it is next needed. ``failed``: so it is, after a failure."""


@dataclass(frozen=True, slots=True)
class ModelStatus:
    """One model and what it is doing.

    Attributes:
        id: Its name.
        folder: Where it is.
        state: Whether it is in memory.
        message: Why loading failed, or what a load waits for; else empty.
        loading: How far loading has come, while it is being loaded.
        info: What loading has told of it; None until it was loaded once.
        offered: What was said of it when it was offered; None for a model that nobody offered.
        memory_bytes: What its weights and caches take in memory now.
        running: Answers that are being generated.
        waiting: Answers that wait for a place, or for the model.
        used_at: When it was last asked for something, in Unix seconds; None if it never was.
        unloads_at: When it is unloaded if nothing more is asked, in Unix seconds; None for never.
        is_pinned: Whether it stays in memory when another model needs room.
        is_default: Whether it answers requests that name no model.
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

    @property
    def is_loaded(self) -> bool:
        """Whether it is in memory."""
        return self.state == "ready"

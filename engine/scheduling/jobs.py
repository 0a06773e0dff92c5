"""Jobs of one model: work with it, loads and unloads."""

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from engine.scheduling.scheduler import Scheduler


class Source(NamedTuple):
    """The folders that a model is loaded from."""

    folder: Path
    draft: Path | None


@dataclass(slots=True, eq=False)
class Job:
    """Work with a loaded model; ``run`` gets its scheduler and the future, which it settles."""

    run: "Callable[[Scheduler, Future[Any]], None]"
    future: "Future[Any]" = field(default_factory=Future)
    choices: int = 0


@dataclass(slots=True, eq=False)
class Transition:
    """A load or, without a ``source``, an unload, due once running answers have ended.

    Any thread may set ``cancel_requested``.
    """

    source: Source | None
    future: "Future[Any]" = field(default_factory=Future)
    cancels_running: bool = False
    keeps_default: bool = False
    cancel_requested: bool = False

    @property
    def is_cancelled(self) -> bool:
        return self.cancel_requested or self.future.cancelled()

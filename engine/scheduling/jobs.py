"""Jobs of one model: work with it, loads and unloads; and those of them that wait."""

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from engine.errors import EngineError, QueueFull
from engine.library.adapters import adapted_name
from engine.scheduling.call_queue import settle
from engine.scheduling.scheduler import Scheduler


class Source(NamedTuple):
    """The folders that a model is loaded from, and the user's chat template for it.

    With a ``base``, the folder is that of an adapter.
    """

    folder: Path
    draft: Path | None
    base: Path | None = None
    user_template: str | None = None

    @property
    def name(self) -> str:
        return adapted_name(self.folder, self.base)

    def resolved(self) -> "Source":
        draft, base = (path and path.resolve() for path in (self.draft, self.base))
        return Source(self.folder.resolve(), draft, base, self.user_template)


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


class PendingJobs(list[Job | Transition]):
    """The jobs of one model that wait for a load or an unload before them, in order."""

    @property
    def choices(self) -> int:
        return sum(job.choices for job in self if isinstance(job, Job))

    def add(self, job: Job | Transition, max_choices: int) -> None:
        """Let a job wait, or refuse it if too many answers wait."""
        choices = job.choices if isinstance(job, Job) else 0
        if choices and (waiting := self.choices) + choices > max_choices:
            settle(job.future, QueueFull(waiting, choices))
        else:
            self.append(job)

    def refuse(self, why: EngineError) -> None:
        """Refuse the jobs that need the model in memory; loads and unloads continue to wait."""
        for job in self:
            if isinstance(job, Job):
                settle(job.future, why)
        self[:] = [job for job in self if isinstance(job, Transition)]

    def drop_cancelled(self) -> None:
        self[:] = [job for job in self if not job.future.cancelled()]

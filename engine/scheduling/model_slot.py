"""One model of the engine thread: its memory, its loads and unloads, its published status.

Belongs to the engine thread, except where a method says otherwise. Knows no other model.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from engine.errors import (
    EngineError,
    EngineStuck,
    ModelLoadFailed,
    NoModel,
    RequestCancelled,
)
from engine.generation import Generation
from engine.inference.backend import BatchLimits, LoadCancelled, LoadProgress
from engine.inference.loader import with_template
from engine.library.memory_need import MemoryNeed
from engine.library.model_files import model_name
from engine.library.model_info import ModelInfo
from engine.scheduling.call_queue import settle
from engine.scheduling.context import EngineContext
from engine.scheduling.failures import cause_of, raise_exits
from engine.scheduling.jobs import Job, PendingJobs, Source, Transition
from engine.scheduling.memory_plan import ModelMemory
from engine.scheduling.model_list import ModelState, ModelStatus, OfferedModel
from engine.scheduling.scheduler import Scheduler

if TYPE_CHECKING:
    from engine.inference.cache.index import MemoryUsage
    from engine.inference.mlx_backend import MlxBackend

_NO_CACHE: "Mapping[str, MemoryUsage]" = {}


class IdleTimer:
    """The idle time of one model.

    Attributes:
        max_s: After how many idle seconds its memory is freed; None for never.
        has_own_limit: Whether ``max_s`` was set for this model alone.
        ends_at_once: Whether its memory is freed as soon as nothing runs.
        since_s: Since when nobody uses it; ``used_s`` when an answer last began or ended.
        used_at: The same in Unix seconds; None before its first use.
    """

    def __init__(self, max_s: float | None) -> None:
        self.max_s = max_s
        self.has_own_limit = self.ends_at_once = False
        self.since_s = self.used_s = time.monotonic()
        self.used_at: float | None = None

    def note_use(self) -> None:
        self.used_s, self.used_at = time.monotonic(), time.time()

    @property
    def _limit_s(self) -> float | None:
        return 0.0 if self.ends_at_once else self.max_s

    @property
    def due_s(self) -> float | None:
        """In how many seconds its memory should be freed; None for never."""
        limit_s = self._limit_s
        return None if limit_s is None else max(0.0, self.since_s + limit_s - time.monotonic())

    @property
    def unloads_at(self) -> float | None:
        limit_s = self._limit_s
        return None if limit_s is None or self.used_at is None else self.used_at + limit_s


class ModelSlot:
    """Holds one model, which is in memory, or is loaded when it is next needed.

    ========  ====================  =========================  ===========  ===========
    state     known by              a request                  a load       an unload
    ========  ====================  =========================  ===========  ===========
    empty     no ``source``         is refused (``NoModel``)   begins       is done
    unloaded  ``_is_unloaded``      waits, has it loaded       begins       is done
    loading   ``loading``           waits                      waits        waits
    ready     ``scheduler``         runs                       once unused  once unused
    changing  ``transition``        waits                      waits        waits
    leaving   ``is_leaving``        waits for ``resume``       once unused  once unused
    stuck     ``stuck``             is refused while it hangs  begins       is done
    ========  ====================  =========================  ===========  ===========

    ``Models.load_next`` begins loads, one at a time, once there is memory; ``refuse_load`` ends one
    that never fits. A failed load leaves the model before it, unloaded, or an empty slot.
    """

    def __init__(
        self, context: EngineContext, offered: OfferedModel | None, max_idle_s: float | None
    ) -> None:
        self._context = context
        self.offered = offered
        # The model in memory, or the one to load when it is next needed.
        self.info: ModelInfo | None = None
        self.scheduler: Scheduler | None = None
        self.need: MemoryNeed | None = None
        self.cache_bytes = context.limits.prompt_cache_bytes
        # Why it hung, and the thread that may still hang in it.
        self.stuck: tuple[str, threading.Thread] | None = None
        self.is_pinned = offered is not None and offered.is_pinned
        # The load or unload that is due; jobs that wait behind it, or for the load.
        self.transition: Transition | None = None
        self._pending = PendingJobs()
        # Of the load that is under way.
        self.loading: Future[Any] | None = None
        # Whether it takes no more requests, so that it can be unloaded for another model.
        self.is_leaving = False
        self.idle = IdleTimer(max_idle_s)
        # The time of its steps, for turns among models.
        self.step_s = 0.0
        # The published status, and the same without its figures.
        self.status = self._base = ModelStatus(offered=offered, is_pinned=self.is_pinned)
        # The reason why a due load waits; empty where none waits.
        self._waiting_message = ""

    def restore(self, previous: "ModelSlot") -> None:
        """Take the place of a model whose thread has ended; it is loaded when it is needed."""
        self.info, self.stuck = previous.info, previous.stuck
        self.is_pinned, self.idle = previous.is_pinned, previous.idle
        self._set_status(previous.status)

    def end(self, cause: str = "") -> None:
        """Publish that its thread has ended, and ``cause`` if that is its own failure."""
        if self.stuck is not None:
            cause, _ = self.stuck
        self.status = replace(
            self.status,
            state="failed" if cause else "unloaded",
            message=cause,
            loading=None,
            memory_bytes=0,
            cache_use=_NO_CACHE,
            running=0,
            waiting=0,
            unloads_at=None,
            is_stuck=self.stuck is not None,
        )

    @property
    def backend(self) -> "MlxBackend | None":
        scheduler = self.scheduler  # the watchdog reads it while the engine thread may change it
        return None if scheduler is None else scheduler.backend

    @property
    def source(self) -> Source | None:
        if (info := self.info) is not None:
            draft = None if info.draft is None else info.draft.path
            return Source(info.path, draft, info.user_template)
        return None if self.offered is None else _source_of(self.offered)

    @property
    def name(self) -> str:
        if self.offered is not None:
            return self.offered.id
        return "" if self.info is None else self.info.id

    def set_offer(self, offered: OfferedModel) -> None:
        """Take a changed offer of it, perhaps of a model in another folder."""
        source = self.source
        self.offered = offered
        self.is_pinned = self.is_pinned or offered.is_pinned
        if self.info is not None:
            self.info = replace(self.info, id=offered.id)
        if self.backend is not None:
            self.backend.info = replace(self.backend.info, id=offered.id)
        self._set_status(replace(self._base, info=self._base.info and self.info))
        if source is None or (
            source.folder.resolve() == offered.folder.resolve()
            and source.user_template == offered.user_template
        ):
            return
        if self.backend is not None:
            self.begin(Transition(_source_of(offered), keeps_default=True))
        elif self.loading is None:
            self.info = None
            self._set_status(ModelStatus())

    @property
    def is_idle(self) -> bool:
        return self._is_unused and self.transition is None and not self._pending

    @property
    def _is_unused(self) -> bool:
        return self.scheduler is None or self.scheduler.is_idle

    @property
    def _is_unloaded(self) -> bool:
        return self.scheduler is None and self.source is not None and self.loading is None

    @property
    def is_running(self) -> bool:
        return self.scheduler is not None and self.scheduler.is_running

    @property
    def is_evictable(self) -> bool:
        return self.backend is not None and self._is_unused and self.transition is None

    @property
    def needs_load(self) -> bool:
        if self.loading is not None or not self._is_unused:
            return False
        if self.transition is not None:
            return self.transition.source is not None
        return self._is_unloaded and bool(self._pending)

    @property
    def memory(self) -> ModelMemory:
        scheduler, need = self.scheduler, self.need
        if scheduler is None:
            return ModelMemory(self.name, self.is_pinned)
        running = scheduler.running_bytes
        caches = scheduler.backend.batch.cached_bytes + running
        return ModelMemory(
            self.name,
            self.is_pinned,
            used=scheduler.backend.info.weights_bytes + caches,
            caches=caches,
            unfilled=0 if need is None else max(0, need.cache + need.headroom - caches),
            growing=scheduler.reserved_bytes - running,
        )

    def step(self) -> None:
        if self.scheduler is not None and self.scheduler.is_running:
            self._context.heartbeat.beat(self)
            self.scheduler.step()

    def advance(self, *, is_admission_paused: bool) -> None:
        """Fill the batch, and change the model if due."""
        if (scheduler := self.scheduler) is not None:
            self._context.heartbeat.beat(self)
            scheduler.is_admission_paused = is_admission_paused
            scheduler.fill()
        self._apply_transition()

    def _set_status(self, base: ModelStatus) -> None:
        self._base = base
        self.refresh_status()

    def refresh_status(self) -> None:
        """Publish the status with its figures, unless its thread was abandoned."""
        if self._context.heartbeat.is_stopped:
            return
        base, info = self._base, self._base.info
        running, waiting, cache_use = self._figures()
        self.status = replace(
            base,
            id=base.id if info is None else info.id,
            folder=base.folder if info is None else info.path,
            state="loading" if self._waiting_message else base.state,
            message=self._waiting_message or base.message,
            offered=self.offered,
            memory_bytes=self.memory.used,
            cache_use=cache_use,
            running=running,
            waiting=waiting,
            used_at=self.idle.used_at,
            unloads_at=self.idle.unloads_at if base.is_loaded and not self.is_pinned else None,
            is_pinned=self.is_pinned,
        )

    def refresh_figures(self) -> None:
        """Publish the status again if its figures have changed."""
        status, (running, waiting, cache_use) = self.status, self._figures()
        if running != status.running:
            self.idle.note_use()
        elif waiting == status.waiting and cache_use is status.cache_use:
            return
        self.refresh_status()

    def _figures(self) -> "tuple[int, int, Mapping[str, MemoryUsage]]":
        """Return how many answers run and wait, and the use of the prompt cache."""
        waiting, scheduler = self._pending.choices, self.scheduler
        if scheduler is None:
            return 0, waiting, _NO_CACHE
        use = scheduler.backend.batch.cache_use
        return len(scheduler.running), waiting + scheduler.waiting_answers, use

    def set_waiting_message(self, message: str) -> None:
        if message != self._waiting_message:
            self._waiting_message = message
            self.refresh_status()

    def set_pinned(self, is_pinned: bool) -> None:
        self.is_pinned = is_pinned
        self.refresh_status()

    def set_max_idle(self, idle_s: float | None) -> None:
        self.idle.max_s = idle_s
        self.refresh_status()

    def do(self, job: Job | Transition) -> None:
        self._context.heartbeat.beat(self)
        if self.stuck is not None:
            cause, thread = self.stuck
            if isinstance(job, Job) and thread.is_alive():
                why = EngineStuck(f"{cause}. Restart this model to use it again")
                settle(job.future, why)
                return
            self.stuck = None
        is_blocked = self._pending or self.transition is not None or self.loading is not None
        if is_blocked or (isinstance(job, Job) and (self._is_unloaded or self.is_leaving)):
            limits = self._context.limits
            self._pending.add(job, limits.max_rows + limits.max_waiting)
        elif isinstance(job, Transition):
            self.begin(job)
        elif not job.future.cancelled():
            self.idle.note_use()
            if self.scheduler is None:
                settle(job.future, self._no_model())
            else:
                self.idle.ends_at_once = False
                job.run(self.scheduler, job.future)

    def _no_model(self) -> NoModel:
        return NoModel(self._base.message or "no model is loaded")

    def _run_pending(self) -> None:
        pending, self._pending = self._pending, PendingJobs()
        for job in pending:  # from the first that has to wait on, all wait again
            self.do(job)

    def drop_cancelled(self) -> None:
        self._pending.drop_cancelled()
        if self.scheduler is not None:
            self.scheduler.drop_cancelled()
        self._apply_transition()

    def cancel(self, generations: Sequence[Generation]) -> None:
        if self.scheduler is not None:
            self._context.heartbeat.beat(self)
            self.scheduler.cancel(generations)

    def begin(self, transition: Transition) -> None:
        source, scheduler = transition.source, self.scheduler
        if (
            self.offered is not None
            and self.backend is not None
            and source is not None
            and self.source == source.resolved()
        ):
            settle(transition.future, self.backend.info)
            return
        self.transition = transition
        if transition.cancels_running and scheduler is not None:
            scheduler.cancel()
            scheduler.refuse_pending(RequestCancelled("cancelled for another model"))
        self._apply_transition()

    def _apply_transition(self) -> None:
        """Drop a cancelled load, and carry out an unload once nothing uses the model."""
        transition = self.transition
        if transition is None:
            return
        if transition.source is not None and transition.is_cancelled:
            self.transition = None
            self.set_waiting_message("")
            settle(transition.future, LoadCancelled())
            self._run_pending()
        elif transition.source is None and self._is_unused:
            self.transition = None
            self.close()
            self.info = None
            self._set_status(ModelStatus())
            settle(transition.future, None)
            self._run_pending()

    def load(self, step_others: Callable[[], None] | None) -> ModelInfo | EngineError:
        """Load the model that is due; if that fails, the one before it is loaded when needed.

        The outcome is for the future of its transition, which is not settled here.
        """
        transition, self.transition = self.transition, None
        source = self.source if transition is None else transition.source
        assert source is not None
        if not self._differs_in_template(source):
            self.close()
        self.stuck, self._waiting_message = None, ""
        self.loading = Future() if transition is None else transition.future
        outcome = self._load(source, transition, step_others)
        self.loading = None
        self._context.heartbeat.beat(self)
        # If another model was loaded instead, it answers the waiting requests.
        if self.backend is None and self.source == source:
            self._pending.refuse(self._no_model())
        return outcome

    def _load(
        self, source: Source, transition: Transition | None, step_others: Callable[[], None] | None
    ) -> ModelInfo | EngineError:
        folder, name = source.folder, model_name(source.folder)
        known = self.info if transition is None else None
        self._set_status(ModelStatus(name, folder, "loading", message=name, info=known))
        heartbeat, queue = self._context.heartbeat, self._context.queue

        def on_progress(progress: LoadProgress) -> None:
            if queue.is_closing or (transition is not None and transition.is_cancelled):
                raise LoadCancelled
            heartbeat.beat(self)
            self._set_status(replace(self._base, loading=progress))
            if step_others is not None:
                step_others()
                heartbeat.beat(self)

        heartbeat.beat(self)
        limits = self._context.limits
        batch = BatchLimits(
            limits.prefill_chunk,
            self.cache_bytes,
            limits.max_rows,
            not limits.plain_decoding,
            self._context.disk,
        )
        try:
            if self.backend is not None:
                backend = with_template(self.backend, source.user_template)
            else:
                backend = self._context.loader(
                    folder,
                    limits=batch,
                    on_progress=on_progress,
                    draft=source.draft,
                    user_template=source.user_template,
                )
        except BaseException as caught:
            self.close()
            raise_exits(caught)
            error = caught
            if not isinstance(error, EngineError):
                error = ModelLoadFailed(cause_of(caught, folder, folder.resolve()))
                error.__cause__ = caught
            heartbeat.beat(self)
            message, is_cancelled = str(error), isinstance(error, LoadCancelled)
            if known is not None and not is_cancelled:
                message = f"reloading {known.id} failed: {message}"
            info = None if queue.is_closing else self.info
            state: ModelState = "failed" if info is None and not is_cancelled else "unloaded"
            self._set_status(ModelStatus(state=state, message=message, info=info))
            return error
        heartbeat.beat(self)
        if self.offered is not None:
            backend.info = replace(backend.info, id=self.offered.id)
        self.info = backend.info
        self.scheduler = Scheduler(backend, self._context)
        self._set_status(ModelStatus(state="ready", info=backend.info))
        return backend.info

    def _differs_in_template(self, source: Source) -> bool:
        """Whether only the chat template differs from the model in memory."""
        present = self.source
        return (
            self.backend is not None
            and present is not None
            and present.user_template != source.user_template
            and present.resolved()[:2] == source.resolved()[:2]
        )

    def refuse_load(self, why: ModelLoadFailed) -> None:
        """Refuse the load that is due, before it begins, and the jobs that wait for it."""
        transition, self.transition = self.transition, None
        self._waiting_message = ""
        if self.backend is None:
            state: ModelState = "unloaded" if self.info is not None else "failed"
            self._set_status(ModelStatus(state=state, info=self.info, message=str(why)))
            self._pending.refuse(NoModel(str(why)))
        if transition is not None:
            settle(transition.future, why)

    def resume(self) -> None:
        self.is_leaving = False
        self._run_pending()

    def unload_when_idle(self) -> None:
        """Free the memory as soon as nothing runs; a request that comes first keeps it."""
        if self.stuck is not None:  # the next request loads it again
            self.stuck = None
            self._set_status(ModelStatus(info=self.info))
        self.idle.ends_at_once = self.scheduler is not None

    @property
    def unload_due_s(self) -> float | None:
        is_kept = self.is_pinned and not self.idle.ends_at_once
        return None if self.backend is None or is_kept else self.idle.due_s

    def unload(self) -> None:
        """Free the memory of the model, which nothing may be using; it still counts as loaded."""
        self._context.heartbeat.beat(self)
        if self.backend is not None:
            self.close()
            self._set_status(ModelStatus(info=self.info))

    def close(self) -> None:
        scheduler, self.scheduler = self.scheduler, None
        self.idle.ends_at_once = False
        if scheduler is not None:
            scheduler.backend.close()


def _source_of(offered: OfferedModel) -> Source:
    return Source(offered.folder, offered.draft, offered.user_template)

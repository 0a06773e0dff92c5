"""One model of the engine thread: its memory, its loads and unloads, its published status.

Belongs to the engine thread, except where a method says otherwise. Knows no other model.
"""

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import wait
from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING, Any

from engine.errors import (
    EngineError,
    EngineStuck,
    ModelLoadFailed,
    NoModel,
    RequestCancelled,
)
from engine.inference.backend import BatchLimits, LoadCancelled, LoadProgress
from engine.inference.loader import with_template
from engine.library.memory_need import MemoryNeed
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
        limit_s = self._limit_s
        return None if limit_s is None else max(0.0, self.since_s + limit_s - time.monotonic())

    @property
    def unloads_at(self) -> float | None:
        limit_s = self._limit_s
        return None if limit_s is None or self.used_at is None else self.used_at + limit_s


class SlotState(Enum):
    """The states of a model: each with the published one, and a number to tell them apart."""

    UNLOADED = "unloaded", 0
    FAILED = "failed", 0
    STUCK = "failed", 1
    WAITING = "loading", 0
    LOADING = "loading", 1
    READY = "ready", 0
    LEAVING = "ready", 1

    @property
    def shown(self) -> ModelState:
        return self.value[0]


class ModelSlot:
    """Holds one model, which is in memory, or is loaded when it is next needed.

    ========  ======================  ============  ============  ============================
    state     a request               a load        an unload     then
    ========  ======================  ============  ============  ============================
    UNLOADED  waits, has it loaded;   due at once   is done       WAITING, LOADING
    FAILED    refused without source  due at once   is done       as UNLOADED
    STUCK     refused while it hangs  due at once   is done       FAILED once its thread ends
    WAITING   waits                   waits         waits         LOADING once there is memory
    LOADING   waits                   waits         waits         READY, FAILED, UNLOADED
    READY     runs                    once unused   once unused   LOADING, UNLOADED
    LEAVING   waits                   once unused   once unused   UNLOADED, or READY again
    ========  ======================  ============  ============  ============================

    While a ``transition`` is due, all wait. ``Models.load_next`` begins loads, one at a time;
    ``refuse_load`` ends a load that never fits. A failed load leaves the model before it, unloaded.
    A LEAVING model takes no more requests, so that it can be unloaded for another one.
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
        # The thread that may still hang in a STUCK model.
        self.stuck_thread: threading.Thread | None = None
        self.is_pinned = offered is not None and offered.is_pinned
        # The load or unload that is due or under way; jobs that wait behind it, or for the load.
        self.transition: Transition | None = None
        self._pending = PendingJobs()
        self.idle = IdleTimer(max_idle_s)
        # The time of its steps, for turns among models.
        self.step_s = 0.0
        self.state = SlotState.UNLOADED
        self.status = ModelStatus(offered=offered, is_pinned=self.is_pinned)

    def restore(self, previous: "ModelSlot") -> None:
        """Take the place of a model whose thread has ended; it is loaded when it is needed."""
        self.info, self.stuck_thread = previous.info, previous.stuck_thread
        self.is_pinned, self.idle = previous.is_pinned, previous.idle
        self.state, self.status = previous.state, previous.status
        self.refresh_status()

    def end(self, cause: str = "", stuck_thread: threading.Thread | None = None) -> None:
        """Publish that its thread has ended, and ``cause`` if that is its own failure."""
        if stuck_thread is not None:
            self.state, self.stuck_thread = SlotState.STUCK, stuck_thread
        elif self.state is SlotState.STUCK:
            cause = self.status.message
        else:
            self.state = SlotState.FAILED if cause else SlotState.UNLOADED
        self.status = replace(
            self.status,
            state=self.state.shown,
            message=cause,
            loading=None,
            memory_bytes=0,
            cache_use=_NO_CACHE,
            running=0,
            waiting=0,
            unloads_at=None,
            is_stuck=self.state is SlotState.STUCK,
        )

    @property
    def backend(self) -> "MlxBackend | None":
        scheduler = self.scheduler  # the watchdog reads it while the engine thread may change it
        return None if scheduler is None else scheduler.backend

    @property
    def source(self) -> Source | None:
        if (info := self.info) is not None:
            draft = None if info.draft is None else info.draft.path
            return Source(info.path, draft, info.base, info.user_template)
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
        self.refresh_status(info=self.status.info and self.info)
        new = _source_of(offered)
        if source is None or source.resolved()._replace(draft=None) == new.resolved()._replace(
            draft=None
        ):
            return
        if self.backend is not None or self.state is SlotState.LOADING:
            self.do(Transition(new, keeps_default=True))
        else:
            self.info = None
            self._enter(SlotState.UNLOADED)

    @property
    def is_idle(self) -> bool:
        return self._is_unused and self.transition is None and not self._pending

    @property
    def _is_unused(self) -> bool:
        return self.scheduler is None or self.scheduler.is_idle

    @property
    def is_running(self) -> bool:
        return self.scheduler is not None and self.scheduler.is_running

    @property
    def is_evictable(self) -> bool:
        return self.backend is not None and self._is_unused and self.transition is None

    @property
    def needs_load(self) -> bool:
        if self.state is SlotState.LOADING or not self._is_unused:
            return False
        if self.transition is not None:
            return self.transition.source is not None
        return self.scheduler is None and self.source is not None and bool(self._pending)

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
            base=scheduler.backend.info.model_folder,
            shared=scheduler.backend.info.shared_bytes,
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

    def _enter(self, state: SlotState, message: str = "", **fields: Any) -> None:
        if not self._context.heartbeat.is_stopped:
            self.state = state
            self._publish(ModelStatus(message=message, **{"info": self.info, **fields}))

    def refresh_status(self, **changes: Any) -> None:
        self._publish(replace(self.status, **changes))

    def _publish(self, status: ModelStatus) -> None:
        """Publish a status with the figures of now, unless the thread was abandoned."""
        if self._context.heartbeat.is_stopped:
            return
        info, is_loaded = status.info, self.backend is not None
        running, waiting, cache_use = self._figures()
        self.status = replace(
            status,
            id=status.id if info is None else info.id,
            folder=status.folder if info is None else info.path,
            state=self.state.shown,
            offered=self.offered,
            memory_bytes=self.memory.used,
            cache_use=cache_use,
            running=running,
            waiting=waiting,
            used_at=self.idle.used_at,
            unloads_at=self.idle.unloads_at if is_loaded and not self.is_pinned else None,
            is_pinned=self.is_pinned,
            is_stuck=self.state is SlotState.STUCK,
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

    def wait_for_memory(self, message: str) -> None:
        if self.state is not SlotState.WAITING or message != self.status.message:
            self.state = SlotState.WAITING
            self.refresh_status(message=message)

    def stop_waiting(self) -> None:
        if self.state is SlotState.WAITING:
            self._enter(SlotState.UNLOADED if self.scheduler is None else SlotState.READY)

    def set_pinned(self, is_pinned: bool) -> None:
        self.is_pinned = is_pinned
        self.refresh_status()

    def do(self, job: Job | Transition) -> None:
        self._context.heartbeat.beat(self)
        if self.state is SlotState.STUCK:
            cause, thread = self.status.message, self.stuck_thread
            if isinstance(job, Job) and thread is not None and thread.is_alive():
                why = EngineStuck(f"{cause}. Restart this model to use it again")
                settle(job.future, why)
                return
            self.state = SlotState.FAILED
            self.refresh_status()
        has_to_wait = self._pending or self.transition or self.state is SlotState.LOADING
        is_ready = self.state is SlotState.READY or self.source is None
        if has_to_wait or (isinstance(job, Job) and not is_ready):
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
        return NoModel(self.status.message or "no model is loaded")

    @property
    def pending_transitions(self) -> list[Transition]:
        return [job for job in self._pending if isinstance(job, Transition)]

    def _run_pending(self) -> None:
        pending, self._pending = self._pending, PendingJobs()
        for job in pending:  # from the first that has to wait on, all wait again
            self.do(job)

    def drop_cancelled(self) -> None:
        self._pending.drop_cancelled()
        if self.scheduler is not None:
            self.scheduler.drop_cancelled()
        self._apply_transition()

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
        if transition is None or self.state is SlotState.LOADING:
            return
        if transition.source is not None and transition.is_cancelled:
            self.transition = None
            self.stop_waiting()
            settle(transition.future, LoadCancelled())
            self._run_pending()
        elif transition.source is None and self._is_unused:
            self.transition = None
            self.close()
            self.info = None
            self._enter(SlotState.UNLOADED)
            settle(transition.future, None)
            self._run_pending()

    def load(self, step_others: Callable[[], None] | None) -> ModelInfo | EngineError:
        """Load the model that is due; if that fails, the one before it is loaded when needed.

        The outcome is for the future of its transition, which is not settled here.
        """
        transition = self.transition
        source = self.source if transition is None else transition.source
        assert source is not None
        if not self._differs_in_template(source):
            self.close()
        outcome = self._load(source, transition, step_others)
        self._context.heartbeat.beat(self)
        self.transition = None
        # If another model was loaded instead, it answers the waiting requests.
        if self.backend is None and self.source == source:
            self._pending.refuse(self._no_model())
        return outcome

    def _load(
        self, source: Source, transition: Transition | None, step_others: Callable[[], None] | None
    ) -> ModelInfo | EngineError:
        folder, name = source.folder, source.name
        known = self.info if transition is None else None
        self._enter(SlotState.LOADING, name, id=name, folder=folder, info=known)
        heartbeat, queue = self._context.heartbeat, self._context.queue

        def on_progress(progress: LoadProgress) -> None:
            if queue.is_closing or (transition is not None and transition.is_cancelled):
                raise LoadCancelled
            heartbeat.beat(self)
            self.refresh_status(loading=progress)
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
            cache_bits=limits.prompt_cache_bits,
        )
        try:
            if self.backend is not None:
                # On another thread: a tokenizer takes seconds, and other models go on meanwhile.
                task = self._context.question_pool.submit(
                    with_template, self.backend, source.user_template
                )
                while not wait([task], 0.02).done:
                    on_progress(LoadProgress("tokenizer"))
                backend = task.result()
            else:
                backend = self._context.loader(
                    folder,
                    limits=batch,
                    on_progress=on_progress,
                    draft=source.draft,
                    user_template=source.user_template,
                    base=source.base,
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
            has_failed = self.info is None and not is_cancelled
            self._enter(SlotState.FAILED if has_failed else SlotState.UNLOADED, message)
            return error
        heartbeat.beat(self)
        if self.offered is not None:
            backend.info = replace(backend.info, id=self.offered.id)
        self.info = backend.info
        self.scheduler = Scheduler(backend, self._context)
        self.idle.since_s = time.monotonic()
        self._enter(SlotState.READY)
        return backend.info

    def _differs_in_template(self, source: Source) -> bool:
        """Whether only the chat template differs from the model in memory."""
        present = self.source
        return (
            self.backend is not None
            and present is not None
            and present.user_template != source.user_template
            and present.resolved()[:3] == source.resolved()[:3]
        )

    def refuse_load(self, why: ModelLoadFailed) -> None:
        """Refuse the load that is due, before it begins, and the jobs that wait for it."""
        transition, self.transition = self.transition, None
        self.stop_waiting()
        if self.backend is None:
            self._enter(SlotState.UNLOADED if self.info else SlotState.FAILED, str(why))
            self._pending.refuse(NoModel(str(why)))
        if transition is not None:
            settle(transition.future, why)

    def resume(self) -> None:
        if self.state is SlotState.LEAVING:
            self.state = SlotState.READY
        self._run_pending()

    def unload_when_idle(self) -> None:
        """Free the memory as soon as nothing runs; a request that comes first keeps it."""
        if self.state is SlotState.STUCK:  # the next request loads it again
            self._enter(SlotState.UNLOADED)
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
            self._enter(SlotState.UNLOADED)

    def close(self) -> None:
        scheduler, self.scheduler = self.scheduler, None
        self.idle.ends_at_once = False
        if scheduler is not None:
            scheduler.backend.close()


def _source_of(offered: OfferedModel) -> Source:
    return Source(offered.folder, offered.draft, offered.base, offered.user_template)

"""All models of the engine thread: which are in memory, whose turn it is, and their memory.

Models take turns step by step; each gets the same share of the time while it has answers. They are
loaded one at a time, and while one is loaded, the others take steps between two parts of the
loading. If memory is short, the least recently used model without answers is unloaded. If all have
answers, one of them takes no more requests until it can be unloaded. Engine thread only, except
where a method says otherwise.
"""

import contextlib
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from engine.errors import ModelLoadFailed
from engine.generation import Generation
from engine.library.memory_need import MemoryNeed, need
from engine.scheduling.call_queue import settle
from engine.scheduling.context import EngineContext
from engine.scheduling.jobs import Job, Source, Transition
from engine.scheduling.memory_plan import MemoryPlanner, ModelMemory, count_shared_once
from engine.scheduling.model_list import OfferedModel
from engine.scheduling.model_slot import ModelSlot, SlotState
from engine.stopping.record import StopKind


class Models:
    """The models of the engine thread. With one model, all requests are for it."""

    def __init__(self, context: EngineContext, previous: "Models | None" = None) -> None:
        self._context = context
        self._memory = MemoryPlanner(context.limits)
        self.max_idle_s: float | None = None
        # The models with work at the last step, and the time that the stepped one had used.
        self._busy: list[ModelSlot] = []
        self._turn_s = 0.0
        self.models: list[ModelSlot] = []
        self._by_id: dict[str, ModelSlot] = {}
        # The models to load, in order.
        self._load_queue: list[ModelSlot] = []
        if previous is None:
            self.default = self._add(None)
        else:
            self.max_idle_s = previous.max_idle_s
            for old in previous.models.copy():
                model = self._add(old.offered)
                model.restore(old)
                if old is previous.default:
                    self.default = model
        self._last_stepped = self.default
        context.statuses.show(self.models, self.default)

    def _add(self, offered: OfferedModel | None) -> ModelSlot:
        """Add one of several models, or a slot for any model that is loaded."""
        model = ModelSlot(self._context, offered, self.max_idle_s)
        self.models.append(model)
        if offered is not None:
            self._by_id[offered.id] = model
        return model

    def find(self, offered: OfferedModel | None) -> ModelSlot:
        if offered is None:
            return self.default
        model = self._by_id.get(offered.id)
        if model is not None:
            if model.offered != offered:
                model.set_offer(offered)
            return model
        default = self.default
        source = default.source if default.offered is None else None
        if source is not None and source.folder.resolve() == offered.folder.resolve():
            # The only model so far becomes the first of several.
            default.set_offer(offered)
            self._by_id[offered.id] = default
            return default
        return self._add(offered)

    def _set_default(self, model: ModelSlot) -> None:
        before, self.default = self.default, model
        if not self._context.heartbeat.is_stopped:
            self._context.statuses.show(self.models, model)
        if before is not model and before.source is None and before.is_idle:
            self.models.remove(before)
            if self._last_stepped is before:
                self._last_stepped = model

    def _others(self, model: ModelSlot) -> list[ModelSlot]:
        return [other for other in self.models if other is not model and other.backend is not None]

    def _memory_beside(self, model: ModelSlot, base: Path) -> tuple[list[ModelMemory], int]:
        """Return the others' memory beside a model of ``base``, and its weights in theirs.

        The weights of a base are in memory once for all models that share them.
        """
        others = [other.memory for other in self._others(model)]
        resident = max((other.shared for other in others if other.base == base), default=0)
        return count_shared_once(others, base), resident

    @property
    def is_idle(self) -> bool:
        return all(model.is_idle for model in self.models)

    @property
    def waits_for_prompts(self) -> bool:
        schedulers = [model.scheduler for model in self.models if model.scheduler is not None]
        if any(scheduler.is_running or scheduler.is_starved for scheduler in schedulers):
            return False
        is_blocked = any(model.state is SlotState.WAITING for model in self.models)
        needs_load = any(model.needs_load for model in self.models)
        is_waiting = any(not scheduler.is_idle for scheduler in schedulers)
        return is_waiting and (is_blocked or not needs_load)

    @property
    def is_running(self) -> bool:
        return any(model.is_running for model in self.models)

    def step(self) -> None:
        if len(self.models) == 1:
            self.models[0].step()
            return
        busy = [model for model in self.models if model.is_running]
        for model in busy:
            if model not in self._busy:  # it gets no extra time for having been idle
                model.step_s = max(model.step_s, self._turn_s)
        self._busy = busy
        if not busy:
            return
        model = min(busy, key=lambda model: model.step_s)
        self._turn_s = model.step_s
        if model is not self._last_stepped:
            if model.backend is not None:
                model.backend.batch.resume()
            self._last_stepped = model
        begin_s = time.perf_counter()
        model.step()
        model.step_s += time.perf_counter() - begin_s

    def advance(self) -> None:
        """Fill the batches, and unload models if due."""
        if len(self.models) > 1 and any(
            model.scheduler is not None and model.scheduler.waiting for model in self.models
        ):
            self.refresh_plans()
        starved = [one for one in self.models if one.scheduler and one.scheduler.is_starved]
        for model in self.models.copy():
            model.advance(is_admission_paused=bool(starved) and model not in starved)
        for model in starved:
            self._relieve(model)
        if len(self.models) > 1:
            self.unload_idle()

    def _relieve(self, model: ModelSlot) -> None:
        scheduler = model.scheduler
        while scheduler is not None and scheduler.is_starved:
            others = _by_last_use(self._others(model))
            idle = next((other for other in others if other.is_evictable), None)
            if idle is not None:
                idle.unload()
                self.refresh_plans()
                scheduler.fill()
            elif any(other.is_running for other in others):
                break  # their answers have to end first
            else:
                scheduler.fill(is_forced=True)

    def refresh_plans(self) -> None:
        """Plan the memory for answers anew: before each call, and whenever models change."""
        for model in self.models:
            if (scheduler := model.scheduler) is not None:
                info = scheduler.backend.info
                others, _ = self._memory_beside(model, info.model_folder)
                scheduler.plan = self._memory.plan(model.memory, info, others)

    def refresh_statuses(self) -> None:
        for model in self.models:
            model.refresh_figures()

    def do(self, offered: OfferedModel | None, job: Job | Transition) -> None:
        transition = job if isinstance(job, Transition) else None
        is_unload = transition is not None and transition.source is None
        if is_unload and offered is None and self.default.offered is not None:
            # The default one of several models is unloaded: afterwards there is no default.
            removed = self.default
            self._set_default(self._add(None))
            removed.do(job)
            return
        model = self.find(offered)
        model.idle.since_s = time.monotonic()
        # Before ``do``, which may settle the future: its waiter reads the default one at once.
        if model.backend is not None or self.default.source is None:
            self._choose_default(model, transition)
        model.do(job)

    def _choose_default(self, model: ModelSlot, transition: Transition | None) -> None:
        """Make a model the default one if it is loaded because somebody chose it."""
        if transition is None or transition.source is None or transition.keeps_default:
            return
        if model is not self.default:
            self._set_default(model)

    def set_max_idle(self, offered: OfferedModel | None, idle_s: float | None) -> None:
        """Unload a model, or all without a time of their own, after ``idle_s``; None never does."""
        if offered is None:
            self.max_idle_s = idle_s
            models = [model for model in self.models if not model.idle.has_own_limit]
        else:
            models = [self.find(offered)]
            models[0].idle.has_own_limit = True
        for model in models:
            model.idle.max_s = idle_s
            model.refresh_status()

    def forget_prompts(self, owner: str) -> tuple[int, int]:
        backends = [model.backend for model in self.models if model.backend is not None]
        evicted = [backend.forget_prompts(owner) for backend in backends]
        self.refresh_statuses()  # the caller may read the figures at once
        return sum(count for count, _ in evicted), sum(size for _, size in evicted)

    def cancel(self, generations: Sequence[Generation]) -> None:
        for model in self.models:
            if model.scheduler is not None:
                self._context.heartbeat.beat(model)
                model.scheduler.cancel(generations)

    def drop_cancelled(self) -> None:
        for model in self.models:
            model.drop_cancelled()

    def load_next(self, step_others: Callable[[], None]) -> None:
        given_up = [model for model in self._load_queue if not model.needs_load]
        if given_up:  # nobody waits for these any more
            self._load_queue = [model for model in self._load_queue if model.needs_load]
            for model in given_up:
                model.stop_waiting()
            self._recheck_blocked_models()
        self._load_queue += [
            model for model in self.models if model.needs_load and model not in self._load_queue
        ]
        if not self._load_queue:
            return
        model = self._load_queue[0]
        transition = model.transition
        try:
            if not self._make_memory(model):
                return
        except ModelLoadFailed as error:
            del self._load_queue[0]
            model.refuse_load(error)
            self._recheck_blocked_models()
            return
        del self._load_queue[0]
        outcome = model.load(step_others if len(self.models) > 1 else None)
        if model.backend is not None:
            # Somebody may have chosen it meanwhile.
            for chosen in (transition, *model.pending_transitions):
                self._choose_default(model, chosen)
        if transition is not None:
            settle(transition.future, outcome)
        self._recheck_blocked_models()

    def _recheck_blocked_models(self) -> None:
        self.refresh_plans()
        for model in self.models:
            model.resume()

    def _make_memory(self, model: ModelSlot) -> bool:
        """Evict models for the next load; False if it must wait."""
        transition = model.transition
        source = model.source if transition is None else transition.source
        if source is None:
            return True
        planner, size, others = self._memory, _need_of(source), self._others(model)
        if size is not None:
            base = (source.base or source.folder).resolve()
            if model.offered is None:
                planner.check_alone(source.folder, size)
            else:
                memories, _ = self._memory_beside(model, base)
                planner.check(source.folder, size, [one for one in memories if one.is_pinned])
            while others and not planner.fits(size, *self._memory_beside(model, base)):
                if not self._evict_one(model, others):
                    # All others are pinned: it fits only if other programs free memory.
                    if all(other.is_pinned for other in others):
                        break
                    return False
                others = self._others(model)
        if model.offered is None:
            model.need, model.cache_bytes = None, self._context.limits.prompt_cache_bytes
        else:
            model.need, model.cache_bytes = size, planner.cache_bytes(size)
        return True

    def _evict_one(self, model: ModelSlot, others: Sequence[ModelSlot]) -> bool:
        """Unload an idle model; False if all have answers, and one takes no more requests."""
        candidates = _by_last_use(others)
        for other in candidates:
            if other.is_evictable:
                other.unload()
                return True
        if candidates:
            leaving = next(
                (other for other in candidates if other.state is SlotState.LEAVING), candidates[0]
            )
            leaving.state = SlotState.LEAVING
            model.wait_for_memory(f"waiting for memory: {leaving.name} is still answering")
        return False

    def reset_idle_time(self) -> None:
        now_s = time.monotonic()
        for model in self.models:
            if len(self.models) == 1 or not model.is_idle:
                model.idle.since_s = now_s

    @property
    def unload_due_s(self) -> float | None:
        waits_s = (model.unload_due_s for model in self.models)
        return min((wait_s for wait_s in waits_s if wait_s is not None), default=None)

    def unload_idle(self) -> None:
        for model in self.models:
            if model.is_idle and model.unload_due_s == 0.0:
                model.unload()

    def end_answers(self, kind: StopKind, error: str | None = None) -> None:
        for model in self.models:
            if model.scheduler is not None:
                model.scheduler.end_answers(kind, error)

    def push_pending_events(self) -> None:
        """Give readers the text that waits for the next delivery. Any thread, while this hangs."""
        for model in self.models.copy():
            if model.scheduler is not None:
                for answer in [*model.scheduler.running.values()]:
                    answer.generation.push(answer.builder.take_events())

    def close(self) -> None:
        for model in self.models:
            with contextlib.suppress(Exception):  # after a fault, this may fail as well
                model.close()

    def detach(self) -> None:
        """Drop the models of an abandoned thread, so that their memory is free. Any thread."""
        for model in self.models.copy():
            with contextlib.suppress(Exception):
                model.scheduler = None


def _need_of(source: Source) -> MemoryNeed | None:
    try:
        return need(source.folder, source.draft, source.base)
    except (ModelLoadFailed, OSError):
        return None


def _by_last_use(models: Sequence[ModelSlot]) -> list[ModelSlot]:
    """Return the models that may be unloaded for another one, the least recently used first."""
    return sorted(
        (model for model in models if not model.is_pinned), key=lambda model: model.idle.used_s
    )

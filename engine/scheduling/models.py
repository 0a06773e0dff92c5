"""All models of the engine thread: which is loaded, whose turn it is, and their memory.

Models take turns step by step; each gets the same share of the time while it has answers. They are
loaded one at a time, and while one is loaded, the others take steps between two parts of the
loading. If memory is short, the least recently used model without answers is unloaded. If all have
answers, one of them takes no more requests until it can be unloaded. Engine thread only, except
where a method says otherwise.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

from engine.errors import EngineError, ModelLoadFailed
from engine.inference.backend import Step
from engine.inference.loader import Loader
from engine.library.memory import Memory, MemoryNeed, memory, need
from engine.library.models import model_name
from engine.scheduling.admission import AnswerMemory
from engine.scheduling.generation import Generation, Outbox
from engine.scheduling.inbox import (
    Cancel,
    Command,
    ForgetPrompts,
    Inbox,
    Load,
    Pin,
    Rendered,
    Shutdown,
    Unload,
    UnloadAfter,
)
from engine.scheduling.loaded_model import Hang, LeftModel, LoadedModel, Source
from engine.scheduling.model_list import ModelList, ModelStatus, OfferedModel
from engine.scheduling.preparation import Preparation
from engine.scheduling.pulse import Pulse
from engine.scheduling.scheduler import Scheduler
from engine.stopping.record import StopKind
from engine.values.request import Limits
from engine.wording import size_in_words

if TYPE_CHECKING:
    from engine.inference.mlx_backend import MlxBackend

# How often the engine checks, while others answer, whether a model should be unloaded.
_LOOK_EVERY_S = 0.25
T = TypeVar("T")


class Turns(Generic[T]):
    """Gives turns by the time that each has used, not by the number of turns.

    A model whose steps take ten times as long gets a tenth of the steps, so a small model stays
    fast beside a large one. A model that was idle gets no extra time for that.
    """

    def __init__(self) -> None:
        self._spent_s: dict[T, float] = {}
        self._busy: Sequence[T] = ()
        self._clock_s = 0.0

    def next(self, busy: Sequence[T]) -> T:
        """Return whose turn it is, among those that have something to do; at least one."""
        for holder in busy:
            if holder not in self._busy:
                self._spent_s[holder] = max(self._spent_s.get(holder, 0.0), self._clock_s)
        self._busy = busy
        chosen = min(busy, key=self._spent_s.__getitem__)
        self._clock_s = self._spent_s[chosen]
        return chosen

    def took(self, holder: T, duration_s: float) -> None:
        """Note how long a turn took."""
        self._spent_s[holder] += duration_s

    def rest(self) -> None:
        """Note that nobody has anything to do."""
        self._busy = ()

    def forget(self, holder: T) -> None:
        """Forget one that will not come back."""
        self._spent_s.pop(holder, None)
        self._busy = [other for other in self._busy if other != holder]


class MemoryBudget:
    """The memory that all models may take together. Reads sizes of files, never the weights."""

    def __init__(self, limits: Limits) -> None:
        self._most = limits.memory_bytes
        self._cache_bytes = limits.prompt_cache_bytes

    def need_of(self, source: Source) -> MemoryNeed | None:
        """Return the memory that a model needs; None where its folder does not tell.

        Loading it then reports what is wrong with the folder.
        """
        try:
            return need(source.folder, source.draft)
        except (ModelLoadFailed, OSError):
            return None

    def check(self, source: Source, wanted: MemoryNeed, pinned: Sequence[LoadedModel]) -> None:
        """Make sure that one of several models fits once all models that may leave have left."""
        limit = self.max_bytes
        left = limit - sum(map(held_bytes, pinned))
        if wanted.total <= left:
            return
        room = f"models may take {size_in_words(limit)} together"
        remedy = "choose a smaller model, or one of fewer bits"
        if wanted.total <= limit:
            names = ", ".join(model.name for model in pinned)
            room += f", of which {names} take {size_in_words(limit - left)} and are pinned"
            remedy = "unpin one of them"
        raise ModelLoadFailed(f"{model_name(source.folder)} {_words(wanted)}; {room}: {remedy}")

    def check_alone(self, source: Source, wanted: MemoryNeed) -> None:
        """Refuse an only model that certainly does not fit."""
        total = memory().total
        if self._most is not None:
            self.check(source, wanted, [])
        elif total and wanted.weights > total:
            raise ModelLoadFailed(
                f"{model_name(source.folder)} {_words(wanted)}; this computer has "
                f"{size_in_words(total)}: choose a smaller model, or one of fewer bits"
            )

    @property
    def max_bytes(self) -> int:
        """The memory that all models may take together."""
        return memory().usable if self._most is None else self._most

    def has_room(self, wanted: MemoryNeed, others: Sequence[LoadedModel]) -> bool:
        """Whether a model fits beside others that stay."""
        if wanted.total > self.max_bytes - sum(map(held_bytes, others)):
            return False
        if self._most is not None or not others:
            return True
        # Other programs use memory, too. And memory that the others will still fill is not free.
        return wanted.total <= memory().available - sum(map(_unfilled_bytes, others))

    def cache_bytes(self, wanted: MemoryNeed | None) -> int:
        """Return the most bytes that one of several models may take for cached prompts."""
        if wanted is None:
            return self._cache_bytes
        return min(self._cache_bytes, wanted.cache + wanted.headroom)

    def machine(self, model: LoadedModel, others: Sequence[LoadedModel]) -> Memory:
        """Return the memory that a model and its answers may use beside the other models.

        What is planned for other models counts only while they use it, unless they are pinned:
        answers of theirs that come later wait. What the model's own answers and cached prompts
        take counts as available: they have it already, and cached prompts give way.
        """
        unfilled = sum(map(_reserved_bytes, others))
        now, held = memory(), sum(map(taken_bytes, others)) + unfilled
        backend = model.backend
        weights = 0 if backend is None else backend.info.weights_bytes
        if self._most is None:
            own = max(0, taken_bytes(model) - weights)
            return Memory(now.usable - held, max(0, now.available + own - unfilled), now.total)
        left = max(0, self._most - held)
        return Memory(left, max(0, left - weights), now.total)

    def largest(self, model: LoadedModel, others: Sequence[LoadedModel]) -> Memory:
        """Return the memory that a model may use once all others have left that may."""
        pinned = [other for other in others if other.is_pinned]
        free = self.machine(model, pinned)
        if self._most is not None:
            return free
        freed = sum(taken_bytes(other) for other in others if other not in pinned)
        return Memory(free.usable, free.available + freed, free.total)


def taken_bytes(model: LoadedModel) -> int:
    """Return the memory that the weights and caches of a model take now."""
    backend = model.backend
    if backend is None:
        return 0
    return backend.info.weights_bytes + backend.batch.cache_use.size_bytes + model.running_bytes


def held_bytes(model: LoadedModel) -> int:
    """Return the memory of a model: its weights, and its caches or their estimate, if more."""
    return taken_bytes(model) + max(
        _unfilled_bytes(model), model.reserved_bytes - model.running_bytes
    )


def _reserved_bytes(model: LoadedModel) -> int:
    """Return how much memory is reserved for a model that it has not taken yet."""
    running = model.reserved_bytes - model.running_bytes
    return max(running, _unfilled_bytes(model)) if model.is_pinned else running


def _unfilled_bytes(model: LoadedModel) -> int:
    """Return how much of the estimate for a model's caches it has not taken yet."""
    backend = model.backend
    if model.need is None or backend is None:
        return 0
    caches = taken_bytes(model) - backend.info.weights_bytes
    return max(0, model.need.cache + model.need.headroom - caches)


def _words(wanted: MemoryNeed) -> str:
    return (
        f"needs {size_in_words(wanted.total)} of memory ({size_in_words(wanted.weights)} of "
        f"weights, {size_in_words(wanted.cache)} for {wanted.context:,} tokens of context, "
        f"{size_in_words(wanted.headroom)} to compute with)"
    )


class Models:
    """The models of the engine thread. With one model, all requests are for it."""

    def __init__(
        self,
        limits: Limits,
        loader: Loader,
        inbox: Inbox,
        outbox: Outbox,
        preparation: Preparation,
        model_list: ModelList,
        pulse: Pulse,
        left: Sequence[LeftModel] = (),
    ) -> None:
        self._limits = limits
        self._loader = loader
        self._inbox = inbox
        self._outbox = outbox
        self._list = model_list
        self._pulse = pulse
        self._budget = MemoryBudget(limits)
        self._preparation = preparation
        self._max_idle_s: float | None = None
        self._look_due_s = 0.0
        self._turns = Turns[LoadedModel]()
        self._models: list[LoadedModel] = []
        self._by_id: dict[str, LoadedModel] = {}
        # The models that are to be loaded, in order, and whether the first one waits for room.
        self._line: list[LoadedModel] = []
        self._is_blocked = False
        for previous in left:
            model = self._new(previous.offered)
            model.inherit(previous.info, previous.hang)
            if previous.is_default:
                self._default = model
        if not left:
            self._default = self._new(None)
        self._stepped = self._default
        model_list.choose(self._default.number)
        model_list.begin(min(model.number for model in self._models))

    # -- which models there are ------------------------------------------------------------

    def _new(self, offered: OfferedModel | None) -> LoadedModel:
        """Add one of several models, or a place for any model that is loaded."""

        def new_scheduler(backend: "MlxBackend") -> Scheduler:
            memory = AnswerMemory(
                backend,
                self._limits,
                machine=lambda: self._budget.machine(model, self._others(model)),
                largest=lambda: self._budget.largest(model, self._others(model)),
                total=lambda: self._budget.max_bytes,
                make_room=lambda: self._make_room(model),
            )
            return Scheduler(
                backend, self._limits, memory, self._inbox, self._outbox, self._preparation
            )

        model = LoadedModel(
            self._limits,
            self._loader,
            self._pulse,
            self._inbox.is_ending,
            self._list,
            new_scheduler,
            offered,
        )
        model.max_idle_s = self._max_idle_s
        self._models.append(model)
        if offered is not None:
            self._by_id[offered.id] = model
        return model

    def _find(self, offered: OfferedModel | None) -> LoadedModel:
        """Return one of several models, or the default one."""
        if offered is None:
            return self._default
        model = self._by_id.get(offered.id)
        if model is not None:
            if model.offered != offered:
                model.become(offered)
            return model
        default = self._default
        source = default.source if default.offered is None else None
        if source is not None and source.folder.resolve() == offered.folder.resolve():
            # The only model so far becomes the first of several.
            default.become(offered)
            self._by_id[offered.id] = default
            return default
        return self._new(offered)

    def _choose(self, model: LoadedModel) -> None:
        """Let a model answer requests that name none."""
        before, self._default = self._default, model
        self._list.choose(model.number)
        if before is not model and before.source is None and before.is_idle:
            self._models.remove(before)
            self._list.remove(before.number)
            self._turns.forget(before)
            if self._stepped is before:
                self._stepped = model

    def _others(self, model: LoadedModel) -> list[LoadedModel]:
        """Return the other models that are in memory."""
        return [other for other in self._models if other is not model and other.backend is not None]

    # -- what there is to do ---------------------------------------------------------------

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to do until a command comes."""
        return all(model.is_idle for model in self._models)

    @property
    def waits_for_prompts(self) -> bool:
        """Whether nothing can be done until a prompt has been rendered."""
        if any(model.has_answers or model.is_running for model in self._models):
            return False
        is_waiting = any(model.waits_for_prompts for model in self._models)
        return is_waiting and (self._is_blocked or not self._wants_load)

    @property
    def _wants_load(self) -> bool:
        return any(model.wants_load for model in self._models)

    @property
    def is_running(self) -> bool:
        """Whether answers are in a batch, or texts are read beside one."""
        return any(model.is_running for model in self._models)

    # -- one step --------------------------------------------------------------------------

    def decode(self) -> Step | BaseException | None:
        """Run one step of the model whose turn it is; None if no model has anything to run."""
        if len(self._models) == 1:
            return self._models[0].decode()
        busy = [model for model in self._models if model.is_running]
        if not busy:
            self._turns.rest()
            return None
        model = self._turns.next(busy)
        if model is not self._stepped:
            model.resume()
            self._stepped = model
        begin_s = time.perf_counter()
        outcome = model.decode()
        self._turns.took(model, time.perf_counter() - begin_s)
        return outcome

    def advance(self, outcome: Step | BaseException | None) -> None:
        """Give the answers the tokens of the step, fill free places, and remove models if due."""
        if len(self._models) == 1:
            self._models[0].advance(outcome, is_held=False)
            return
        starved = [model for model in self._models if model.is_starved]
        for model in self._models:
            if model.waits_for_room:
                model.measure_again()
            is_held = bool(starved) and model not in starved
            model.advance(outcome if model is self._stepped else None, is_held=is_held)
        if (now_s := time.monotonic()) >= self._look_due_s:
            self._look_due_s = now_s + _LOOK_EVERY_S
            self.unload_idle()

    def publish(self) -> None:
        """Publish the numbers of answers that changed."""
        for model in self._models:
            model.publish()

    # -- commands --------------------------------------------------------------------------

    def do(self, command: Command) -> None:
        """Carry out a command, or let it wait until its model is loaded."""
        match command:
            case Rendered():
                for model in self._models:
                    if model.is_rendering(command.request):
                        if len(self._models) > 1:
                            model.measure_again()
                        model.do(command)
            case Cancel():
                self.cancel([command.generation])
            case UnloadAfter():
                self._unload_after(command)
            case ForgetPrompts():
                evicted = [model.forget_prompts(command.owner.name) for model in self._models]
                self.publish()  # who gets the reply may ask for the numbers at once
                command.reply.send((sum(n for n, _ in evicted), sum(size for _, size in evicted)))
            case Unload(model=None) if self._default.offered is not None:
                removed = self._default
                none = self._new(None)
                none.tell(ModelStatus())
                self._choose(none)
                removed.do(command)
            case Pin():
                self._find(command.model).do(command)  # nobody has used the model by that
            case Shutdown():
                raise AssertionError("served by the loop")
            case _:
                model = self._find(command.model)
                model.begin_idle_time()
                model.do(command)
                if isinstance(command, Load) and (
                    model.backend is not None or self._default.source is None
                ):
                    self._loaded(model, command)

    def _loaded(self, model: LoadedModel, change: Command | None) -> None:
        """Make a model the default one if it was loaded because somebody chose it."""
        if isinstance(change, Load) and not change.keeps_default and model is not self._default:
            self._choose(model)

    def _unload_after(self, command: UnloadAfter) -> None:
        if command.model is not None:
            model = self._find(command.model)
            model.has_own_time = True
            model.do(command)
            return
        self._max_idle_s = command.idle_s
        for model in self._models:
            if not model.has_own_time:
                model.do(command)

    def cancel(self, generations: Sequence[Generation]) -> None:
        """End answers; a request that was not accepted yet is dropped with all its choices."""
        for model in self._models:
            model.cancel(generations)

    # -- loading ---------------------------------------------------------------------------

    def load_next(self, meanwhile: Callable[[], None], turn: threading.Lock) -> None:
        """Load the first model in the line, if there is one and there is room for it."""
        if not self._line and not self._wants_load:
            return
        given_up = [model for model in self._line if not model.wants_load]
        if given_up:  # nobody waits for these any more, so the room for them is not needed either
            self._line = [model for model in self._line if model.wants_load]
            with turn:
                for model in given_up:
                    model.clear_message()
                self._welcome_all()
        self._line += [
            model for model in self._models if model.wants_load and model not in self._line
        ]
        if not self._line:
            self._is_blocked = False
            return
        model = self._line[0]
        change = model.change
        with turn:
            try:
                self._is_blocked = not self._has_room(model)
            except ModelLoadFailed as error:
                self._is_blocked = False
                del self._line[0]
                model.refuse_load(error)
                self._welcome_all()
                return
        if self._is_blocked:
            return
        del self._line[0]

        def step_others() -> None:
            if len(self._models) > 1:
                meanwhile()

        model.load(step_others, turn)
        with turn:
            self._welcome_all()
            if model.backend is not None:
                self._loaded(model, change)

    def _welcome_all(self) -> None:
        for model in self._models:
            model.measure_again()
            model.stay()

    def _has_room(self, model: LoadedModel) -> bool:
        """Make room for a model that is to be loaded; return False if it must wait for room."""
        change = model.change
        source = Source(change.folder, change.draft) if isinstance(change, Load) else model.source
        if source is None:
            return True
        budget, wanted, others = self._budget, self._budget.need_of(source), self._others(model)
        if wanted is not None:
            if model.offered is None:
                budget.check_alone(source, wanted)
            else:
                budget.check(source, wanted, [other for other in others if other.is_pinned])
            while others and not budget.has_room(wanted, others):
                if not self._let_leave(model, others):
                    # All others are pinned: it fits only if other programs give memory back.
                    if all(other.is_pinned for other in others):
                        break
                    return False
                others = self._others(model)
        if model.offered is None:
            model.need, model.cache_bytes = None, self._limits.prompt_cache_bytes
        else:
            model.need, model.cache_bytes = wanted, budget.cache_bytes(wanted)
        return True

    def _let_leave(self, model: LoadedModel, others: Sequence[LoadedModel]) -> bool:
        """Unload a model without answers; return False if all models have answers.

        In that case the least recently used model takes no more requests.
        """
        movable = _movable(others)
        for other in movable:
            if other.is_evictable:
                other.unload_idle()
                return True
        if movable and not any(other.is_leaving for other in movable):
            movable[0].is_leaving = True
        if movable:
            leaving = next(other for other in movable if other.is_leaving)
            model.say(f"waits for memory: {leaving.name} is still answering")
        return False

    def _make_room(self, model: LoadedModel) -> bool | None:
        """Unload another model for an answer of one that is in memory.

        False if answers of others have to end first; None if no room can be made.
        """
        movable = _movable(self._others(model))
        for other in movable:
            if other.is_evictable:
                other.unload_idle()
                model.note_work()
                return True
        # Those that wait, too, wait for this one.
        return False if any(other.is_running for other in movable) else None

    # -- unloading while idle --------------------------------------------------------------

    def note_work(self) -> None:
        """Note that models are used now: their idle time begins again."""
        for model in self._models:
            if len(self._models) == 1 or not model.is_idle:
                model.begin_idle_time()

    @property
    def unload_due_s(self) -> float | None:
        """In how many seconds the memory of an idle model should be freed; None for never."""
        waits_s = (model.unload_due_s for model in self._models)
        return min((wait_s for wait_s in waits_s if wait_s is not None), default=None)

    def unload_idle(self) -> None:
        """Free the memory of the models that have been idle for long enough."""
        for model in self._models:
            if model.is_idle and model.unload_due_s == 0.0:
                model.unload_idle()

    # -- the end ---------------------------------------------------------------------------

    def hand_over(
        self, stuck: object | None, hang: Hang, *, is_touched: bool
    ) -> tuple[list[LeftModel], list[LoadedModel]]:
        """Give up all models with all that waits for them, for another thread. Any thread."""
        left = [
            model.hand_over(
                is_default=model is self._default,
                hang=hang if model is stuck else None,
                is_touched=is_touched,
            )
            for model in self._models.copy()
        ]
        return left, [model for model in self._models if model is not stuck]

    def begin(self, left: Sequence[LeftModel]) -> None:
        """Do what an earlier thread has left to be done for its models."""
        for model, previous in zip(self._models.copy(), left, strict=False):
            for command in previous.commands:
                model.do(command)

    def end_all(self, kind: StopKind, cause: str | None) -> None:
        """End every answer, running or waiting, with what it has so far."""
        for model in self._models:
            model.abandon(kind, cause)

    def fail_all(
        self, kind: StopKind, cause: str, why: EngineError, touched: object | None
    ) -> None:
        """End every answer, because the engine thread was given up. Any thread."""
        for model in self._models.copy():
            if model is touched:
                model.fail_readers(cause, why)
            else:
                model.abandon(kind, cause)

    def refuse_the_rest(self, why: EngineError) -> None:
        """Drop requests that are being rendered, and refuse commands that were never carried out.

        Any thread, while the engine thread waits, is stuck, or has ended.
        """
        for model in self._models.copy():
            model.refuse_the_rest(why)

    def free(self) -> None:
        """Free the models, at the end of the thread."""
        for model in self._models:
            with contextlib.suppress(Exception):  # after a fault, this may fail as well
                model.close()


def _movable(models: Sequence[LoadedModel]) -> list[LoadedModel]:
    """Return the models that may leave for another one, the least recently used first."""
    return sorted(
        (model for model in models if not model.is_pinned), key=lambda model: model.used_s
    )

"""All models of the engine thread: which is loaded, whose turn it is, and their memory."""

import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Generic, TypeVar

from engine.errors import EngineError, ModelLoadFailed
from engine.inference.backend import Step
from engine.inference.loader import Loader
from engine.library.memory import Memory, MemoryNeed, memory, need
from engine.library.models import model_name
from engine.scheduling.generation import Generation
from engine.scheduling.inbox import (
    Cancel,
    Command,
    EngineStatus,
    ForgetPrompts,
    Inbox,
    Load,
    Rendered,
    Shutdown,
    Unload,
    UnloadAfter,
)
from engine.scheduling.intake import EmbeddingQueue, Intake
from engine.scheduling.limits import Limits
from engine.scheduling.loaded_model import Hang, Lane, LeftLane, ModelSlot, Source
from engine.scheduling.offering import OfferedModel
from engine.scheduling.outbox import Outbox
from engine.scheduling.prompt_rendering import Preparation
from engine.scheduling.pulse import Pulse
from engine.scheduling.scheduler import Scheduler
from engine.scheduling.status import StatusBoard
from engine.stopping.record import StopKind
from engine.wording import size_in_words

# Gives turns on the engine thread to several models: each gets the same share of time.

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
        for one in busy:
            if one not in self._busy:
                self._spent_s[one] = max(self._spent_s.get(one, 0.0), self._clock_s)
        self._busy = busy
        chosen = min(busy, key=self._spent_s.__getitem__)
        self._clock_s = self._spent_s[chosen]
        return chosen

    def took(self, one: T, duration_s: float) -> None:
        """Note how long a turn took."""
        self._spent_s[one] += duration_s

    def rest(self) -> None:
        """Note that nobody has anything to do."""
        self._busy = ()

    def forget(self, one: T) -> None:
        """Forget one that will not come back."""
        self._spent_s.pop(one, None)
        self._busy = [other for other in self._busy if other != one]


# Checks whether one more model fits into memory beside the loaded ones; its errors have figures.
#
# Engine thread only. Reads the sizes of files, never the weights.


class MemoryBudget:
    """The memory that all models may take together."""

    def __init__(self, limits: Limits) -> None:
        self._most = limits.memory_bytes
        self._kept_bytes = limits.prompt_cache_bytes

    def need_of(self, source: Source) -> MemoryNeed | None:
        """Return the memory that a model needs; None where its folder does not tell.

        Loading it then reports what is wrong with the folder.
        """
        try:
            return need(source.folder, source.draft)
        except (ModelLoadFailed, OSError):
            return None

    def check(self, source: Source, wanted: MemoryNeed, pinned: Sequence[Lane]) -> None:
        """Make sure that one of several models fits once all models that may leave have left."""
        most = self.most_bytes
        left = most - sum(map(held_bytes, pinned))
        if wanted.total <= left:
            return
        room = f"models may take {size_in_words(most)} together"
        remedy = "choose a smaller model, or one of fewer bits"
        if wanted.total <= most:
            names = ", ".join(lane.slot.name for lane in pinned)
            room += f", of which {names} take {size_in_words(most - left)} and are pinned"
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
    def most_bytes(self) -> int:
        """The memory that all models may take together."""
        return memory().usable if self._most is None else self._most

    def has_room(self, wanted: MemoryNeed, others: Sequence[Lane]) -> bool:
        """Whether a model fits beside others that stay."""
        if wanted.total > self.most_bytes - sum(map(held_bytes, others)):
            return False
        if self._most is not None or not others:
            return True
        # Other programs use memory, too. And memory that the others will still fill is not free.
        return wanted.total <= memory().available - sum(map(_unfilled_bytes, others))

    def kept_bytes(self, wanted: MemoryNeed | None) -> int:
        """Return the most bytes that one of several models may keep for earlier prompts."""
        if wanted is None:
            return self._kept_bytes
        return min(self._kept_bytes, wanted.cache + wanted.headroom)

    def machine(self, lane: Lane, others: Sequence[Lane]) -> Memory:
        """Return the memory that a model and its answers may use beside the other models.

        What is planned for other models counts only while they use it, unless they are pinned:
        answers of theirs that come later wait. What the model's own answers and cached prompts
        take counts as available: they have it already, and cached prompts give way.
        """
        unfilled = sum(map(_reserved_bytes, others))
        now, held = memory(), sum(map(taken_bytes, others)) + unfilled
        backend = lane.slot.backend
        weights = 0 if backend is None else backend.info.weights_bytes
        if self._most is None:
            own = max(0, taken_bytes(lane) - weights)
            return Memory(now.usable - held, max(0, now.available + own - unfilled), now.total)
        left = max(0, self._most - held)
        return Memory(left, max(0, left - weights), now.total)

    def largest(self, lane: Lane, others: Sequence[Lane]) -> Memory:
        """Return the memory that a model may use once all others have left that may."""
        pinned = [one for one in others if one.slot.status.is_pinned]
        free = self.machine(lane, pinned)
        if self._most is not None:
            return free
        freed = sum(taken_bytes(one) for one in others if one not in pinned)
        return Memory(free.usable, free.available + freed, free.total)


def taken_bytes(lane: Lane) -> int:
    """Return the memory that the weights and caches of a model take now."""
    backend = lane.slot.backend
    if backend is None:
        return 0
    return backend.info.weights_bytes + backend.cache_use.size_bytes + lane.rows_bytes


def held_bytes(lane: Lane) -> int:
    """Return the memory of a model: its weights, and its caches or their estimate, if more."""
    return taken_bytes(lane) + max(_unfilled_bytes(lane), lane.reserved_bytes - lane.rows_bytes)


def _reserved_bytes(lane: Lane) -> int:
    """Return how much memory is reserved for a model that it has not taken yet."""
    running = lane.reserved_bytes - lane.rows_bytes
    return max(running, _unfilled_bytes(lane)) if lane.slot.status.is_pinned else running


def _unfilled_bytes(lane: Lane) -> int:
    """Return how much of the estimate for a model's caches it has not taken yet."""
    backend = lane.slot.backend
    if lane.need is None or backend is None:
        return 0
    caches = taken_bytes(lane) - backend.info.weights_bytes
    return max(0, lane.need.cache + lane.need.headroom - caches)


def _words(wanted: MemoryNeed) -> str:
    return (
        f"needs {size_in_words(wanted.total)} of memory ({size_in_words(wanted.weights)} of "
        f"weights, {size_in_words(wanted.cache)} for {wanted.context:,} tokens of context, "
        f"{size_in_words(wanted.headroom)} to compute with)"
    )


# Loads models one at a time, and makes room for them in memory.
#
# While one model is loaded, the others take steps between two parts of the loading. If memory is
# short, the least recently used model without answers is unloaded. If all have answers, one of
# them takes no more requests until it can be unloaded. Engine thread only.


class LoadingLine:
    """Loads the models of lanes in the order in which they were requested."""

    def __init__(
        self,
        limits: Limits,
        budget: MemoryBudget,
        lanes: Sequence[Lane],
        on_loaded: Callable[[Lane, Command | None], None],
    ) -> None:
        self._limits = limits
        self._budget = budget
        self._lanes = lanes
        self._on_loaded = on_loaded
        self._line: list[Lane] = []
        # Whether the first lane in the line waits for room.
        self._is_blocked = False

    @property
    def can_go_on(self) -> bool:
        """Whether a model should be loaded and does not wait for room."""
        return self._wants_load and not self._is_blocked

    @property
    def _wants_load(self) -> bool:
        return any(lane.wants_load for lane in self._lanes)

    def machine(self, lane: Lane) -> Memory:
        """Return the memory that a model and its answers may use beside the other models."""
        return self._budget.machine(lane, self._others(lane))

    def largest(self, lane: Lane) -> Memory:
        """Return the memory that a model and its answers may use once others have left."""
        return self._budget.largest(lane, self._others(lane))

    @property
    def most_bytes(self) -> int:
        """The memory that a model and its answers may use at all."""
        return self._budget.most_bytes

    def make_room(self, lane: Lane) -> bool | None:
        """Free memory of other models for an answer of a model that is in memory."""
        movable = sorted(
            (one for one in self._others(lane) if not one.slot.status.is_pinned),
            key=lambda one: one.slot.status.used_s,
        )
        for one in movable:
            if one.is_evictable:
                one.unload_idle()
                lane.go_on()
                return True
        answering = [one for one in movable if one.has_rows]
        # Those that wait, too, wait for this one.
        return False if answering else None

    def load_next(self, meanwhile: Callable[[], None], turn: threading.Lock) -> None:
        """Load the first model in the line, if there is one and there is room for it."""
        if not self._line and not self._wants_load:
            return
        given_up = [lane for lane in self._line if not lane.wants_load]
        if given_up:  # nobody waits for these any more, so the room for them is not needed either
            self._line = [lane for lane in self._line if lane.wants_load]
            with turn:
                for lane in given_up:
                    lane.slot.unsay()
                self._welcome_all()
        self._line += [lane for lane in self._lanes if lane.wants_load and lane not in self._line]
        if not self._line:
            self._is_blocked = False
            return
        lane = self._line[0]
        change = lane.slot.change
        with turn:
            try:
                self._is_blocked = not self._has_room(lane)
            except ModelLoadFailed as error:
                self._is_blocked = False
                del self._line[0]
                lane.refuse_load(error)
                self._welcome_all()
                return
        if self._is_blocked:
            return
        del self._line[0]
        lane.load(meanwhile, turn)
        with turn:
            self._welcome_all()
            self._on_loaded(lane, change)

    def _welcome_all(self) -> None:
        for lane in self._lanes:
            lane.measure_again()
            lane.stay()

    def _others(self, lane: Lane) -> list[Lane]:
        """Return the other models that are in memory."""
        return [one for one in self._lanes if one is not lane and one.slot.backend is not None]

    def _has_room(self, lane: Lane) -> bool:
        """Make room for the model of a lane; return False if it must wait for room."""
        slot = lane.slot
        change = slot.change
        source = Source(change.folder, change.draft) if isinstance(change, Load) else slot.source
        if source is None:
            return True
        wanted = self._budget.need_of(source)
        others = self._others(lane)
        if wanted is not None:
            if slot.offered is None:
                self._budget.check_alone(source, wanted)
            else:
                self._budget.check(
                    source, wanted, [one for one in others if one.slot.status.is_pinned]
                )
            while others and not self._budget.has_room(wanted, others):
                if not self._let_leave(lane, others):
                    # All others are pinned: it fits only if other programs give memory back.
                    if all(one.slot.status.is_pinned for one in others):
                        break
                    return False
                others = self._others(lane)
        lane.need = wanted if slot.offered is not None else None
        slot.kept_bytes = (
            self._limits.prompt_cache_bytes
            if slot.offered is None
            else self._budget.kept_bytes(wanted)
        )
        return True

    def _let_leave(self, lane: Lane, others: Sequence[Lane]) -> bool:
        """Unload a model without answers; return False if all models have answers.

        In that case the least recently used model takes no more requests.
        """
        movable = sorted(
            (one for one in others if not one.slot.status.is_pinned),
            key=lambda one: one.slot.status.used_s,
        )
        for one in movable:
            if one.is_evictable:
                one.unload_idle()
                return True
        if movable and not any(one.is_leaving for one in movable):
            movable[0].is_leaving = True
        if movable:
            leaving = next(one for one in movable if one.is_leaving)
            lane.slot.status.say(f"waits for memory: {leaving.slot.name} is still answering")
        return False


# Finds the lane of the model that a request names, or the default lane.
#
# Knows nothing of turns or of the work of a lane. Engine thread only.

MakeLane = Callable[[OfferedModel | None, Callable[[EngineStatus], None]], Lane]
"""Makes a lane for one of several models, or for any that is loaded; gets a status callback."""


class LaneRegister:
    """All lanes. With one model, all requests are for its lane."""

    def __init__(
        self,
        board: StatusBoard,
        make_lane: MakeLane,
        on_forgotten: Callable[[Lane], None],
        left: Sequence[LeftLane] = (),
    ) -> None:
        self._board = board
        self._make_lane = make_lane
        self._on_forgotten = on_forgotten
        self._number_of: dict[Lane, int] = {}
        self._by_id: dict[str, Lane] = {}
        self.lanes: list[Lane] = []
        for one in left:
            lane = self.new(one.offered)
            lane.slot.inherit(one.info, one.hang)
            if one.is_default:
                self.default = lane
        if not left:
            self.default = self.new(None)
        board.choose(self._number_of[self.default])
        board.begin(min(self._number_of.values()))

    def new(self, offered: OfferedModel | None) -> Lane:
        """Return a new lane for one of several models, or for any model that is loaded."""
        number = self._board.open_lane()

        def on_status(status: EngineStatus) -> None:
            self._board.post(number, lane.slot.offered, status)

        lane = self._make_lane(offered, on_status)
        self.lanes.append(lane)
        self._number_of[lane] = number
        if offered is not None:
            self._by_id[offered.id] = lane
        return lane

    def lane_of(self, model: OfferedModel | None) -> Lane:
        """Return the lane of one of several models, or of the default one."""
        if model is None:
            return self.default
        lane = self._by_id.get(model.id)
        if lane is not None and lane.slot.offered != model:
            lane.slot.become(model)
        if lane is not None:
            return lane
        default = self.default
        source = default.slot.source if default.slot.offered is None else None
        if source is not None and source.folder.resolve() == model.folder.resolve():
            # The only model so far becomes the first of several.
            default.slot.become(model)
            self._by_id[model.id] = default
            return default
        return self.new(model)

    def choose(self, lane: Lane) -> None:
        """Let a model answer requests that name none."""
        before, self.default = self.default, lane
        self._board.choose(self._number_of[lane])
        if before is not lane and before.slot.source is None and before.is_idle:
            self._forget(before)

    def _forget(self, lane: Lane) -> None:
        """Forget a lane that has no model and nothing to do."""
        self.lanes.remove(lane)
        self._board.remove(self._number_of.pop(lane))
        self._on_forgotten(lane)


# All models of the engine thread: gives commands to the right one, and turns to all.
#
# Models take turns step by step; each gets the same share of the time while it has answers.
# ``engine.scheduling.models`` decides which is loaded next, and which must leave. Engine thread
# only, except where a method says otherwise.

# How often the engine checks, while others answer, whether a model should be unloaded.
_LOOK_EVERY_S = 0.25


class Lanes:
    """The models, each in a lane of its own. With one model, all requests are for its lane."""

    def __init__(
        self,
        limits: Limits,
        loader: Loader,
        inbox: Inbox,
        outbox: Outbox,
        board: StatusBoard,
        pulse: Pulse,
        left: Sequence[LeftLane] = (),
    ) -> None:
        self._pulse = pulse
        self._limits = limits
        self._loader = loader
        self._inbox = inbox
        self._outbox = outbox
        self._preparation = Preparation(limits.preparing_s)
        self._idle_s: float | None = None
        self._look_due_s = 0.0
        self._turns = Turns[Lane]()
        self._register = LaneRegister(board, self._made_lane, self._forgotten, left)
        self._lanes = self._register.lanes
        self._loading = LoadingLine(limits, MemoryBudget(limits), self._lanes, self._loaded)
        self._stepped = self._register.default

    def _made_lane(
        self, offered: OfferedModel | None, on_status: Callable[[EngineStatus], None]
    ) -> Lane:
        slot = ModelSlot(
            self._limits, self._loader, on_status, self._inbox.is_ending, self._pulse, offered
        )
        slot.idle.most_s = self._idle_s
        scheduler = Scheduler(
            self._limits,
            self._outbox,
            lambda: self._loading.machine(lane),
            lambda: self._loading.largest(lane),
            lambda: self._loading.most_bytes,
            lambda: self._loading.make_room(lane),
        )
        intake = Intake(self._limits, scheduler, self._inbox, self._preparation)
        embedding = EmbeddingQueue(self._limits, self._preparation, self._inbox.send)
        lane = Lane(self._pulse, self._limits, slot, scheduler, intake, embedding)
        return lane

    def _forgotten(self, lane: Lane) -> None:
        self._turns.forget(lane)
        if self._stepped is lane:
            self._stepped = self._register.default

    # -- what there is to do ---------------------------------------------------------------

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to do until a command comes."""
        return all(lane.is_idle for lane in self._lanes)

    @property
    def waits_for_prompts(self) -> bool:
        """Whether nothing can be done until a prompt has been rendered."""
        if any(lane.has_answers or lane.has_rows for lane in self._lanes):
            return False
        is_waiting = any(lane.waits_for_prompts for lane in self._lanes)
        return is_waiting and not self._loading.can_go_on

    @property
    def has_rows(self) -> bool:
        """Whether answers are in a batch, or texts are read beside one."""
        return any(lane.has_rows for lane in self._lanes)

    @property
    def has_answers(self) -> bool:
        """Whether answers run, or wait for a place. Any thread."""
        return any(lane.has_answers for lane in self._lanes.copy())

    # -- one step --------------------------------------------------------------------------

    def decode(self) -> Step | BaseException | None:
        """Run one step of the model whose turn it is; None if no model has anything to run."""
        if len(self._lanes) == 1:
            return self._lanes[0].decode()
        busy = [lane for lane in self._lanes if lane.has_rows]
        if not busy:
            self._turns.rest()
            return None
        lane = self._turns.next(busy)
        if lane is not self._stepped:
            lane.resume()
            self._stepped = lane
        begin_s = time.perf_counter()
        outcome = lane.decode()
        self._turns.took(lane, time.perf_counter() - begin_s)
        return outcome

    def advance(self, outcome: Step | BaseException | None) -> None:
        """Give the answers the tokens of the step, fill free places, and remove models if due."""
        if len(self._lanes) == 1:
            self._lanes[0].hold(is_held=False)
            self._lanes[0].advance(outcome)
            return
        starved = [lane for lane in self._lanes if lane.is_starved]
        for lane in self._lanes:
            lane.hold(is_held=bool(starved) and lane not in starved)
            if lane.waits_for_room:
                lane.measure_again()
            lane.advance(outcome if lane is self._stepped else None)
        if (now_s := time.monotonic()) >= self._look_due_s:
            self._look_due_s = now_s + _LOOK_EVERY_S
            self.unload_idle()

    def publish(self) -> None:
        """Publish the numbers of answers that changed."""
        for lane in self._lanes:
            lane.publish()

    # -- commands --------------------------------------------------------------------------

    def do(self, command: Command) -> None:
        """Carry out a command, or let it wait until its model is loaded."""
        match command:
            case Rendered():
                for lane in self._lanes:
                    if lane.is_rendering(command.request):
                        if len(self._lanes) > 1:
                            lane.measure_again()
                        lane.do(command)
            case Cancel():
                self.cancel([command.generation])
            case UnloadAfter():
                self._unload_after(command)
            case ForgetPrompts():
                dropped = [lane.forget_prompts(command.owner.name) for lane in self._lanes]
                self.publish()  # who gets the reply may ask for the numbers at once
                command.reply.send((sum(n for n, _ in dropped), sum(size for _, size in dropped)))
            case Load():
                self._load(command)
            case Unload(model=None) if self._register.default.slot.offered is not None:
                removed = self._register.default
                none = self._register.new(None)
                none.slot.status.tell(EngineStatus())
                self._register.choose(none)
                removed.do(command)
            case Shutdown():
                raise AssertionError("served by the loop")
            case _:
                lane = self._register.lane_of(command.model)
                lane.slot.idle.begin_anew()
                lane.do(command)

    def _load(self, command: Load) -> None:
        lane = self._register.lane_of(command.model)
        lane.slot.idle.begin_anew()
        lane.do(command)
        if command.keeps_default:
            return
        if lane is not self._register.default and (
            lane.slot.backend is not None or self._register.default.slot.source is None
        ):
            self._register.choose(lane)

    def _unload_after(self, command: UnloadAfter) -> None:
        if command.model is not None:
            lane = self._register.lane_of(command.model)
            lane.has_own_time = True
            lane.do(command)
            return
        self._idle_s = command.idle_s
        for lane in self._lanes:
            if not lane.has_own_time:
                lane.do(command)

    def cancel(self, generations: Sequence[Generation]) -> None:
        """End answers; a request that was not accepted yet is dropped with all its choices."""
        for lane in self._lanes:
            lane.cancel(generations)

    # -- loading ---------------------------------------------------------------------------

    def load_next(self, meanwhile: Callable[[], None], turn: threading.Lock) -> None:
        """Load the first model in the line, if there is one and there is room for it."""
        self._loading.load_next(partial(self._meanwhile, meanwhile), turn)

    def _meanwhile(self, step_others: Callable[[], None]) -> None:
        """Step the other models while one is loaded, if they have anything to do."""
        if len(self._lanes) > 1:
            step_others()

    def _loaded(self, lane: Lane, change: Command | None) -> None:
        """Make a model the default one if it was loaded because somebody chose it."""
        is_chosen = isinstance(change, Load) and not change.keeps_default
        is_chosen = is_chosen and lane.slot.backend is not None
        if is_chosen and lane is not self._register.default:
            self._register.choose(lane)

    # -- unloading while idle --------------------------------------------------------------

    def note_work(self) -> None:
        """Note that models are used now: their idle time begins again."""
        if len(self._lanes) == 1:
            self._lanes[0].slot.idle.begin_anew()
            return
        for lane in self._lanes:
            if not lane.is_idle:
                lane.slot.idle.begin_anew()

    @property
    def unload_due_s(self) -> float | None:
        """In how many seconds the memory of an idle model should be freed; None for never."""
        waits_s = (lane.slot.unload_due_s for lane in self._lanes)
        return min((wait_s for wait_s in waits_s if wait_s is not None), default=None)

    def unload_idle(self) -> None:
        """Free the memory of the models that have been idle for long enough."""
        for lane in self._lanes:
            if lane.is_idle and lane.slot.unload_due_s == 0.0:
                lane.unload_idle()

    # -- the end ---------------------------------------------------------------------------

    def look(self) -> None:
        """End prompts' rendering that takes too long. Any thread."""
        self._preparation.look()

    def hand_over(
        self, stuck: object | None, hang: Hang, *, is_touched: bool
    ) -> tuple[list[LeftLane], list[Lane]]:
        """Give up all models with all that waits for them, for another thread. Any thread."""
        left = [
            lane.hand_over(
                is_default=lane is self._register.default,
                hang=hang if lane is stuck else None,
                is_touched=is_touched,
            )
            for lane in self._lanes.copy()
        ]
        return left, [lane for lane in self._lanes if lane is not stuck]

    def begin(self, left: Sequence[LeftLane]) -> None:
        """Do what an earlier thread has left to be done for its models."""
        for lane, one in zip(self._lanes.copy(), left, strict=False):
            for command in one.commands:
                lane.do(command)

    def end_all(self, kind: StopKind, cause: str | None) -> None:
        """End every answer, running or waiting, with what it has so far."""
        for lane in self._lanes:
            lane.abandon(kind, cause)

    def fail_all(
        self, kind: StopKind, cause: str, why: EngineError, touched: object | None
    ) -> None:
        """End every answer, because the engine thread was given up. Any thread."""
        for lane in self._lanes.copy():
            if lane is touched:
                lane.fail_readers(cause, why)
            else:
                lane.abandon(kind, cause)

    def refuse_the_rest(self, why: EngineError) -> None:
        """Drop requests that are being rendered, and refuse commands that were never carried out.

        Any thread, while the engine thread waits, is stuck, or has ended.
        """
        for lane in self._lanes.copy():
            lane.refuse_the_rest(why)
        self.close_preparation(why)

    def close_preparation(self, why: EngineError) -> None:
        """End the threads that render prompts. Any thread."""
        self._preparation.close(why)

    def free(self) -> None:
        """Free the models, at the end of the thread."""
        for lane in self._lanes:
            with contextlib.suppress(Exception):  # after a fault, this may fail as well
                lane.slot.close()

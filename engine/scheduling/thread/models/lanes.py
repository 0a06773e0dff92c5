"""All models of the engine thread: gives commands to the right one, and turns to all.

Models take turns step by step; each gets the same share of the time while it has answers.
``engine.scheduling.thread.models.loading_line`` decides which is loaded next, and which must leave.
Engine thread only, except where a method says otherwise.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial

from engine.errors import EngineError
from engine.inference.backend import Step
from engine.inference.loader import Loader
from engine.scheduling.generation import Generation
from engine.scheduling.limits import Limits
from engine.scheduling.offering import OfferedModel
from engine.scheduling.outbox import Outbox
from engine.scheduling.queue.preparing import Preparation
from engine.scheduling.queue.scheduler import Scheduler
from engine.scheduling.thread.board import StatusBoard
from engine.scheduling.thread.commands import (
    Cancel,
    Command,
    EngineStatus,
    ForgetPrompts,
    Load,
    Rendered,
    Shutdown,
    Unload,
    UnloadAfter,
)
from engine.scheduling.thread.embedding_queue import EmbeddingQueue
from engine.scheduling.thread.inbox import Inbox
from engine.scheduling.thread.intake import Intake
from engine.scheduling.thread.models.lane import Lane, LeftLane
from engine.scheduling.thread.models.lane_register import LaneRegister
from engine.scheduling.thread.models.loading_line import LoadingLine
from engine.scheduling.thread.models.memory_budget import MemoryBudget
from engine.scheduling.thread.models.model_slot import Hang, ModelSlot
from engine.scheduling.thread.models.turns import Turns
from engine.scheduling.thread.pulse import Pulse
from engine.stopping.record import StopKind

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

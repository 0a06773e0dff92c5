"""One model of the engine thread with all its commands and answers.

A lane carries out the commands for its model, steps its batch, and says when its model should be
loaded. Engine thread only, except where a method says otherwise. Knows no other lane.
"""

import threading
from collections.abc import Callable, Sequence
from typing import assert_never

from engine.errors import EngineError, ModelLoadFailed, NoModel, RequestCancelled
from engine.inference.backend import Step
from engine.library.memory import MemoryNeed
from engine.scheduling.generation import Generation
from engine.scheduling.limits import Limits
from engine.scheduling.outbox import settle
from engine.scheduling.queue.scheduler import Scheduler
from engine.scheduling.thread.commands import (
    Cancel,
    Command,
    CountTokens,
    Detokenize,
    ForgetPrompts,
    Load,
    Rendered,
    RenderPrompt,
    Shutdown,
    Submit,
    Tokenize,
    Unload,
    UnloadAfter,
    UnloadWhenIdle,
    refuse,
)
from engine.scheduling.thread.intake import Intake
from engine.scheduling.thread.models.model_slot import ModelSlot, Source
from engine.scheduling.thread.models.postponed import PostponedCommands, needs_model
from engine.stopping.record import StopInfo, StopKind
from engine.values.events import Finished, Timing, Usage


class Lane:
    """A model, the requests that are being rendered for it, and its batch.

    Args:
        limits: How many commands may wait for the model.
        slot: Holds the model.
        scheduler: Runs the batch.
        intake: Checks requests and has them rendered.

    Attributes:
        slot: As given.
        need: The estimate, before loading, of the memory that the model needs; None if not known.
        has_own_time: Whether an idle time was set for this model alone.
        is_leaving: Whether new requests wait because the model must make room for another one.
    """

    def __init__(
        self, limits: Limits, slot: ModelSlot, scheduler: Scheduler, intake: Intake
    ) -> None:
        self.slot = slot
        self.need: MemoryNeed | None = None
        self.has_own_time = False
        self.is_leaving = False
        self._scheduler = scheduler
        self._intake = intake
        self._postponed = PostponedCommands(limits)

    # -- what there is to do ---------------------------------------------------------------

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to do until a command comes."""
        return self._is_free and self.slot.change is None and not self._postponed

    @property
    def _is_free(self) -> bool:
        """Whether nothing uses the model."""
        return self._scheduler.is_idle and self._intake.is_idle

    @property
    def waits_for_prompts(self) -> bool:
        """Whether nothing can be done until a prompt has been rendered."""
        return self._scheduler.is_idle and not self._intake.is_idle

    @property
    def has_rows(self) -> bool:
        """Whether answers are in the batch."""
        return bool(self._scheduler.rows)

    @property
    def has_answers(self) -> bool:
        """Whether answers run, or wait for a place. Any thread."""
        return not self._scheduler.is_idle

    @property
    def is_evictable(self) -> bool:
        """Whether the model's memory can be freed now, for another model."""
        return self.slot.backend is not None and self._is_free and self.slot.change is None

    @property
    def wants_load(self) -> bool:
        """Whether a model should be loaded now, if there is room for it."""
        slot = self.slot
        if slot.is_loading or not self._is_free:
            return False
        if slot.change is not None:
            return isinstance(slot.change, Load)
        return slot.is_unloaded and bool(self._postponed)

    @property
    def rows_bytes(self) -> int:
        """The memory that the caches of the answers in the batch take."""
        backend = self.slot.backend
        return 0 if backend is None else self._scheduler.rows_bytes(backend.info)

    def is_rendering(self, request: Submit) -> bool:
        """Whether a request is being rendered for this model."""
        return self._intake.holds(request)

    # -- one step --------------------------------------------------------------------------

    def decode(self) -> Step | BaseException | None:
        """Run one step of the batch, which changes no answer; None if there is nothing to run."""
        backend = self.slot.backend
        if backend is None or not self._scheduler.rows:
            return None
        return self._scheduler.decoded(backend)

    def resume(self) -> None:
        """Note that another model was stepped since the last step of this one."""
        if self.slot.backend is not None:
            self.slot.backend.resume()

    def advance(self, outcome: Step | BaseException | None) -> None:
        """Give the answers the tokens of a step, fill free places, and change the model if due."""
        backend = self.slot.backend
        if backend is not None:
            if outcome is not None:
                self._scheduler.take(backend, outcome)
            self._scheduler.fill(backend)
        if self.slot.change is not None:
            self._change_model()

    def publish(self) -> None:
        """Publish the numbers of answers if they changed."""
        scheduler = self._scheduler
        waiting = len(scheduler.waiting) + len(scheduler.behind) + self._intake.choices
        if self._postponed:
            waiting += self._postponed.choices
        slot = self.slot
        slot.status.publish(slot.backend, len(scheduler.rows), waiting, lambda: self.rows_bytes)

    # -- commands --------------------------------------------------------------------------

    def do(self, command: Command) -> None:
        """Carry out a command, or let it wait until its model is loaded."""
        if not isinstance(command, (Cancel, Rendered)) and self._must_wait(command):
            self._postponed.add(command)
        else:
            self._carry_out(command)

    def _carry_out(self, command: Command) -> None:
        slot = self.slot
        if needs_model(command):
            slot.status.note_use()
        match command:
            case Submit():
                slot.stay()
                if slot.backend is None:
                    settle(command.generations, slot.no_model())
                else:
                    self._intake.begin(slot.backend, command)
            case Rendered():
                self._intake.finish(slot.backend, command)
            case Cancel():
                self.cancel([command.generation])
            case Load() if self._has(command):
                if command.reply is not None and slot.backend is not None:
                    command.reply.send(slot.backend.info)
            case Load() | Unload():
                slot.change = command
                if command.cancels_running and slot.backend is not None:
                    self._scheduler.cancel_all(slot.backend)
                    self._intake.cancel_all(RequestCancelled("cancelled before it was taken"))
                self._change_model()
            case CountTokens() | RenderPrompt() | Tokenize() | Detokenize():
                if slot.backend is None:
                    command.reply.send(slot.no_model())
                else:
                    self._intake.answer(slot.backend, command)
            case UnloadAfter():
                slot.unload_after(command.idle_s)
            case UnloadWhenIdle():
                slot.unload_when_idle()
            case Shutdown() | ForgetPrompts():
                raise AssertionError("served for all models at once")
            case _:
                assert_never(command)

    def forget_prompts(self) -> tuple[int, int]:
        """Drop the caches of earlier prompts; return how many, and their bytes."""
        return (0, 0) if self.slot.backend is None else self.slot.backend.forget_prompts()

    def _has(self, wanted: Load) -> bool:
        """Whether the wanted model is one of several and already in memory."""
        is_there = self.slot.offered is not None and self.slot.backend is not None
        return is_there and self.slot.source == Source(wanted.folder.resolve(), wanted.draft)

    def _must_wait(self, command: Command) -> bool:
        """Whether a command waits: behind others, for a change of model, or for the model."""
        if self._postponed or self.slot.change is not None or self.slot.is_loading:
            return True
        return needs_model(command) and (self.slot.is_unloaded or self.is_leaving)

    def cancel(self, generations: Sequence[Generation]) -> None:
        """End answers; a request that was not accepted yet is dropped with all its choices."""
        why = RequestCancelled("cancelled before it was taken")
        left = [one for one in generations if not self._intake.cancel(one, why)]
        if self.slot.backend is not None:
            self._scheduler.cancel(self.slot.backend, left)
        self._postponed.cancel(left, why)

    def _change_model(self) -> None:
        """Drop a cancelled load, and carry out an unload once nothing uses the model."""
        slot = self.slot
        if slot.drop_cancelled_load():
            self._do_postponed()
        if isinstance(slot.change, Unload) and self._is_free:
            slot.remove(slot.change)
            self._do_postponed()

    def _do_postponed(self) -> None:
        """Carry out the postponed commands that need not wait any longer."""
        slot, postponed = self.slot, self._postponed
        while postponed and slot.change is None and not slot.is_loading:
            if postponed.is_model_next and (slot.is_unloaded or self.is_leaving):
                return
            self._carry_out(postponed.take_next())

    # -- loading ---------------------------------------------------------------------------

    def load(self, meanwhile: Callable[[], None], turn: threading.Lock) -> None:
        """Load the model, then carry out the commands that waited for it.

        Args:
            meanwhile: Called between two parts of the loading.
            turn: Held while answers are changed, but not while the model is loaded.
        """
        slot = self.slot
        if isinstance(slot.change, Load):
            wanted: Source | None = Source(slot.change.folder, slot.change.draft)
            is_there = slot.carry_out(slot.change, meanwhile)
        else:
            wanted = slot.source
            is_there = slot.load_again(meanwhile)
        with turn:
            # If another model was loaded instead, it answers the waiting requests.
            if not is_there and slot.source == wanted:
                self._postponed.refuse_model_users(slot.no_model())
            self._do_postponed()

    def refuse_load(self, why: ModelLoadFailed) -> None:
        """Refuse the load that is due, and the commands that wait for the model."""
        self.slot.refuse_load(why)
        if self.slot.backend is None:
            self._postponed.refuse_model_users(NoModel(str(why)))
        self._do_postponed()

    def stay(self) -> None:
        """Take requests again: another model has left."""
        if self.is_leaving:
            self.is_leaving = False
            self._do_postponed()

    def measure_again(self) -> None:
        """Measure the memory for answers again, because other models came or left."""
        self._scheduler.measure_again()

    # -- the end ---------------------------------------------------------------------------

    def abandon(self, kind: StopKind, cause: str | None) -> None:
        """End every answer, running or waiting, with what it has so far."""
        self._scheduler.abandon(kind, cause)

    def fail_readers(self, cause: str, why: EngineError) -> None:
        """End every answer with an error, because the engine thread is stuck. Any thread."""
        ending = Finished(StopInfo(StopKind.ERROR), Usage(), Timing(), error=cause)
        self._scheduler.close_all(ending, why)

    def refuse_the_rest(self, why: EngineError) -> None:
        """Drop requests that are being rendered, and refuse commands that were never carried out.

        Any thread, while the engine thread waits, is stuck, or has ended.
        """
        self._intake.cancel_all(why)
        left = self._postponed.take_all()
        change, self.slot.change = self.slot.change, None
        for command in [*left, *([] if change is None else [change])]:
            refuse(command, why)

"""One model of the engine thread with everything that is asked of it.

A lane carries out the commands for its model, steps its batch, and changes the model when nothing
runs. Engine thread only, except where a method says otherwise. Knows no inbox beyond the address
to which rendered prompts are sent.
"""

import time
from collections import deque
from typing import assert_never

from engine.errors import EngineError, RequestCancelled
from engine.inference.backend import Step
from engine.scheduling.generation import Generation
from engine.scheduling.limits import Limits
from engine.scheduling.outbox import Outbox, settle
from engine.scheduling.queue.scheduler import Scheduler
from engine.scheduling.thread.commands import (
    Cancel,
    Command,
    CountTokens,
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
from engine.scheduling.thread.inbox import Inbox
from engine.scheduling.thread.intake import Intake
from engine.scheduling.thread.model_slot import ModelSlot
from engine.scheduling.thread.pulse import Pulse
from engine.stopping.record import StopInfo, StopKind
from engine.values.events import Finished, Timing, Usage

# Commands that need the model in memory.
_NEEDS_MODEL = (Submit, CountTokens, RenderPrompt, Tokenize)


class Lane:
    """A model, the requests that are being rendered for it, and its batch.

    Args:
        limits: How much it takes on.
        slot: Holds the model.
        inbox: Takes rendered prompts to the engine thread.
        outbox: Where events go.
        pulse: Is ended before a load, which may take long.
    """

    def __init__(
        self, limits: Limits, slot: ModelSlot, inbox: Inbox, outbox: Outbox, pulse: Pulse
    ) -> None:
        self._slot = slot
        self._pulse = pulse
        self._scheduler = Scheduler(limits, outbox)
        self._intake = Intake(limits, self._scheduler, inbox)
        # Commands that wait for a change of model.
        self._postponed: deque[Command] = deque()
        self._idle_since_s = time.monotonic()

    # -- what there is to do ---------------------------------------------------------------

    @property
    def is_idle(self) -> bool:
        """Whether nothing is to be done until a command comes."""
        return self._scheduler.is_idle and self._slot.change is None and self._intake.is_idle

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

    # -- one step --------------------------------------------------------------------------

    def decode(self) -> Step | BaseException | None:
        """Run one step of the batch, which changes no answer; None if there is nothing to run."""
        backend = self._slot.backend
        if backend is None or not self._scheduler.rows:
            return None
        return self._scheduler.decoded(backend)

    def advance(self, outcome: Step | BaseException | None) -> None:
        """Give the answers what a step brought, fill free places, and change the model if due."""
        backend = self._slot.backend
        if backend is not None:
            if outcome is not None:
                self._scheduler.take(backend, outcome)
            self._scheduler.fill(backend)
        if self._slot.change is not None:
            self._change_model()

    def publish(self) -> None:
        """Tell of the numbers of answers if they changed."""
        scheduler = self._scheduler
        self._slot.publish(len(scheduler.rows), len(scheduler.waiting) + self._intake.choices)

    # -- commands --------------------------------------------------------------------------

    def do(self, command: Command) -> None:
        """Carry out a command, or let it wait until the change of model that is due is done."""
        slot = self._slot
        if slot.change is not None and not isinstance(command, (Cancel, Rendered)):
            # Commands that come after a change of model are meant for the new model.
            self._postponed.append(command)
            return
        if slot.is_unloaded and isinstance(command, _NEEDS_MODEL):
            self._pulse.end()
            slot.load_again()
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
                self.cancel(command.generation)
            case Load() | Unload():
                slot.change = command
                if command.cancels_running and slot.backend is not None:
                    self._scheduler.cancel_all(slot.backend)
                    self._intake.cancel_all(RequestCancelled("cancelled before it was taken"))
                self._change_model()
            case CountTokens() | RenderPrompt() | Tokenize():
                if slot.backend is None:
                    command.reply.send(slot.no_model())
                else:
                    self._intake.answer(slot.backend, command)
            case UnloadAfter():
                slot.unloads_after_s = command.idle_s
            case UnloadWhenIdle():
                slot.unload_when_idle()
            case Shutdown():
                raise AssertionError("served by the loop")
            case _:
                assert_never(command)

    def cancel(self, generation: Generation) -> None:
        """End one answer; a request that has not been taken yet goes with all its choices."""
        why = RequestCancelled("cancelled before it was taken")
        if self._intake.cancel(generation, why):
            return
        if self._slot.backend is not None:
            self._scheduler.cancel(self._slot.backend, generation)
        for command in self._postponed:
            if isinstance(command, Submit) and generation in command.generations:
                self._postponed.remove(command)
                settle(command.generations, why)
                return

    def _change_model(self) -> None:
        """Carry out the change of model that was asked for, once nothing runs any more."""
        slot = self._slot
        if slot.drop_cancelled_load():
            self._do_postponed()
        change = slot.change
        if change is None or not self._scheduler.is_idle or not self._intake.is_idle:
            return
        if isinstance(change, Load):
            self._pulse.end()
        slot.carry_out(change)
        self._do_postponed()

    def _do_postponed(self) -> None:
        """Carry out what was sent while a change of model was due."""
        while self._slot.change is None and self._postponed:
            self.do(self._postponed.popleft())

    # -- unloading while idle --------------------------------------------------------------

    def note_use(self) -> None:
        """Note that something is being done now: the idle time begins anew."""
        self._idle_since_s = time.monotonic()

    @property
    def unload_due_s(self) -> float | None:
        """In how many seconds the memory of an idle model is to be freed; None for never."""
        return self._slot.unload_due_s(self._idle_since_s)

    def unload_idle(self) -> None:
        """Free the memory of the model until it is next needed."""
        self._slot.unload_idle()

    # -- the end ---------------------------------------------------------------------------

    def look(self) -> None:
        """End the renderings that take too long. Any thread."""
        self._intake.look()

    def abandon(self, kind: StopKind, cause: str | None) -> None:
        """End every answer, running or waiting, with what it has so far."""
        self._scheduler.abandon(kind, cause)

    def fail_readers(self, cause: str, why: EngineError) -> None:
        """Tell every reader that the thread is stuck while it changes an answer. Any thread."""
        ending = Finished(StopInfo(StopKind.ERROR), Usage(), Timing(), error=cause)
        self._scheduler.close_all(ending, why)

    def refuse_the_rest(self, why: EngineError) -> None:
        """Drop what is being rendered, and answer the commands that were never carried out.

        Any thread, while this one waits, is stuck, or has ended.
        """
        self._intake.close(why)
        left = list(self._postponed)
        self._postponed.clear()
        change, self._slot.change = self._slot.change, None
        for command in [*left, *([] if change is None else [change])]:
            refuse(command, why)

    def free(self) -> None:
        """Free the model, at the end of the thread."""
        self._slot.close()

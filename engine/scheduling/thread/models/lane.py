"""One model of the engine thread with all its commands and answers.

A lane carries out the commands for its model, steps its batch, and says when its model should be
loaded. Engine thread only, except where a method says otherwise. Knows no other lane.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import assert_never

from engine.errors import EngineError, EngineStuck, ModelLoadFailed, NoModel, RequestCancelled
from engine.inference.backend import Step
from engine.library.memory import MemoryNeed
from engine.library.models import ModelInfo
from engine.scheduling.generation import Generation
from engine.scheduling.limits import Limits
from engine.scheduling.offering import OfferedModel
from engine.scheduling.outbox import settle
from engine.scheduling.queue.scheduler import Scheduler
from engine.scheduling.thread.commands import (
    Cancel,
    Command,
    CountTokens,
    Detokenize,
    Embed,
    ForgetPrompts,
    Load,
    Rendered,
    RenderPrompt,
    Resume,
    Shutdown,
    Submit,
    Tokenize,
    Unload,
    UnloadAfter,
    UnloadWhenIdle,
    refuse,
)
from engine.scheduling.thread.embedding_queue import EmbeddingQueue
from engine.scheduling.thread.intake import Intake
from engine.scheduling.thread.models.model_slot import Hang, ModelSlot, Source
from engine.scheduling.thread.models.postponed import PostponedCommands, needs_model
from engine.scheduling.thread.pulse import Pulse
from engine.stopping.record import StopInfo, StopKind
from engine.values.events import Finished, Timing, Usage


@dataclass(slots=True)
class LeftLane:
    """A model of a thread that was given up, with all that the next thread has to do for it."""

    offered: OfferedModel | None
    info: ModelInfo | None
    is_default: bool
    commands: list[Command] = field(default_factory=list)
    hang: Hang | None = None


class Lane:
    """A model, the requests that are being rendered for it, and its batch.

    Each method that touches the model or an answer first notes that this lane is worked on, which
    ends a thread that was given up.
    """

    def __init__(
        self,
        pulse: Pulse,
        limits: Limits,
        slot: ModelSlot,
        scheduler: Scheduler,
        intake: Intake,
        embedding: EmbeddingQueue,
    ) -> None:
        self._pulse = pulse
        self.slot = slot
        self.need: MemoryNeed | None = None
        self.has_own_time = False
        self.is_leaving = False
        self._scheduler = scheduler
        self._intake = intake
        self._embedding = embedding
        self._postponed = PostponedCommands(limits)
        # The command that is being carried out.
        self._at_hand: Command | None = None

    # -- what there is to do ---------------------------------------------------------------

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to do until a command comes."""
        return self._is_free and self.slot.change is None and not self._postponed

    @property
    def _is_free(self) -> bool:
        """Whether nothing uses the model."""
        return self._scheduler.is_idle and self._intake.is_idle and not self._embedding

    @property
    def waits_for_prompts(self) -> bool:
        """Whether nothing can be done until a prompt has been rendered."""
        is_reading = self._embedding.is_due or not self._scheduler.is_idle
        return not is_reading and not self._is_free

    @property
    def has_rows(self) -> bool:
        """Whether answers are in the batch, or texts are read beside it."""
        return bool(self._scheduler.rows) or self._embedding.is_due

    @property
    def waits_for_room(self) -> bool:
        """Whether answers wait for a place in the batch."""
        return bool(self._scheduler.waiting)

    @property
    def is_starved(self) -> bool:
        """Whether no answer runs, and one waits for memory that other models use."""
        return self.waits_for_room and not self.has_rows

    def hold(self, *, is_held: bool) -> None:
        """Let no answer join those that run, or let them join again."""
        self._scheduler.is_held = is_held

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

    @property
    def reserved_bytes(self) -> int:
        """The memory that the caches of the answers in the batch will take."""
        backend = self.slot.backend
        return 0 if backend is None else self._scheduler.reserved_bytes(backend.info)

    def is_rendering(self, request: Submit | Embed) -> bool:
        """Whether a request is being rendered for this model."""
        return self._intake.holds(request) or self._embedding.holds(request)

    # -- one step --------------------------------------------------------------------------

    def decode(self) -> Step | BaseException | None:
        """Run one step of the batch, which changes no answer; None if there is nothing to run."""
        backend = self.slot.backend
        if backend is None or not self.has_rows:
            return None
        self._pulse.begin(self)
        outcome = self._scheduler.decoded(backend) if self._scheduler.rows else None
        if self._embedding.is_due:
            self._embedding.read()
        return outcome

    def resume(self) -> None:
        """Note that another model was stepped since the last step of this one."""
        if self.slot.backend is not None:
            self.slot.backend.resume()

    def advance(self, outcome: Step | BaseException | None) -> None:
        """Give the answers the tokens of a step, fill free places, and change the model if due."""
        self._pulse.begin(self)
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
        waiting += len(self._embedding)
        if self._postponed:
            waiting += self._postponed.choices
        slot = self.slot
        slot.status.publish(slot.backend, len(scheduler.rows), waiting, lambda: self.rows_bytes)

    # -- commands --------------------------------------------------------------------------

    def do(self, command: Command) -> None:
        """Carry out a command, or let it wait until its model is loaded."""
        self._pulse.begin(self)
        if self._is_stuck(command):
            return
        if not isinstance(command, (Cancel, Rendered)) and self._must_wait(command):
            self._postponed.add(command)
        else:
            self._carry_out(command)

    def _carry_out(self, command: Command) -> None:
        self._at_hand = command
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
            case Embed():
                slot.stay()
                if slot.backend is None:
                    refuse(command, slot.no_model())
                elif not command.gives_up.is_set():
                    self._embedding.begin(slot.backend, command)
            case Rendered(request=Embed()):
                self._embedding.finish(slot.backend, command, self._scheduler.most_text_tokens)
            case Rendered():
                self._intake.finish(slot.backend, command)
            case Resume():
                if slot.backend is None:
                    refuse(command, slot.no_model())
                else:
                    self._scheduler.resume(slot.backend, command.rows)
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
                    self._embedding.refuse_all(RequestCancelled("cancelled for another model"))
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

    def _is_stuck(self, command: Command) -> bool:
        """Refuse a command for a model that is stuck; False for any other command or model."""
        slot = self.slot
        if slot.hang is None:
            return False
        if slot.hang.is_over() or isinstance(command, (Load, Unload)):
            slot.hang = None
            return False
        if isinstance(command, UnloadWhenIdle):
            slot.inherit(slot.info, None)  # the next request loads it again
            return False
        if needs_model(command):
            refuse(command, EngineStuck(f"{slot.hang.cause}. Restart this model to use it again"))
            return True
        return False

    def forget_prompts(self, owner: str) -> tuple[int, int]:
        """Drop the caches of an owner's earlier prompts; return how many, and their bytes."""
        self._pulse.begin(self)
        return (0, 0) if self.slot.backend is None else self.slot.backend.forget_prompts(owner)

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
        self._pulse.begin(self)
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
        """Load the model, then carry out the commands that waited for it."""
        self._pulse.begin(self, is_load=True)
        slot = self.slot

        def go_on() -> None:
            meanwhile()
            self._pulse.begin(self, is_load=True)

        if isinstance(slot.change, Load):
            wanted: Source | None = Source(slot.change.folder, slot.change.draft)
            is_there = slot.carry_out(slot.change, go_on)
        else:
            wanted = slot.source
            is_there = slot.load_again(go_on)
        self._pulse.begin(self)
        with turn:
            # If another model was loaded instead, it answers the waiting requests.
            if not is_there and slot.source == wanted:
                self._postponed.refuse_model_users(slot.no_model())
            self._do_postponed()

    def refuse_load(self, why: ModelLoadFailed) -> None:
        """Refuse the load that is due, and the commands that wait for the model."""
        self._pulse.begin(self)
        self.slot.refuse_load(why)
        if self.slot.backend is None:
            self._postponed.refuse_model_users(NoModel(str(why)))
        self._do_postponed()

    def stay(self) -> None:
        """Take requests again: another model has left."""
        if self.is_leaving:
            self._pulse.begin(self)
            self.is_leaving = False
            self._do_postponed()

    def unload_idle(self) -> None:
        """Free the memory of the model, which nothing may be using."""
        self._pulse.begin(self)
        self.slot.unload_idle()

    def go_on(self) -> None:
        """Note that this lane is worked on again, after another one made room for it."""
        self._pulse.begin(self)

    def measure_again(self) -> None:
        """Measure the memory for answers again, because other models came or left."""
        self._scheduler.measure_again()

    # -- the end ---------------------------------------------------------------------------

    def hand_over(self, *, is_default: bool, hang: Hang | None, is_touched: bool) -> LeftLane:
        """Give up the model with all that waits for it, for another thread. Any thread.

        The engine thread must have been given up, so that it begins nothing here.
        """
        slot = self.slot
        left = LeftLane(slot.offered, slot.info, is_default, hang=hang)
        load = slot.take_load_at_hand()
        if hang is not None:
            slot.inherit(slot.info, hang)  # told before its readers learn the end
            why = EngineStuck(hang.cause)
            if is_touched:
                self.fail_readers(hang.cause, why)
            else:
                self.abandon(StopKind.ERROR, hang.cause)
            if load is not None:
                refuse(load, ModelLoadFailed(hang.cause))
            if self._at_hand is not None:
                refuse(self._at_hand, why)
            self._embedding.refuse_all(why)
        else:
            rows = self._scheduler.hand_over()
            for row in rows:
                row.generation.wake_soon()  # the outbox of the thread may not have done it
            going_on = [row for row in rows if row.leave_batch()]
            for row in rows:
                if row not in going_on:
                    row.end_for_reader(StopKind.ERROR, "another model was stuck; ask again")
            if going_on:
                left.commands.append(Resume(going_on, slot.offered))
            if load is not None:
                left.commands.append(load)
        left.commands += self._intake.hand_over()
        left.commands += self._embedding.hand_over()
        change, slot.change = slot.change, None
        if change is not None:
            left.commands.append(change)
        left.commands += self._postponed.take_all()
        return left

    def drop(self) -> None:
        """Let go of the model after ``hand_over``, so that its memory is free."""
        self.slot.backend = None

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
        self._embedding.refuse_all(why)
        left = self._postponed.take_all()
        change, self.slot.change = self.slot.change, None
        for command in [*left, *([] if change is None else [change])]:
            refuse(command, why)

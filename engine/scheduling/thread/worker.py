"""The engine thread: serves its inbox between steps, and steps the batch while there is work.

Everything that touches the model happens here. Between two decode steps (and between two chunks
of a long prompt) the inbox is served, so that a cancel waits at most one step.
"""

import contextlib
import logging
import queue
import threading
import time
from collections.abc import Callable
from typing import Literal, assert_never

from engine.errors import EngineClosed, EngineError, RequestCancelled
from engine.inference.backend import Loader
from engine.inference.tuning import (
    return_freed_memory,
    share_one_arena,
    take_short_turns,
    work_in_long_turns,
)
from engine.scheduling.generation import Generation
from engine.scheduling.limits import Limits
from engine.scheduling.outbox import Outbox, settle
from engine.scheduling.queue.preparing import Watch
from engine.scheduling.queue.scheduler import Scheduler, cause_of
from engine.scheduling.thread.commands import (
    Cancel,
    Command,
    CountTokens,
    EngineStatus,
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
from engine.stopping.record import StopInfo, StopKind
from engine.values.events import Finished, Timing, Usage

_log = logging.getLogger(__name__)
# Commands that need the model in memory.
_NEEDS_MODEL = (Submit, CountTokens, RenderPrompt, Tokenize)
_GLANCE_S = 0.05
# How long the thread is idle before freed memory is returned, which holds up who allocates.
_MEMORY_RETURNED_AFTER_S = 1.0
# The same for a thread that is never idle.
_MEMORY_RETURNED_EVERY_S = 5.0
# How long commands are served between two steps; the last of them may take longer.
_SERVING_S = 0.004


class EngineThread:
    """One run of the engine thread. Made by the service; ends by ``Shutdown`` or by dying.

    Args:
        limits: How much it takes on.
        loader: Loads a model folder; called on the thread.
        on_status: Told of every change of state (engine thread).
        leave: Frees what the libraries keep for a thread; called as the thread's last act.
    """

    def __init__(
        self,
        limits: Limits,
        loader: Loader,
        on_status: Callable[[EngineStatus], None],
        leave: Callable[[], None],
    ) -> None:
        self._limits = limits
        self._leave = leave
        self._on_status = on_status
        self._inbox = Inbox()
        self._outbox = Outbox()
        self._scheduler = Scheduler(limits, self._outbox)
        self._intake = Intake(limits, self._scheduler, self._inbox)
        self._slot = ModelSlot(limits, loader, on_status, self._inbox.is_ending)
        # Held by the thread that changes answers: this one, except while it waits for the model or
        # for commands, or the one that gives it up.
        self._turn = threading.Lock()
        self._is_lost = False
        self._is_given_up = threading.Event()
        self._idle_since_s = time.monotonic()
        # Since when this thread has worked at one step or command; None while it waits or loads.
        self._busy_since_s: float | None = None
        # Whether memory may have been freed since the last was returned to the system.
        self._has_freed = False
        self._return_due_s = time.monotonic() + _MEMORY_RETURNED_EVERY_S
        self._watch = Watch(self._look)
        share_one_arena()
        take_short_turns()
        self._thread = threading.Thread(target=self._run, name="fullstop-engine", daemon=True)
        self._thread.start()

    def send(self, command: Command) -> bool:
        """Put a command into the inbox; False if the thread takes no more. Any thread."""
        return self._inbox.send(command)

    def join(self) -> None:
        """Wait until the thread has ended, or has been given up."""
        while self._thread.is_alive() and not self._is_given_up.is_set():
            self._thread.join(_GLANCE_S)

    def give_up(self, cause: str, patience_s: float) -> None:
        """End everything that is open with an error, and take no more. Any other thread.

        For the case that this thread may wait for ever for something outside of the process; for
        ``patience_s`` it may end its answers by itself.
        """
        self._is_lost = True
        self._inbox.close(EngineClosed(cause))
        self._inbox.is_ending.set()
        deadline_s = time.monotonic() + patience_s
        while not self._scheduler.is_idle and time.monotonic() < deadline_s:
            time.sleep(_GLANCE_S)
        has_turn = self._turn.acquire(timeout=_GLANCE_S)
        try:
            self._on_status(EngineStatus("failed", message=cause))
            if has_turn:
                self._end_all(StopKind.ERROR, cause)
            else:  # the thread is stuck while it changes an answer
                why = EngineClosed(cause)
                stop = StopInfo(StopKind.ERROR)
                self._scheduler.close_all(Finished(stop, Usage(), Timing(), error=cause), why)
                self._refuse_the_rest(why)
            self._is_given_up.set()
        finally:
            if has_turn:
                self._turn.release()
        self._inbox.wake()

    @property
    def is_stuck(self) -> bool:
        """Whether it was given up and has not come back. Any thread."""
        return self._is_lost and self._thread.is_alive()

    def _look(self) -> None:
        """End what takes too long (the watch's thread)."""
        self._intake.look()
        since_s, most_s = self._busy_since_s, self._limits.stuck_after_s
        if since_s is not None and time.monotonic() - since_s > most_s:
            self.give_up(f"the model has not completed a step for {most_s:g} seconds", 0.0)

    # -- the loop --------------------------------------------------------------------------

    def _run(self) -> None:
        cause: str | None = None
        work_in_long_turns()
        try:
            while self._serve():
                self._busy_since_s = time.monotonic()
                backend, scheduler = self._slot.backend, self._scheduler
                has_work = backend is not None and bool(scheduler.rows)
                outcome = scheduler.decoded(backend) if backend and has_work else None
                with self._turn:
                    if self._is_given_up.is_set():
                        break
                    if backend is not None:
                        if outcome is not None:
                            scheduler.take(backend, outcome)
                        scheduler.fill(backend)
                    if self._slot.change is not None:
                        self._change_model()
                    self._publish()
                    self._flush()
                if self._has_freed and time.monotonic() > self._return_due_s:
                    self._return_memory()
                self._busy_since_s = None
        except BaseException as error:
            _log.exception("the engine thread died")
            cause = f"the engine stopped: {cause_of(error)}"
        finally:
            self._shut(cause)

    def _serve(self) -> bool:
        """Serve the inbox, waiting only if there is nothing else to do. False ends the thread.

        While answers are under way it returns to them after a short while, at the latest after
        one command that took long. Cancels go first.
        """
        begin_s = time.monotonic()
        inbox = self._inbox
        while True:
            has_none = self._scheduler.is_idle and not inbox.has_line
            is_idle = has_none and self._slot.change is None and self._intake.is_idle
            # Nothing can be done until a prompt has been rendered.
            is_waiting = is_idle or (has_none and not self._intake.is_idle)
            if is_waiting:
                # Readers must learn what the last command ended before the long wait.
                with self._turn:
                    self._publish()
                    self._flush(is_forced=True)
            else:
                self._idle_since_s = time.monotonic()
                if inbox.is_empty:
                    return True
            try:
                if not self._collect(is_waiting=is_waiting, is_idle=is_idle):
                    return False
            except queue.Empty:
                if is_idle:
                    self._rest()
                return True
            if inbox.has_line:
                self._busy_since_s = time.monotonic()
                with self._turn:
                    if (command := inbox.take_next()) is not None:
                        self._do(command)
                self._busy_since_s = None
            self._has_freed = True
            self._idle_since_s = time.monotonic()
            if self._scheduler.rows and self._idle_since_s - begin_s > _SERVING_S:
                return True

    def _collect(self, *, is_waiting: bool, is_idle: bool) -> bool:
        """Put what was sent in line and carry out the cancels; False ends the thread.

        Args:
            is_waiting: Whether to wait for a first command.
            is_idle: Whether to wait until the model is to be unloaded, and not only a moment.

        Raises:
            queue.Empty: None came in that time.
        """
        first = None
        if is_waiting:
            due_s = self._rest_due_s() if is_idle else _GLANCE_S
            first = self._inbox.wait(due_s)
        with self._turn:
            if not self._inbox.collect(first):
                return False
            for cancel in self._inbox.take_cancels():
                self._do(cancel)
        return True

    def _rest_due_s(self) -> float | None:
        """Return in how many seconds ``_rest`` is due; None for never."""
        due_s = self._slot.unload_due_s(self._idle_since_s)
        if not self._has_freed:
            return due_s
        return _MEMORY_RETURNED_AFTER_S if due_s is None else min(_MEMORY_RETURNED_AFTER_S, due_s)

    def _rest(self) -> None:
        """Return freed memory, or unload the model, after nothing was asked for a while."""
        if self._has_freed:
            self._return_memory()
            return
        with self._turn:
            self._slot.unload_idle()
        self._has_freed = True

    def _return_memory(self) -> None:
        self._has_freed = False
        return_freed_memory()
        self._return_due_s = time.monotonic() + _MEMORY_RETURNED_EVERY_S

    def _flush(self, *, is_forced: bool = False) -> None:
        for gone in self._outbox.flush(is_forced=is_forced):
            self._cancel(gone)

    def _publish(self) -> None:
        scheduler = self._scheduler
        self._slot.publish(len(scheduler.rows), len(scheduler.waiting) + self._intake.choices)

    # -- commands --------------------------------------------------------------------------

    def _do(self, command: Command) -> None:
        slot = self._slot
        if slot.change is not None and not isinstance(command, (Cancel, Rendered)):
            # Commands that come after a change of model are meant for the new model.
            self._inbox.postpone(command)
            return
        if slot.is_unloaded and isinstance(command, _NEEDS_MODEL):
            self._busy_since_s = None  # a load may take long
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
                self._cancel(command.generation)
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

    def _cancel(self, generation: Generation) -> None:
        """End one answer; a request that has not been taken yet goes with all its choices."""
        why = RequestCancelled("cancelled before it was taken")
        if self._intake.cancel(generation, why):
            return
        if self._slot.backend is not None:
            self._scheduler.cancel(self._slot.backend, generation)
        if (waiting := self._inbox.take_submit_of(generation)) is not None:
            settle(waiting.generations, why)

    def _change_model(self) -> None:
        """Carry out the change of model that was asked for, once nothing runs any more."""
        slot = self._slot
        if slot.drop_cancelled_load():
            self._do_postponed()
        change = slot.change
        if change is None or not self._scheduler.is_idle or not self._intake.is_idle:
            return
        if isinstance(change, Load):
            self._busy_since_s = None  # a load may take long
        slot.carry_out(change)
        self._do_postponed()

    def _do_postponed(self) -> None:
        """Carry out what was sent while a change of model was due."""
        while self._slot.change is None:
            command = self._inbox.take_postponed()
            if command is None:
                return
            self._do(command)

    # -- the end ---------------------------------------------------------------------------

    def _shut(self, cause: str | None) -> None:
        """End everything that is open, so that nobody waits for a thread that has ended."""
        self._inbox.close(EngineClosed(cause or "the engine has been shut down"))
        with self._turn:
            is_given_up = self._is_given_up.is_set()
            if is_given_up:
                self._refuse_the_rest(self._inbox.why_closed)
            else:
                self._end_all(StopKind.CANCELLED if cause is None else StopKind.ERROR, cause)
        with contextlib.suppress(Exception):  # after a fault, freeing may fail as well
            self._slot.close()
        with contextlib.suppress(Exception):
            self._leave()  # a load that was broken off has used the libraries, too
        if not is_given_up:
            state: Literal["none", "failed"] = "none" if cause is None else "failed"
            self._on_status(EngineStatus(state, message=cause or ""))

    def _end_all(self, kind: StopKind, cause: str | None) -> None:
        self._scheduler.abandon(kind, cause)
        self._outbox.flush(is_forced=True)
        self._refuse_the_rest(EngineClosed(cause or "the engine has been shut down"))

    def _refuse_the_rest(self, why: EngineError) -> None:
        """Answer the commands that were never carried out."""
        self._watch.end()
        self._intake.close(why)
        change, self._slot.change = self._slot.change, None
        for command in [*self._inbox.take_all(), *([] if change is None else [change])]:
            refuse(command, why)

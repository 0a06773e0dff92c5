"""The engine thread: carries out commands between steps, and steps the batch while there is work.

Everything that touches the model happens here. The thread looks into its inbox between two decode
steps, and between two chunks of a long prompt, so a cancel waits at most one step.
"""

import contextlib
import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence

from engine.errors import EngineClosed, EngineError, EngineStuck, RequestCancelled
from engine.inference.backend import LoadCancelled
from engine.inference.loader import Loader
from engine.processes import (
    return_freed_memory,
    take_short_turns,
    work_in_long_turns,
)
from engine.scheduling.generation import Generation, Outbox, cause_of, settle
from engine.scheduling.inbox import Command, Inbox, Rendered, refuse
from engine.scheduling.loaded_model import Hang, LeftModel, LoadedModel
from engine.scheduling.model_list import ModelList, ModelState, ModelStatus
from engine.scheduling.models import Models
from engine.scheduling.preparation import Preparation
from engine.scheduling.pulse import Evidence, GivenUp, Patience, Pulse, Work, begin_watch, gather
from engine.stopping.record import StopKind
from engine.values.request import Limits

_log = logging.getLogger(__name__)
_GLANCE_S = 0.05
# How long the thread is idle before it returns freed memory; returning it delays allocations.
_RETURNED_AFTER_S = 1.0
# How often a thread that is never idle returns freed memory.
_RETURNED_EVERY_S = 5.0
# How long the thread may take to free its models, at its end.
_LEAVING_S = 10.0
# How long commands are carried out between two steps; the last one may take longer.
_SERVING_S = 0.004
# How long the other models are stepped between two parts of loading a model.
_MAX_MEANWHILE_S = 0.1


class EngineThread:
    """One run of the engine thread. Ends with ``Shutdown``, by an error, or when it is given up."""

    def __init__(
        self,
        limits: Limits,
        loader: Loader,
        model_list: ModelList,
        leave: Callable[[], None],
        on_stuck: Callable[["EngineThread", Work, str], None],
        left: Sequence[LeftModel] = (),
    ) -> None:
        self._limits = limits
        self._leave = leave
        self._on_stuck = on_stuck
        self._list = model_list
        self._inbox = Inbox()
        self._outbox = Outbox()
        self._pulse = Pulse()
        self._preparation = Preparation(limits.preparing_s)
        self._models = Models(
            limits,
            loader,
            self._inbox,
            self._outbox,
            self._preparation,
            model_list,
            self._pulse,
            left,
        )
        self._left = left
        # The error of a step of another model while one was loaded.
        self._fault: BaseException | None = None
        # When the running load was last continued.
        self._left_load_s = 0.0
        # Held by the thread that changes answers: by this one, except while it waits for the model
        # or for commands, or by the one that gives it up.
        self._turn = threading.Lock()
        self._is_given_up = threading.Event()
        self._is_leaving = False
        # Whether memory may have been freed since it was returned last, and when a busy thread
        # should return it.
        self._has_freed = False
        self._return_due_s = time.monotonic() + _RETURNED_EVERY_S
        self._patience = Patience(limits.stuck_after_s, self._gather)
        self._looked_s = time.monotonic()
        take_short_turns()
        self._thread = threading.Thread(target=self._run, name="fullstop-engine", daemon=True)
        self._is_watch_over = begin_watch(self._look, limits.stuck_after_s)
        self._thread.start()

    def send(self, command: Command) -> bool:
        """Put a command into the inbox; return False if it is closed. Any thread."""
        return self._inbox.send(command)

    def join(self, patience_s: float) -> bool:
        """Wait until the thread has ended or has been given up; False if the patience ends first.

        It lasts longer than ``patience_s`` as long as the thread frees what it holds.
        """
        deadline_s = time.monotonic() + patience_s
        while self._thread.is_alive() and not self._is_given_up.is_set():
            now_s = time.monotonic()
            if now_s > deadline_s + (_LEAVING_S if self._is_leaving else 0.0):
                return False
            self._thread.join(_GLANCE_S)
        return True

    @property
    def is_alive(self) -> bool:
        """Whether it still runs. Any thread."""
        return self._thread.is_alive()

    def give_up(self, cause: str, kind: StopKind = StopKind.ERROR) -> None:
        """End all answers and commands, and accept no more, though the thread may be stuck."""
        self._inbox.close(EngineClosed(cause))
        self._inbox.is_ending.set()
        work = self._pulse.give_up()
        has_turn = self._turn.acquire(timeout=_GLANCE_S)
        try:
            self._list.clear(ModelStatus(state="failed", message=cause))
            why = EngineClosed(cause)
            # Without the turn, the thread is stuck while it changes answers of that model.
            self._models.fail_all(
                kind, cause, why, None if has_turn or work is None else work.model
            )
            self._outbox.flush(is_forced=True)
            self._refuse_the_rest(why)
            self._is_given_up.set()
        finally:
            if has_turn:
                self._turn.release()
        self._inbox.wake()

    def hand_over(
        self, work: Work, cause: str
    ) -> tuple[list[LeftModel], Sequence[Command], list[LoadedModel]] | None:
        """Give up this thread, which is stuck in some work, for another one. Any thread.

        The answers of the model that it works for end with an error. What it holds is freed if it
        comes back.
        """
        self._pulse.give_up(unless=lambda now: now is None or now.number != work.number)
        if not self._pulse.is_given_up or self._is_given_up.is_set():
            return None
        is_own = threading.current_thread() is self._thread
        has_turn = not is_own and self._turn.acquire(timeout=_GLANCE_S)
        try:
            hang = Hang(cause, lambda: is_own or not self.is_alive)
            left, others = self._models.hand_over(
                work.model, hang, is_touched=not has_turn and not is_own
            )
            if has_turn or is_own:
                self._outbox.flush(is_forced=True)
            why = EngineStuck(cause)
            self._inbox.close(why)
            if self._inbox.at_hand is not None and work.model is not None:
                refuse(self._inbox.at_hand, why)
            # Their requests are rendered again.
            commands = [
                command for command in self._inbox.take_all() if type(command) is not Rendered
            ]
            self._is_watch_over.set()
            self._preparation.close(why)
            self._is_given_up.set()
        finally:
            if has_turn:
                self._turn.release()
        self._inbox.wake()
        return left, commands, others

    def _gather(self, is_load: bool) -> Evidence:
        return gather(self._thread.native_id, is_load=is_load)

    def _look(self) -> None:
        """End renderings that take too long, and notice a stuck thread; the watch's thread."""
        self._preparation.check_deadlines()
        now_s = time.monotonic()
        since_s, self._looked_s = now_s - self._looked_s, now_s
        work = self._pulse.work
        if self._patience.is_over(work, since_s) and work is not None:
            what = "been loaded any further" if work.is_load else "completed a step"
            cause = f"the model has not {what} for {self._limits.stuck_after_s:g} seconds"
            self._on_stuck(self, work, cause)

    # -- the loop --------------------------------------------------------------------------

    def _run(self) -> None:
        cause: str | None = None
        work_in_long_turns()
        try:
            with self._turn:
                left, self._left = self._left, ()
                self._models.begin(left)
            while self._serve():
                self._step()
                self._models.load_next(self._go_on_meanwhile, self._turn)
        except GivenUp:
            _log.warning("an engine thread that was given up ends")
        except BaseException as error:
            cause = self._died(error)
        finally:
            self._shut(cause)

    def _died(self, error: BaseException) -> str | None:
        """Let the other models go on in another thread; return the cause where there are none."""
        _log.error("the engine thread died", exc_info=error)
        cause = f"the engine stopped: {cause_of(error)}"
        work = self._pulse.give_up()
        if work is None or work.model is None:
            return cause
        self._on_stuck(self, work, cause)
        return None if self._is_given_up.is_set() else cause

    def _step(self) -> None:
        """Step a model once and emit its tokens."""
        begin_s = time.monotonic()
        outcome = self._models.decode()
        with self._turn:
            self._models.advance(outcome)
            self._publish()
        if self._has_freed and begin_s > self._return_due_s:
            self._return_memory()

    def _go_on_meanwhile(self) -> None:
        """Carry out commands and step the other models for a while, while a model is loaded.

        Called by the loader between two parts of its work. An error of theirs ends the thread, but
        not that load: the thread is given up before the loader can report it as failed.
        """
        now_s = time.monotonic()
        until_s = now_s + min(now_s - self._left_load_s, _MAX_MEANWHILE_S)
        try:
            while not self._inbox.is_ending.is_set():
                with self._turn:
                    if not self._inbox.collect(None):
                        return
                    self._cancel(self._inbox.take_cancels())
                    while (command := self._inbox.take_next()) is not None:
                        self._models.do(command)
                self._step()
                if not self._models.is_running or time.monotonic() > until_s:
                    return
        except GivenUp:
            raise
        except BaseException as error:
            if self._died(error) is not None:
                self._fault = error
                raise LoadCancelled from error
            raise GivenUp from error
        finally:
            self._left_load_s = time.monotonic()

    def _serve(self) -> bool:
        """Carry out commands; wait for one if there is nothing else to do. False ends the thread.

        While answers run, it returns to them after a few milliseconds, or after one command that
        takes longer. Cancels go first.
        """
        begin_s = time.monotonic()
        inbox, models = self._inbox, self._models
        while True:
            is_idle = models.is_idle and not inbox.has_line
            is_waiting = is_idle or (models.waits_for_prompts and not inbox.has_line)
            if is_waiting:
                # Readers must learn before the long wait which answers the last command ended.
                with self._turn:
                    self._publish(is_forced=True)
            else:
                models.note_work()
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
                with self._turn:
                    self._pulse.begin()
                    if (command := inbox.take_next()) is not None:
                        models.do(command)
            self._has_freed = True
            models.note_work()
            if models.is_running and time.monotonic() - begin_s > _SERVING_S:
                return True

    def _collect(self, *, is_waiting: bool, is_idle: bool) -> bool:
        """Queue the sent commands and carry out the cancels; False ends the thread."""
        first = None
        if is_waiting:
            due_s = self._rest_due_s() if is_idle else _GLANCE_S
            self._pulse.end()
            first = self._inbox.wait(due_s)
            self._pulse.begin()
        with self._turn:
            if not self._inbox.collect(first):
                return False
            self._cancel(self._inbox.take_cancels())
        return True

    def _cancel(self, generations: Sequence[Generation]) -> None:
        """End answers; a request that is still queued is dropped with all its choices."""
        if not generations:
            return
        self._models.cancel(generations)
        for generation in generations:
            if (waiting := self._inbox.take_submit_of(generation)) is not None:
                settle(waiting.generations, RequestCancelled("cancelled before it was taken"))

    def _rest_due_s(self) -> float | None:
        """Return in how many seconds ``_rest`` is due; None for never."""
        waits_s = (self._models.unload_due_s, _RETURNED_AFTER_S if self._has_freed else None)
        return min((wait_s for wait_s in waits_s if wait_s is not None), default=None)

    def _rest(self) -> None:
        """Return freed memory, or unload idle models, after a time without commands."""
        if self._has_freed:
            self._return_memory()
            return
        with self._turn:
            self._models.unload_idle()
        self._has_freed = True

    def _return_memory(self) -> None:
        """Return freed memory to the system."""
        self._has_freed = False
        return_freed_memory()
        self._return_due_s = time.monotonic() + _RETURNED_EVERY_S

    def _publish(self, *, is_forced: bool = False) -> None:
        """Publish changes, and cancel the answers that nobody can read any more."""
        self._models.publish()
        self._cancel(self._outbox.flush(is_forced=is_forced))

    # -- the end ---------------------------------------------------------------------------

    def _shut(self, cause: str | None) -> None:
        """End all answers and commands, so that nobody waits for a thread that has ended."""
        self._inbox.close(EngineClosed(cause or "the engine has been shut down"))
        if not self._pulse.is_given_up or cause is not None:
            with self._turn:
                self._models.end_all(StopKind.CANCELLED if cause is None else StopKind.ERROR, cause)
                self._outbox.flush(is_forced=True)
                self._refuse_the_rest(EngineClosed(cause or "the engine has been shut down"))
            state: ModelState = "unloaded" if cause is None else "failed"
            self._list.clear(ModelStatus(state=state, message=cause or ""))
        self._is_leaving = True
        with contextlib.suppress(Exception):  # after a fault, freeing may fail as well
            self._models.free()
        with contextlib.suppress(Exception):
            self._leave()  # even a cancelled load has used the libraries

    def _refuse_the_rest(self, why: EngineError) -> None:
        """Refuse the commands that were never carried out."""
        self._is_watch_over.set()
        self._models.refuse_the_rest(why)
        self._preparation.close(why)
        for command in self._inbox.take_all():
            refuse(command, why)

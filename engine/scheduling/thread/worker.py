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
from typing import Literal

from engine.errors import EngineClosed, EngineError, RequestCancelled
from engine.inference.backend import Loader
from engine.inference.tuning import share_one_arena, take_short_turns, work_in_long_turns
from engine.library.loading import LoadCancelled
from engine.scheduling.generation import Generation
from engine.scheduling.limits import Limits
from engine.scheduling.outbox import Outbox, settle
from engine.scheduling.queue.failures import cause_of
from engine.scheduling.queue.preparing import Watch
from engine.scheduling.thread.board import StatusBoard
from engine.scheduling.thread.commands import Command, EngineStatus, refuse
from engine.scheduling.thread.freed_memory import FreedMemory
from engine.scheduling.thread.inbox import Inbox
from engine.scheduling.thread.models.lanes import Lanes
from engine.scheduling.thread.pulse import Pulse
from engine.stopping.record import StopKind

_log = logging.getLogger(__name__)
_GLANCE_S = 0.05
# How long commands are carried out between two steps; the last one may take longer.
_SERVING_S = 0.004
# How long the other models are stepped between two parts of loading a model.
_MOST_MEANWHILE_S = 0.1


class EngineThread:
    """One run of the engine thread. Ends with ``Shutdown``, by an error, or when it is given up.

    Args:
        limits: The limits of the engine.
        loader: Loads a model folder; called on the thread.
        board: Gets the status of each model.
        leave: Frees what the libraries keep for a thread; called at the end of the thread.
    """

    def __init__(
        self,
        limits: Limits,
        loader: Loader,
        board: StatusBoard,
        leave: Callable[[], None],
    ) -> None:
        self._limits = limits
        self._leave = leave
        self._board = board
        self._inbox = Inbox()
        self._outbox = Outbox()
        self._pulse = Pulse()
        self._lanes = Lanes(limits, loader, self._inbox, self._outbox, board)
        # The error of a step of another model while one was loaded.
        self._fault: BaseException | None = None
        # When the running load was last continued.
        self._left_load_s = 0.0
        # Held by the thread that changes answers: by this one, except while it waits for the model
        # or for commands, or by the one that gives it up.
        self._turn = threading.Lock()
        self._is_lost = False
        self._is_given_up = threading.Event()
        self._freed = FreedMemory()
        self._watch = Watch(self._look)
        share_one_arena()
        take_short_turns()
        self._thread = threading.Thread(target=self._run, name="fullstop-engine", daemon=True)
        self._thread.start()

    def send(self, command: Command) -> bool:
        """Put a command into the inbox; return False if it is closed. Any thread."""
        return self._inbox.send(command)

    def join(self) -> None:
        """Wait until the thread has ended, or has been given up."""
        while self._thread.is_alive() and not self._is_given_up.is_set():
            self._thread.join(_GLANCE_S)

    def give_up(self, cause: str, patience_s: float) -> None:
        """End all answers and commands with an error, and accept no more. Any other thread.

        For a thread that may wait forever for something outside the process. For up to
        ``patience_s`` the thread may still end its answers by itself.
        """
        self._is_lost = True
        self._inbox.close(EngineClosed(cause))
        self._inbox.is_ending.set()
        deadline_s = time.monotonic() + patience_s
        while self._lanes.has_answers and time.monotonic() < deadline_s:
            time.sleep(_GLANCE_S)
        has_turn = self._turn.acquire(timeout=_GLANCE_S)
        try:
            self._board.clear(EngineStatus("failed", message=cause))
            if has_turn:
                self._end_all(StopKind.ERROR, cause)
            else:  # the thread is stuck while it changes an answer
                why = EngineClosed(cause)
                self._lanes.fail_readers(cause, why)
                self._refuse_the_rest(why)
            self._is_given_up.set()
        finally:
            if has_turn:
                self._turn.release()
        self._inbox.wake()

    @property
    def is_stuck(self) -> bool:
        """Whether it was given up and still runs. Any thread."""
        return self._is_lost and self._thread.is_alive()

    def _look(self) -> None:
        """End renderings and steps that take too long. Called on the watch's thread."""
        self._lanes.look()
        most_s = self._limits.stuck_after_s
        if self._pulse.has_lasted(most_s):
            self.give_up(f"the model has not completed a step for {most_s:g} seconds", 0.0)

    # -- the loop --------------------------------------------------------------------------

    def _run(self) -> None:
        cause: str | None = None
        work_in_long_turns()
        try:
            while self._serve() and self._step():
                self._lanes.load_next(self._go_on_meanwhile, self._turn)
                if self._fault is not None:
                    raise self._fault
        except BaseException as error:
            _log.exception("the engine thread died")
            cause = f"the engine stopped: {cause_of(error)}"
        finally:
            self._shut(cause)

    def _step(self) -> bool:
        """Step a model once and hand out its tokens; return False if the thread was given up."""
        begin_s = self._pulse.begin()
        outcome = self._lanes.decode()
        with self._turn:
            if self._is_given_up.is_set():
                return False
            self._lanes.advance(outcome)
            self._publish()
        if self._freed.is_overdue(begin_s):
            self._freed.give_back()
        self._pulse.end()
        return True

    def _go_on_meanwhile(self) -> None:
        """Carry out commands and step the other models for a while, while a model is loaded.

        Called by the loader between two parts of its work.
        """
        if self._fault is not None:
            raise LoadCancelled
        now_s = time.monotonic()
        until_s = now_s + min(now_s - self._left_load_s, _MOST_MEANWHILE_S)
        try:
            while not self._inbox.is_ending.is_set():
                with self._turn:
                    if not self._inbox.collect(None):
                        return
                    self._cancel(self._inbox.take_cancels())
                    while (command := self._inbox.take_next()) is not None:
                        self._lanes.do(command)
                if not self._step() or not self._lanes.has_rows or time.monotonic() > until_s:
                    return
        except BaseException as error:
            # Otherwise the loader would report it as a failed load.
            self._fault = error
            raise LoadCancelled from error
        finally:
            self._pulse.end()
            self._left_load_s = time.monotonic()

    def _serve(self) -> bool:
        """Carry out commands; wait for one if there is nothing else to do. False ends the thread.

        While answers run, it returns to them after a few milliseconds, or after one command that
        takes longer. Cancels go first.
        """
        begin_s = time.monotonic()
        inbox, lanes = self._inbox, self._lanes
        while True:
            is_idle = lanes.is_idle and not inbox.has_line
            is_waiting = is_idle or (lanes.waits_for_prompts and not inbox.has_line)
            if is_waiting:
                # Readers must learn before the long wait which answers the last command ended.
                with self._turn:
                    self._publish(is_forced=True)
            else:
                lanes.note_work()
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
                self._pulse.begin()
                with self._turn:
                    if (command := inbox.take_next()) is not None:
                        lanes.do(command)
                self._pulse.end()
            self._freed.note()
            lanes.note_work()
            if lanes.has_rows and time.monotonic() - begin_s > _SERVING_S:
                return True

    def _collect(self, *, is_waiting: bool, is_idle: bool) -> bool:
        """Queue the sent commands and carry out the cancels; False ends the thread.

        Args:
            is_waiting: Whether to wait for a first command.
            is_idle: Whether to wait until a model should be unloaded, and not only for a moment.

        Raises:
            queue.Empty: No command came in that time.
        """
        first = None
        if is_waiting:
            due_s = self._rest_due_s() if is_idle else _GLANCE_S
            first = self._inbox.wait(due_s)
        with self._turn:
            if not self._inbox.collect(first):
                return False
            self._cancel(self._inbox.take_cancels())
        return True

    def _cancel(self, generations: Sequence[Generation]) -> None:
        """End answers; a request that is still queued is dropped with all its choices."""
        if not generations:
            return
        self._lanes.cancel(generations)
        for generation in generations:
            if (waiting := self._inbox.take_submit_of(generation)) is not None:
                settle(waiting.generations, RequestCancelled("cancelled before it was taken"))

    def _rest_due_s(self) -> float | None:
        """Return in how many seconds ``_rest`` is due; None for never."""
        waits_s = (self._lanes.unload_due_s, self._freed.wait_s)
        return min((wait_s for wait_s in waits_s if wait_s is not None), default=None)

    def _rest(self) -> None:
        """Return freed memory, or unload idle models, after a time without commands."""
        if not self._freed.give_back():
            with self._turn:
                self._lanes.unload_idle()
            self._freed.note()

    def _publish(self, *, is_forced: bool = False) -> None:
        """Publish changes, and cancel the answers that nobody can read any more."""
        self._lanes.publish()
        self._cancel(self._outbox.flush(is_forced=is_forced))

    # -- the end ---------------------------------------------------------------------------

    def _shut(self, cause: str | None) -> None:
        """End all answers and commands, so that nobody waits for a thread that has ended."""
        self._inbox.close(EngineClosed(cause or "the engine has been shut down"))
        with self._turn:
            is_given_up = self._is_given_up.is_set()
            if is_given_up:
                self._refuse_the_rest(self._inbox.why_closed)
            else:
                self._end_all(StopKind.CANCELLED if cause is None else StopKind.ERROR, cause)
        with contextlib.suppress(Exception):  # after a fault, freeing may fail as well
            self._lanes.free()
        with contextlib.suppress(Exception):
            self._leave()  # even a cancelled load has used the libraries
        if not is_given_up:
            state: Literal["none", "failed"] = "none" if cause is None else "failed"
            self._board.clear(EngineStatus(state, message=cause or ""))

    def _end_all(self, kind: StopKind, cause: str | None) -> None:
        self._lanes.abandon(kind, cause)
        self._outbox.flush(is_forced=True)
        self._refuse_the_rest(EngineClosed(cause or "the engine has been shut down"))

    def _refuse_the_rest(self, why: EngineError) -> None:
        """Refuse the commands that were never carried out."""
        self._watch.end()
        self._lanes.refuse_the_rest(why)
        for command in self._inbox.take_all():
            refuse(command, why)

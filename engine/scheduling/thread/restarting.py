"""The engine thread, in its present run: the first command starts it, and a stuck model a new one.

MLX's streams belong to threads, and what hangs in a library cannot be interrupted. So a thread that
is stuck in one model is given up with that model, and another thread goes on with the others. The
one that was given up ends by itself if it ever comes back. Any thread may use this module.
"""

import contextlib
import logging
import threading

from engine.errors import EngineClosed
from engine.inference.loader import Loader
from engine.inference.threads import leave_thread
from engine.scheduling.limits import Limits
from engine.scheduling.thread.board import StatusBoard
from engine.scheduling.thread.commands import Command, Shutdown, UnloadAfter
from engine.scheduling.thread.pulse import Work
from engine.scheduling.thread.worker import EngineThread
from engine.stopping.record import StopKind

_log = logging.getLogger(__name__)
_SHUT_DOWN = "the engine has been shut down"
# How long the end of the program waits for a step that is under way.
_CLOSING_S = 2.0
# Threads that are stuck keep the memory of their models. Beyond this number, the engine ends.
_MOST_STUCK = 4


class RestartingThread:
    """Sends commands to the engine thread, and starts another one where that is stuck."""

    def __init__(self, limits: Limits, loader: Loader) -> None:
        self.board = StatusBoard()
        self._limits = limits
        self._loader = loader
        self._lock = threading.Lock()
        self._thread: EngineThread | None = None
        self._stuck: list[EngineThread] = []
        self._why_closed: str | None = None
        # By model: when it is unloaded, which outlives a thread.
        self._said: dict[str | None, UnloadAfter] = {}

    def send(self, command: Command) -> None:
        """Send a command; start a thread if there is none."""
        with self._lock:
            if self._why_closed is not None:
                raise EngineClosed(self._why_closed)
            self._note(command)
            if self._thread is None or not self._thread.send(command):
                # The one before died outside of any model.
                self._thread = EngineThread(
                    self._limits, self._loader, self.board, leave_thread, self._on_stuck
                )
                for said in self._said.values():
                    self._thread.send(said)
                self._thread.send(command)

    def tell(self, command: Command) -> None:
        """Send a command that only matters to a running thread; does not start one."""
        with self._lock:
            self._note(command)
            if self._thread is not None:
                self._thread.send(command)

    def _note(self, command: Command) -> None:
        if isinstance(command, UnloadAfter):
            self._said[None if command.model is None else command.model.id] = command

    def _on_stuck(self, thread: EngineThread, work: Work, cause: str) -> None:
        """Give up a thread that is stuck, or has died, in one model; go on with the others."""
        with self._lock:
            if thread is not self._thread or self._why_closed is not None:
                return
            self._stuck = [one for one in self._stuck if one.is_alive]
            if len(self._stuck) >= _MOST_STUCK:
                self._why_closed = f"{cause}; restart Fullstop, because too many models are stuck"
                thread.give_up(self._why_closed, 0.0)
                return
            handed = thread.hand_over(work, cause)
            if handed is None:
                return
            left, commands, others = handed
            _log.error("%s; the other models go on in another thread", cause)
            self._stuck.append(thread)
            self._thread = EngineThread(
                self._limits, self._loader, self.board, leave_thread, self._on_stuck, left
            )
            for command in [*self._said.values(), *commands]:
                self._thread.send(command)
        for lane in others:  # their memory; those that are needed are loaded again
            with contextlib.suppress(Exception):
                lane.drop()

    @property
    def is_stuck(self) -> bool:
        """Whether a thread that was given up still runs, so that the process must not wait."""
        with self._lock:
            return any(one.is_alive for one in self._stuck)

    def close(self) -> None:
        """Cancel all running answers and end the thread; returns soon, even if it is stuck."""
        thread = self._taken(_SHUT_DOWN)
        if thread is None:
            return
        thread.send(Shutdown())
        if not thread.join(_CLOSING_S):
            thread.give_up(_SHUT_DOWN, 0.0, StopKind.CANCELLED)
            with self._lock:
                self._stuck.append(thread)

    def give_up(self, cause: str, patience_s: float) -> None:
        """End every answer with an error; blocks for up to ``patience_s``. Not the engine thread's.

        The thread itself may keep running if it is stuck.
        """
        thread = self._taken(cause)
        if thread is not None:
            thread.give_up(cause, patience_s)
            with self._lock:
                self._stuck.append(thread)

    def _taken(self, why: str) -> EngineThread | None:
        """Start no more threads; return the present one. The first reason given is kept."""
        with self._lock:
            if self._why_closed is None:
                self._why_closed = why
            return self._thread

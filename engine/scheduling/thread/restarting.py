"""An engine thread that starts when it is first needed, and again after it died.

Any thread may use it.
"""

import threading

from engine.errors import EngineClosed, EngineStuck
from engine.inference.backend import Loader
from engine.inference.leaving import leave_thread
from engine.scheduling.limits import Limits
from engine.scheduling.thread.board import StatusBoard
from engine.scheduling.thread.commands import Command, Load, Shutdown, UnloadAfter
from engine.scheduling.thread.worker import EngineThread


class RestartingThread:
    """Sends commands to the engine thread, and keeps the settings for a new thread.

    Args:
        limits: The limits of the engine.
        loader: Loads a model folder.

    Attributes:
        board: The status of each model.
    """

    def __init__(self, limits: Limits, loader: Loader) -> None:
        self.board = StatusBoard()
        self._limits = limits
        self._loader = loader
        self._lock = threading.Lock()
        self._thread: EngineThread | None = None
        self._why_closed: str | None = None
        # By model: when it is unloaded, which outlives a thread.
        self._said: dict[str | None, UnloadAfter] = {}

    def send(self, command: Command) -> None:
        """Send a command; start a new thread if there is none or it died.

        Raises:
            EngineClosed: ``close`` or ``give_up`` was called.
            EngineStuck: The thread was given up and still runs.
        """
        with self._lock:
            if self._why_closed is not None:
                raise EngineClosed(self._why_closed)
            self._note(command)
            before = self._thread
            if before is not None:
                if before.send(command):
                    return
                if before.is_stuck:
                    # A second thread would load the model into memory beside the first.
                    raise EngineStuck(
                        f"{self.board.status.message}; if it stays stuck, restart Fullstop"
                    )
            # The default model of the thread before; the new thread begins without a model.
            folder, offered = self.board.default_folder, self.board.default_model
            thread = self._thread = EngineThread(
                self._limits, self._loader, self.board, leave=leave_thread
            )
            for said in self._said.values():
                thread.send(said)
            is_other = isinstance(command, Load) and command.model is None
            if before is not None and folder is not None and not is_other:
                thread.send(Load(folder, None, cancels_running=False, model=offered))
            thread.send(command)

    def tell(self, command: Command) -> None:
        """Send a command that only matters to a running thread; does not start one."""
        with self._lock:
            self._note(command)
            thread = self._thread
        if thread is not None:
            thread.send(command)

    def _note(self, command: Command) -> None:
        if isinstance(command, UnloadAfter):
            self._said[None if command.model is None else command.model.id] = command

    def close(self) -> None:
        """Cancel all running answers and end the thread; returns when it has ended."""
        thread = self._taken("the engine has been shut down")
        if thread is not None:
            thread.send(Shutdown())
            thread.join()

    def give_up(self, cause: str, patience_s: float) -> None:
        """End every answer with an error; blocks for up to ``patience_s``. Not the engine thread's.

        The thread itself may keep running if it is stuck.
        """
        thread = self._taken(cause)
        if thread is not None:
            thread.give_up(cause, patience_s)

    def _taken(self, why: str) -> EngineThread | None:
        """Start no more threads; return the present one. The first reason given is kept."""
        with self._lock:
            if self._why_closed is None:
                self._why_closed = why
            return self._thread

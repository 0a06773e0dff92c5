"""The commands that wait for the engine thread, in the order in which they were sent.

Knows no model and no answer. ``send`` and ``close`` may be called on any thread, the rest on the
engine thread, or on the thread that gives it up.
"""

import contextlib
import queue
import threading
from collections import deque

from engine.errors import EngineClosed, EngineError
from engine.scheduling.generation import Generation
from engine.scheduling.thread.commands import Cancel, Command, Shutdown, Submit


class Inbox:
    """Commands that were sent and not carried out yet."""

    def __init__(self) -> None:
        self.is_ending = threading.Event()
        self._sent: queue.SimpleQueue[Command] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._is_open = True
        self.why_closed: EngineError = EngineClosed("the engine has been shut down")
        self._in_line: deque[Command] = deque()
        self.at_hand: Command | None = None

    def send(self, command: Command) -> bool:
        """Add a command; return False if the inbox is closed. Any thread."""
        with self._lock:
            if not self._is_open:
                return False
            if isinstance(command, Shutdown):
                self.is_ending.set()
            self._sent.put(command)
            return True

    def close(self, why: EngineError) -> None:
        """Take no more commands; the first reason given stays the reason. Any thread."""
        with self._lock:
            if self._is_open:
                self._is_open, self.why_closed = False, why

    def wake(self) -> None:
        """Wake a waiting thread so that it ends, even if the inbox is closed. Any thread."""
        self.is_ending.set()
        self._sent.put(Shutdown())

    @property
    def is_empty(self) -> bool:
        """Whether no command waits."""
        return not self._in_line and self._sent.empty()

    @property
    def has_line(self) -> bool:
        """Whether a command that was collected has not been carried out yet."""
        return bool(self._in_line)

    def wait(self, timeout_s: float | None) -> Command:
        """Wait for the next command that is sent."""
        return self._sent.get(timeout=timeout_s)

    def collect(self, first: Command | None) -> bool:
        """Queue ``first`` and all sent commands after it; return False if the thread is to end."""
        if first is not None:
            self._in_line.append(first)
        with contextlib.suppress(queue.Empty):
            while True:
                self._in_line.append(self._sent.get_nowait())
        return not any(isinstance(command, Shutdown) for command in self._in_line)

    def take_cancels(self) -> list[Generation]:
        """Remove the cancels from the queue: they overtake everything else."""
        cancelled = [one.generation for one in self._in_line if isinstance(one, Cancel)]
        if cancelled:
            self._in_line = deque(one for one in self._in_line if not isinstance(one, Cancel))
        return cancelled

    def take_next(self) -> Command | None:
        """Remove and return the first command; None if there is none."""
        self.at_hand = self._in_line.popleft() if self._in_line else None
        return self.at_hand

    def take_submit_of(self, generation: Generation) -> Submit | None:
        """Remove and return the command that asks for a generation; None if it is not here."""
        for command in self._in_line:
            if isinstance(command, Submit) and generation in command.generations:
                self._in_line.remove(command)
                return command
        return None

    def take_all(self) -> list[Command]:
        """Remove and return all commands that were never carried out."""
        left = list(self._in_line)
        with contextlib.suppress(queue.Empty):
            while True:
                left.append(self._sent.get_nowait())
        self._in_line.clear()
        return left

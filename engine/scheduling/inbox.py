"""The commands to the engine thread, and the queue in which they wait for it."""

import asyncio
import contextlib
import queue
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.errors import EngineClosed, EngineError
from engine.scheduling.generation import Generation, settle
from engine.scheduling.model_list import OfferedModel
from engine.scheduling.sequence import ScheduledSequence
from engine.stopping.record import StopKind
from engine.values.request import CacheOwner, EmbeddingRequest

if TYPE_CHECKING:
    from engine.inference.mlx_backend import MlxBackend


@dataclass(frozen=True, slots=True)
class Reply:
    """Carries one result back to the loop that waits for it."""

    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]

    @classmethod
    def here(cls) -> "Reply":
        """Make one for the running loop."""
        loop = asyncio.get_running_loop()
        return cls(loop, loop.create_future())

    def send(self, value: Any) -> None:
        """Send the result (engine thread); an exception is raised where it is awaited."""
        # If the loop has been closed, nobody waits any more.
        with contextlib.suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self._settle, value)

    def _settle(self, value: Any) -> None:
        if self.future.done():
            return
        if isinstance(value, BaseException):
            self.future.set_exception(value)
        else:
            self.future.set_result(value)


@dataclass(frozen=True, slots=True, eq=False)
class Submit:
    """Generate the choices of one request: the engine accepts all of them, or none."""

    generations: tuple[Generation, ...]
    at: float
    size: int = 0
    model: OfferedModel | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Embed:
    """Turn texts into vectors and reply with ``Embeddings``.

    Any thread may set ``gives_up`` where nobody waits any more.
    """

    request: EmbeddingRequest
    reply: Reply
    model: OfferedModel | None = None
    gives_up: threading.Event = field(default_factory=threading.Event)


@dataclass(frozen=True, slots=True)
class Rendered:
    """The result of rendering or tokenising a request."""

    request: Submit | Embed
    outcome: object
    is_fetched: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Resume:
    """Go on with answers of a thread that was given up because of another model."""

    sequences: list[ScheduledSequence]
    model: OfferedModel | None = None


@dataclass(frozen=True, slots=True)
class Cancel:
    """End an answer within one step."""

    generation: Generation


@dataclass(frozen=True, slots=True)
class Load:
    """Load a model in place of the present one, after running answers end or are cancelled.

    Any thread may set ``gives_up`` to cancel the load.
    """

    folder: Path
    reply: Reply | None
    cancels_running: bool
    draft: Path | None = None
    gives_up: threading.Event = field(default_factory=threading.Event)
    model: OfferedModel | None = None
    keeps_default: bool = False


@dataclass(frozen=True, slots=True)
class Unload:
    """Remove a model, after running answers end or are cancelled."""

    reply: Reply
    cancels_running: bool
    model: OfferedModel | None = None


@dataclass(frozen=True, slots=True)
class Ask:
    """Answer a question about text and tokens, on another thread; reply with the answer."""

    question: "Callable[[MlxBackend], object]"
    reply: Reply
    model: OfferedModel | None = None


@dataclass(frozen=True, slots=True)
class ForgetPrompts:
    """Drop the caches of an owner's earlier prompts; reply with how many, and their bytes."""

    owner: CacheOwner
    reply: Reply


@dataclass(frozen=True, slots=True)
class UnloadAfter:
    """Free a model's memory once nobody has used it for ``idle_s``; None never does.

    Without ``model``, it is for every model that has no time of its own.
    """

    idle_s: float | None
    model: OfferedModel | None = None


@dataclass(frozen=True, slots=True)
class UnloadWhenIdle:
    """Free a model's memory as soon as nothing runs; a request that comes first keeps it."""

    model: OfferedModel | None = None


@dataclass(frozen=True, slots=True)
class Pin:
    """Keep a model in memory when another model needs room, or not any more."""

    is_pinned: bool
    model: OfferedModel | None = None


@dataclass(frozen=True, slots=True)
class Shutdown:
    """Cancel everything and end the thread."""


Command = (
    Submit
    | Embed
    | Resume
    | Rendered
    | Cancel
    | Load
    | Unload
    | Ask
    | ForgetPrompts
    | UnloadAfter
    | UnloadWhenIdle
    | Pin
    | Shutdown
)


def refuse(command: Command, why: EngineError) -> None:
    """Send the reason to the callers of a command that will not be carried out."""
    match command:
        case Submit():
            settle(command.generations, why)
        case Rendered(request=Submit() as request):
            settle(request.generations, why)
        case Rendered(request=Embed() as request):
            request.reply.send(why)
        case Resume():
            for sequence in command.sequences:
                sequence.end_for_reader(StopKind.ERROR, str(why))
        case Load() | Unload() | Ask() | Embed() | ForgetPrompts():
            if command.reply is not None:
                command.reply.send(why)
        case _:
            pass  # these have no reply


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
        cancelled = [command.generation for command in self._in_line if isinstance(command, Cancel)]
        if cancelled:
            self._in_line = deque(
                command for command in self._in_line if not isinstance(command, Cancel)
            )
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

"""The commands that other threads send to the engine thread, and its status."""

import asyncio
import contextlib
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from engine.errors import EngineError
from engine.inference.backend import PromptCacheUse
from engine.library.loading import LoadProgress
from engine.library.models import ModelInfo
from engine.scheduling.generation import Generation
from engine.scheduling.offering import OfferedModel
from engine.scheduling.outbox import settle
from engine.scheduling.queue.row import Row
from engine.stopping.record import StopKind
from engine.values.request import CacheOwner, EmbeddingRequest, GenerationRequest


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

    rows: list[Row]
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


TokenTexts = tuple[tuple[int, str], ...]
"""The ids and texts of some tokens, in order."""


@dataclass(frozen=True, slots=True)
class CountTokens:
    """Render a request and reply with the number of its tokens."""

    request: GenerationRequest
    reply: Reply
    model: OfferedModel | None = None


@dataclass(frozen=True, slots=True)
class RenderPrompt:
    """Render a request and reply with the (id, text) pairs of its tokens."""

    request: GenerationRequest
    reply: Reply
    model: OfferedModel | None = None


@dataclass(frozen=True, slots=True)
class Tokenize:
    """Reply with the (id, text) pairs of the tokens of a plain text."""

    text: str
    reply: Reply
    model: OfferedModel | None = None


@dataclass(frozen=True, slots=True)
class Detokenize:
    """Reply with the text of token ids."""

    ids: Sequence[int]
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
    | CountTokens
    | RenderPrompt
    | Tokenize
    | Detokenize
    | ForgetPrompts
    | UnloadAfter
    | UnloadWhenIdle
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
            for row in command.rows:
                row.end_for_reader(StopKind.ERROR, str(why))
        case (
            Load()
            | Unload()
            | CountTokens()
            | RenderPrompt()
            | Tokenize()
            | Detokenize()
            | Embed()
            | ForgetPrompts()
        ):
            if command.reply is not None:
                command.reply.send(why)
        case _:
            pass  # these have no reply


@dataclass(frozen=True, slots=True)
class EngineStatus:
    """The status of the engine, or of one of its models.

    Attributes:
        state: Whether a model is there, is being loaded, or could not be loaded.
        model: The loaded model, if any.
        running: The number of rows in the batch.
        waiting: The number of answers that wait for a place.
        message: Why loading failed, or what is being loaded; otherwise empty.
        cache_use: The state of the prompt cache.
        loading: The progress of loading, while a model is being loaded.
        is_unloaded: Whether the model's memory was freed while it was idle, or on request; the
            next request loads it again.
        memory_bytes: The memory of weights and caches, as of the last change of the other figures.
        used_at: When it was last used, in Unix seconds; None if it never was.
        keeps_s: How long it stays in memory after that; None for no limit.
        is_pinned: Whether it stays in memory when another model needs room.
        is_stuck: Whether it was given up because it was stuck. ``message`` says where, and it
            answers nothing until it is restarted or has come back.
    """

    state: Literal["none", "loading", "ready", "failed"] = "none"
    model: ModelInfo | None = None
    running: int = 0
    waiting: int = 0
    message: str = ""
    cache_use: PromptCacheUse = field(default_factory=PromptCacheUse)
    loading: LoadProgress | None = None
    is_unloaded: bool = False
    memory_bytes: int = 0
    used_at: float | None = None
    keeps_s: float | None = None
    is_pinned: bool = False
    is_stuck: bool = False

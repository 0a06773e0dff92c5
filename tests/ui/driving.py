"""Answers that a test dictates, and waiting for what a window shows."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from engine.library.models import EosToken, ModelInfo
from engine.scheduling.generation import Generation
from engine.scheduling.model_list import EngineStatus
from engine.values.events import Event
from engine.values.request import CacheOwner, GenerationRequest
from ui.chat.session.conversation_session import ConversationSession
from ui.chat.session.traces import Traces
from ui.records.conversations import Conversation
from ui.records.store import ConversationStore, MemoryConversationStore

RunOnLoop = Callable[[Coroutine[Any, Any, Any]], Any]


async def eventually(is_so: Callable[[], bool], timeout_s: float = 60) -> None:
    """Wait until something holds; fail the test if it does not in time."""
    async with asyncio.timeout(timeout_s):
        while not is_so():  # noqa: ASYNC110 - what is awaited is the window's look
            await asyncio.sleep(0.01)


MODEL = ModelInfo(
    id="scripted",
    path=Path("/models/scripted"),
    architecture="qwen3",
    context_length=4096,
    vocabulary_size=768,
    eos=(EosToken(2, "<|im_end|>", "tokenizer"),),
    can_think=True,
    can_call_tools=True,
    size_bytes=4_000_000,
    loaded_at=0,
)


class ScriptedEngine:
    """Hands out real ``Generation`` objects whose events the test dictates."""

    def __init__(self) -> None:
        self.model: ModelInfo | None = MODEL
        self.requests: list[GenerationRequest] = []
        self.generations: list[Generation] = []
        self.cancelled: list[Generation] = []
        self.refusal: Exception | None = None
        self.takes: asyncio.Event | None = None
        self.disk = None
        self.is_choosing = False
        self.models = ()
        self.forgotten: list[CacheOwner] = []

    @property
    def status(self) -> EngineStatus:
        return EngineStatus("ready" if self.model else "none", self.model)

    async def generate(self, request: GenerationRequest) -> Generation:
        self.requests.append(request)
        if self.refusal is not None:
            raise self.refusal
        if self.takes is not None:
            await self.takes.wait()
        loop = asyncio.get_running_loop()
        generation = Generation(request, loop, self.cancelled.append)
        generation.prompt_tokens = 7
        self.generations.append(generation)
        return generation

    def unload_after(self, idle_s: float | None) -> None:
        pass

    def cancel_load(self) -> None:
        pass

    def forget(self, owner: CacheOwner) -> None:
        self.forgotten.append(owner)

    async def tokenize(self, text: str, name: str | None = None) -> tuple[tuple[int, str], ...]:
        return tuple((ord(char), char) for char in text)

    async def count_tokens(self, request: GenerationRequest) -> int:
        return sum(len(str(message.content)) for message in request.messages)

    def say(self, *events: Event) -> None:
        """Let the newest answer's engine side push events."""
        push(self.generations[-1], events)


class OneModel:
    """The scripted engine's model, whichever a conversation wants."""

    def __init__(self, engine: ScriptedEngine) -> None:
        self._engine = engine

    def info_of(self, _folder: Path | None) -> ModelInfo | None:
        return self._engine.model

    @asynccontextmanager
    async def ready(self, _wanted: Callable[[], Path | None]) -> AsyncIterator[ModelInfo | None]:
        yield self._engine.model


def session(
    scripted: ScriptedEngine,
    conversation: Conversation | None = None,
    store: ConversationStore | None = None,
    traces: Traces | None = None,
) -> ConversationSession:
    """Return a session; what a test does not give is kept in memory."""
    return ConversationSession(
        scripted,
        conversation or Conversation(),
        store or MemoryConversationStore(),
        Traces() if traces is None else traces,
        OneModel(scripted),
    )


def push(generation: Generation, events: Iterable[Event]) -> None:
    if generation.push(events):
        generation.wake()

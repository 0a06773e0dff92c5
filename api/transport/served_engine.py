"""The protocols of the engine and of its answers, as the server uses them.

``engine.Engine`` and ``engine.Generation`` implement them, and so can others, such as a recorded
answer. Runs on the server's loop.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Protocol

from engine import (
    CacheOwner,
    EmbeddingRequest,
    Embeddings,
    EngineStatus,
    Event,
    Finished,
    GenerationRequest,
    ModelInfo,
    ModelStatus,
    RunSetting,
    Vocabulary,
)


class ServedAnswer(Protocol):
    """One answer that is being generated. ``engine.Generation`` says what each part means."""

    request: GenerationRequest
    prompt_tokens: int
    setting: RunSetting
    vocabulary: Vocabulary | None
    finished: Finished | None

    def cancel(self) -> None:
        """End the answer within one step."""

    def listen(self, listener: Callable[[list[Event]], None], *, hides_traces: bool) -> None:
        """Pass the events to a listener as well, as they are read.

        Args:
            listener: Called with each batch of events.
            hides_traces: Whether traces of tokens are hidden from the reader.
        """

    def batches(self) -> AsyncIterator[list[Event]]:
        """Yield the events as they arrive; ends after ``Finished``."""
        ...

    async def ended(self) -> Finished:
        """Wait until the end has been read, and return it."""
        ...


class ServedEngine(Protocol):
    """The part of an engine that a server uses. ``engine.Engine`` says what each part means."""

    @property
    def model(self) -> ModelInfo | None:
        """The loaded model, if there is one."""

    @property
    def status(self) -> EngineStatus:
        """What the engine is doing now."""
        ...

    @property
    def models(self) -> tuple[ModelStatus, ...]:
        """What every model is doing."""
        ...

    @property
    def is_choosing(self) -> bool:
        """Whether requests choose among several models; if not, one model answers all of them."""
        ...

    def model_status(self, name: str | None = None) -> ModelStatus | None:
        """Return the status of a model, None for no model; raises ``UnknownModel``."""
        ...

    async def generate_together(
        self, requests: Sequence[GenerationRequest]
    ) -> Sequence[ServedAnswer]:
        """Start the choices of one request; raises ``EngineError`` if it is refused."""
        ...

    async def count_tokens(self, request: GenerationRequest) -> int:
        """Return the number of prompt tokens of a request; raises like ``generate_together``."""
        ...

    async def tokenize(self, text: str, name: str | None = None) -> tuple[tuple[int, str], ...]:
        """Return the (id, text) pairs of a text; loads a model that is not in memory."""
        ...

    async def prompt_pieces(self, request: GenerationRequest) -> tuple[tuple[int, str], ...]:
        """Return the (id, text) pairs of a request's prompt; raises like ``generate_together``."""
        ...

    async def detokenize(self, ids: Sequence[int], name: str | None = None) -> str:
        """Return the text of ids; loads a model that is not in memory."""
        ...

    async def embed(self, request: EmbeddingRequest) -> Embeddings:
        """Return the vectors of texts; raises like ``generate_together``."""
        ...

    async def forget_prompts(self, owner: CacheOwner) -> tuple[int, int]:
        """Drop an owner's earlier prompts in memory; return their number and their bytes."""
        ...

    def unload_when_idle(self, name: str | None = None) -> None:
        """Free a model's memory once nothing runs."""

    def unload_after(self, idle_s: float | None, name: str | None = None) -> None:
        """Free a model's memory after this long without a request; None for never."""

"""What the server needs of an engine, and of an answer that it generates.

``engine.Engine`` and ``engine.Generation`` are these; so is anything else that answers in their
way, such as a recorded answer. Runs on the server's loop.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Protocol

from engine import (
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
        """Let somebody else see the events as they are read.

        Args:
            listener: Called with each batch of events.
            hides_traces: Whether the reader is to get no traces of tokens.
        """

    def batches(self) -> AsyncIterator[list[Event]]:
        """Yield the events as they come; ends after ``Finished``."""
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
        """Whether requests choose among several models; else one answers all of them."""
        ...

    def model_status(self, name: str | None = None) -> ModelStatus | None:
        """Return what a model is doing, None for no model; raises ``UnknownModel``."""
        ...

    async def generate_together(
        self, requests: Sequence[GenerationRequest]
    ) -> Sequence[ServedAnswer]:
        """Start the choices of one request; raises ``EngineError`` where it is refused."""
        ...

    async def count_tokens(self, request: GenerationRequest) -> int:
        """Return the number of prompt tokens of a request; raises as ``generate_together``."""
        ...

    async def tokenize(self, text: str, name: str | None = None) -> tuple[tuple[int, str], ...]:
        """Return the (id, text) pairs of a text; loads a model that is not in memory."""
        ...

    async def prompt_pieces(self, request: GenerationRequest) -> tuple[tuple[int, str], ...]:
        """Return the (id, text) pairs of a request's prompt; raises as ``generate_together``."""
        ...

    async def detokenize(self, ids: Sequence[int], name: str | None = None) -> str:
        """Return the text of ids; loads a model that is not in memory."""
        ...

    async def forget_prompts(self) -> tuple[int, int]:
        """Drop what memory holds of earlier prompts; return how many, and their bytes."""
        ...

    def unload_when_idle(self, name: str | None = None) -> None:
        """Free a model's memory once nothing runs."""

    def unload_after(self, idle_s: float | None, name: str | None = None) -> None:
        """Free a model's memory whenever nothing was asked for so long; None never does."""

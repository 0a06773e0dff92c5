"""An engine that has only one thing to say: the answer that was recorded.

Lets the real server say once more what it said, or what it would have said in another dialect.
Starts no thread and knows no model. Server's loop.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from engine import (
    Engine,
    EngineStatus,
    Event,
    Finished,
    Generation,
    GenerationRequest,
    ModelInfo,
    PromptProgress,
    Vocabulary,
)


class RecordedEngine(Engine):
    """Answers every request with the same events.

    Args:
        model_id: The name under which it answers.
        events: What came, ``Finished`` last.
        vocabulary: What token ids stand for, where that is known.
    """

    def __init__(
        self, model_id: str, events: Sequence[Event], vocabulary: Vocabulary | None = None
    ) -> None:
        super().__init__()
        self._events = tuple(events)
        self._vocabulary = vocabulary
        self._recorded = ModelInfo(
            id=model_id or "model",
            path=Path(),
            architecture="recorded",
            context_length=1 << 20,
            vocabulary_size=1 << 30,
            eos=(),
            can_think=True,
            can_call_tools=True,
            size_bytes=0,
            loaded_at=0,
        )

    @property
    def model(self) -> ModelInfo | None:
        """The model that was recorded."""
        return self._recorded

    @property
    def status(self) -> EngineStatus:
        """Ready."""
        return EngineStatus("ready", self._recorded)

    async def generate_together(self, requests: Sequence[GenerationRequest]) -> list[Generation]:
        """Return the recorded answer, whatever is asked and however often."""
        return [_RecordedGeneration(one, self._events, self._vocabulary) for one in requests]


class _RecordedGeneration(Generation):
    """Yields one event after the other, as a reader who keeps up with the model finds them."""

    def __init__(
        self,
        request: GenerationRequest,
        events: Sequence[Event],
        vocabulary: Vocabulary | None,
    ) -> None:
        super().__init__(request, asyncio.get_running_loop(), lambda _: None)
        last = events[-1]
        assert isinstance(last, Finished), "every answer ends in Finished"
        usage = last.usage
        self.prompt_tokens = usage.prompt_tokens
        self.vocabulary = vocabulary
        read = PromptProgress(usage.prompt_tokens, usage.prompt_tokens, usage.cached_tokens)
        self._recorded: tuple[Event, ...] = (read, *events)

    async def batches(self) -> AsyncIterator[list[Event]]:
        """Yield each event by itself."""
        for event in self._recorded:
            if isinstance(event, Finished):
                self.finished = event
            yield [event]

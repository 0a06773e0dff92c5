"""An engine that answers every request with one recorded answer.

With it, the real server repeats an answer, or sends it in another dialect. Starts no thread and
loads no model. Server's loop.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

from engine import DecodingSetting, ModelStatus, Vocabulary
from engine.library.model_info import ModelInfo
from engine.values.events import Event, Finished, PromptProgress
from engine.values.limits import Limits
from engine.values.request import GenerationRequest


class RecordedEngine:
    """Answers every request with the same events; has only the methods that generating needs."""

    def __init__(
        self, model_id: str, events: Sequence[Event], vocabulary: Vocabulary | None = None
    ) -> None:
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
    def limits(self) -> Limits:
        return Limits()

    @property
    def model(self) -> ModelInfo | None:
        return self._recorded

    @property
    def status(self) -> ModelStatus:
        return self.models[0]

    @property
    def models(self) -> tuple[ModelStatus, ...]:
        info = self._recorded
        return (ModelStatus(info.id, info.path, state="ready", info=info, is_default=True),)

    @property
    def is_choosing(self) -> bool:
        return False

    def resolve_model(self, name: str | None = None) -> ModelStatus | None:
        return self.models[0]

    async def generate_together(
        self, requests: Sequence[GenerationRequest]
    ) -> Sequence["RecordedAnswer"]:
        return [RecordedAnswer(request, self._events, self._vocabulary) for request in requests]


class RecordedAnswer:
    """Yields the recorded events one by one."""

    def __init__(
        self, request: GenerationRequest, events: Sequence[Event], vocabulary: Vocabulary | None
    ) -> None:
        last = events[-1]
        assert isinstance(last, Finished), "every answer ends in Finished"
        usage = last.usage
        self.request = request
        self.prompt_tokens = usage.prompt_tokens
        self.written_tokens = usage.output_tokens
        self.setting = DecodingSetting()
        self.vocabulary = vocabulary
        self.finished: Finished | None = None
        self.not_applied = request.not_applied
        read = PromptProgress(usage.prompt_tokens, usage.prompt_tokens, usage.cached_tokens)
        self._events: tuple[Event, ...] = (read, *events)
        self._listener: Callable[[list[Event]], None] | None = None
        self._has_ended = asyncio.Event()

    def cancel(self) -> None:
        """Do nothing, because nothing is being generated."""

    def listen(self, listener: Callable[[list[Event]], None], *, hides_traces: bool) -> None:
        """Pass the events to a listener, too; a recording has no traces to hide."""
        self._listener = listener

    async def batches(self) -> AsyncIterator[list[Event]]:
        for event in self._events:
            if self._listener is not None:
                self._listener([event])
            if isinstance(event, Finished):
                self.finished = event
                self._has_ended.set()
            yield [event]

    async def ended(self) -> Finished:
        await self._has_ended.wait()
        assert self.finished is not None
        return self.finished

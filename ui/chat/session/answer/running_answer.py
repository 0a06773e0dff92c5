"""A running answer: requests it from the engine, and collects the engine's events.

Main thread, in an asyncio task. Knows no conversation and shows nothing; the session takes the
events at its own pace.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable
from typing import Protocol

from engine import (
    UNEXPECTED,
    EngineError,
    Finished,
    Generation,
    GenerationRequest,
    RequestCancelled,
    StopInfo,
    StopKind,
    Timing,
    Usage,
)
from ui.chat.session.answer.arrived_events import ArrivedEvents
from ui.chat.session.models_on_demand import RequestForModel
from ui.chat.session.traces import Traces
from ui.records.runs import Run, RunState
from ui.words.failures import failure_words

_log = logging.getLogger(__name__)


class AnsweringEngine(Protocol):
    """The part of the engine that a chat needs."""

    async def generate(self, request: GenerationRequest) -> Generation:
        """Accept a request and return its running answer."""

    async def count_tokens(self, request: GenerationRequest) -> int:
        """Return the number of prompt tokens of a request."""

    async def tokenize(self, text: str, name: str | None = None) -> tuple[tuple[int, str], ...]:
        """Return the (id, text) pairs of plain text."""


class RunningAnswer:
    """The answer to one request."""

    def __init__(
        self, engine: AnsweringEngine, run: Run, asking: RequestForModel, traces: Traces
    ) -> None:
        self.run = run
        self.arrived = ArrivedEvents()
        self._engine = engine
        self._asking = asking
        self._traces = traces
        self._generation: Generation | None = None

    async def collect(self, ready: Awaitable[None]) -> None:
        """Send the request to the engine after ``ready``, and collect the answer until it ends."""
        run = self.run
        try:
            await ready
            async with self._asking.held() as (request, model):
                run.take_model(request.stops, run.model_id if model is None else model.id)
                generation = await self._engine.generate(request)
            run.prompt_total = generation.prompt_tokens
            self.arrived.trace = self._traces.begin(run.id, generation)
            self._generation = generation
            async for batch in generation.batches():
                self.arrived.add(batch)
        except RequestCancelled:
            pass  # the answer ends as a stopped one
        except EngineError as error:
            run.refusal = failure_words(error)
            run.state = RunState.REFUSED
        except asyncio.CancelledError:
            self.cancel()
            raise
        except Exception:
            self.fail()

    def note_pace(self) -> bool:
        """Note the speed in the run; return whether there is a change to show."""
        if self._generation is None:
            return False
        return self.run.pace.note(self._generation.written_tokens, time.monotonic())

    def cancel(self) -> bool:
        """End the answer within one step; return False if the engine has not accepted it yet."""
        if self._generation is None:
            return False
        self._generation.cancel()
        return True

    def fail(self) -> None:
        """End the answer because of the unexpected exception that is being handled."""
        _log.exception("an answer failed unexpectedly")
        self.cancel()
        if not self.run.is_over:
            ending = Finished(StopInfo(StopKind.ERROR), Usage(), Timing(), error=UNEXPECTED)
            self.run.apply(ending)

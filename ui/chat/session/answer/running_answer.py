"""One answer under way: asks the engine for it, and collects what the engine sends.

Main thread, in an asyncio task. Knows no conversation and shows nothing; the session takes what has
arrived at its own pace.
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


class RunningAnswer:
    """The answer to one request.

    Args:
        engine: Generates it.
        run: What is known of it; refusals and failures are noted here.
        asking: What is asked, and the model that is asked.
        traces: Records it.

    Attributes:
        run: The same run.
        arrived: What has arrived and has not been taken yet.
    """

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
        """Ask the engine once ``ready`` is done, and collect the answer until it ends."""
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
            pass  # ends as an answer that was stopped
        except EngineError as error:
            run.refusal = failure_words(error)
            run.state = RunState.REFUSED
        except asyncio.CancelledError:
            self.cancel()
            raise
        except Exception:
            self.fail()

    def note_pace(self) -> bool:
        """Tell the run how fast it is written; returns whether there is news to show."""
        if self._generation is None:
            return False
        return self.run.pace.note(self._generation.written_tokens, time.monotonic())

    def cancel(self) -> bool:
        """End the answer within one step; False if the engine has not taken it yet."""
        if self._generation is None:
            return False
        self._generation.cancel()
        return True

    def fail(self) -> None:
        """End the answer because of the exception at hand, which nobody expected."""
        _log.exception("an answer failed unexpectedly")
        self.cancel()
        if not self.run.is_over:
            ending = Finished(StopInfo(StopKind.ERROR), Usage(), Timing(), error=UNEXPECTED)
            self.run.apply(ending)

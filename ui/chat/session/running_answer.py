"""A running answer: requests it, collects its events, reports and saves it as it grows.

Main thread.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from PySide6.QtCore import QObject, QTimer

from engine import (
    UNEXPECTED,
    EngineError,
    Event,
    Finished,
    Generation,
    GenerationRequest,
    ModelInfo,
    RequestCancelled,
    StopInfo,
    StopKind,
    TextDelta,
    ThinkingDelta,
    Timing,
    TokenTrace,
    Tool,
    Usage,
    merge_deltas,
)
from engine.recording.run_trace import RunTrace
from ui.chat.session.traces import HeldText, Traces
from ui.kit.tasks import Tasks
from ui.records.conversations import Conversation, ConversationSettings
from ui.records.messages import ConversationMessage
from ui.records.requests import Adapt, fitted
from ui.records.runs import Run, RunState
from ui.words import failure_words

# Loads the model of a conversation when a message needs it. Main thread.


class ModelsOnDemand(Protocol):
    """The part of the window's models that a chat needs."""

    def info_of(self, folder: Path | None) -> ModelInfo | None:
        """Return the model of a folder, if it is loaded; without a folder, the default one."""

    def ready(
        self, wanted: Callable[[], Path | None]
    ) -> AbstractAsyncContextManager[ModelInfo | None]:
        """Load the model of a folder if necessary, and keep it loaded inside the ``with`` block."""


class ModelOfConversation:
    """The model that answers a conversation at this moment."""

    def __init__(self, conversation: Conversation, models: ModelsOnDemand) -> None:
        self._conversation = conversation
        self._models = models

    @property
    def info(self) -> ModelInfo | None:
        """The model; None while it is not loaded."""
        return self._models.info_of(self._folder())

    @asynccontextmanager
    async def held(self) -> AsyncIterator[ModelInfo | None]:
        """Load the model if necessary, and keep it loaded inside the ``with`` block."""
        async with self._models.ready(self._folder) as model:
            yield model

    def _folder(self) -> Path | None:
        choice = self._conversation.model
        return None if choice is None else choice.folder


class RequestForModel:
    """A request that is completed once its model is loaded."""

    def __init__(
        self,
        request: GenerationRequest,
        settings: ConversationSettings,
        without: str | int | None,
        hold: Callable[[], AbstractAsyncContextManager[ModelInfo | None]],
        offered: Callable[[], Awaitable[tuple[Tool, ...]]] | None,
        fit: Callable[[GenerationRequest, ModelInfo, Adapt], Awaitable[GenerationRequest]],
    ) -> None:
        self._request = request
        self._settings = settings
        self._without = without
        self._hold = hold
        self._offered = offered
        self._fit = fit

    @asynccontextmanager
    async def held(self) -> AsyncIterator[tuple[GenerationRequest, ModelInfo | None]]:
        """Keep the model loaded; yield the request adapted to the model, and the model."""
        tools = () if self._offered is None else await self._offered()
        request = replace(self._request, tools=tools) if tools else self._request
        async with self._hold() as model:

            def adapt(request: GenerationRequest) -> GenerationRequest:
                return fitted(request, self._settings, model, self._without)

            if model is not None:
                request = await self._fit(request, model, adapt)
            yield adapt(request), model


# The events of an answer that were not taken yet, and the text that the stop matcher holds back.
#
# Main thread. An asyncio task adds the engine's batches; the session takes them at its own pace.

# Text is often held back for a token or two; only longer times are shown.
HOLD_SHOWN_S = 0.4


class ArrivedEvents:
    """Collects the events of a running answer."""

    def __init__(self) -> None:
        self.trace: RunTrace | None = None
        self._events: deque[Event] = deque()
        self._held = HeldText()

    def add(self, events: Iterable[Event]) -> None:
        """Add events of the engine."""
        self._events.extend(events)

    def clear(self) -> None:
        """Drop the events that were not taken."""
        self._events.clear()

    def take_events(self) -> list[Event]:
        """Return the new events without token traces; neighbours of the same kind are joined."""
        arrived = list(self._events)
        self._events.clear()
        if self.trace is None:
            return merge_deltas(arrived)
        now = time.monotonic()
        for event in arrived:
            self.trace.take(event)
            if isinstance(event, TokenTrace):
                self._held.take(event, now)
        # Token traces between pieces of text would prevent joining these.
        return merge_deltas([event for event in arrived if not isinstance(event, TokenTrace)])

    def note_hold(self, run: Run) -> bool:
        """Note in the run what is held back for long; return whether there is a change to show."""
        if self.trace is None:
            return False
        held, since_s = self._held.text, self._held.since_s
        age_s = time.monotonic() - since_s if held and since_s is not None else 0.0
        # Once held text is shown, it stays shown while any text is held: it must not flicker.
        is_shown = bool(held) and (age_s >= HOLD_SHOWN_S or bool(run.held))
        shown, age_s = (held, age_s) if is_shown else ("", 0.0)
        # The time is shown in tenths of a second: smaller changes need no repaint.
        if shown == run.held and round(age_s, 1) == round(run.held_s, 1):
            return False
        run.held, run.held_s = shown, age_s
        return True


# A running answer: requests it from the engine, and collects the engine's events.
#
# Main thread, in an asyncio task.

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


# Saves the running answer of a conversation as it grows. Main thread.

# A running answer is saved at this interval. Including the time that a save takes, at most half a
# second of it is missing after a crash.
KEEP_MS = 400


class AnswerStore(Protocol):
    """The part of the store that saves answers."""

    def save(self, conversation: Conversation) -> None:
        """Save a conversation without its messages."""

    def save_messages(
        self, conversation: Conversation, messages: Sequence[ConversationMessage]
    ) -> None:
        """Save messages in their present state."""

    async def settled(self) -> None:
        """Wait until all earlier changes are saved."""


class AnswerKeeping(QObject):
    """Saves one answer at a time, a few times a second."""

    def __init__(self, store: AnswerStore, conversation: Conversation, parent: QObject) -> None:
        super().__init__(parent)
        self._store = store
        self._conversation = conversation
        self._message: ConversationMessage | None = None
        self._has_grown = False
        self._keeps = QTimer(self)
        self._keeps.setInterval(KEEP_MS)
        self._keeps.timeout.connect(self._keep)

    def begin(self, message: ConversationMessage) -> None:
        """Save the answer of a message from now on."""
        self._message = message
        self._keeps.start()

    def note_growth(self) -> None:
        """Note that the answer has more text than was saved."""
        self._has_grown = True

    def end(self) -> None:
        """Stop saving; the caller saves the message of the answer once more."""
        self._keeps.stop()
        self._message = None

    def _keep(self) -> None:
        if self._has_grown and self._message is not None:
            self._has_grown = False
            self._store.save_messages(self._conversation, [self._message])


# Takes the new events of the running answer at 30 Hz, and reports its end once.
#
# Main thread. An asyncio task (``ui.chat.session.running_answer``) collects the engine's batches
# of events; a timer takes them. So a token costs only an append, and only a tick costs a signal
# and a repaint.


TICK_MS = 33


@dataclass(frozen=True, slots=True)
class AnswerListeners:
    """The functions that are called when something happens to an answer."""

    text: Callable[[Run, str], None]
    thinking: Callable[[Run, str], None]
    changed: Callable[[Run], None]
    ended: Callable[[ConversationMessage], None]


class AnswerPacing(QObject):
    """Runs one answer at a time; reports its end once, also after a cancel."""

    def __init__(
        self, tasks: Tasks, keeping: AnswerKeeping, listeners: AnswerListeners, parent: QObject
    ) -> None:
        super().__init__(parent)
        self._tasks = tasks
        self._keeping = keeping
        self._listeners = listeners
        self._answer: RunningAnswer | None = None
        self._message: ConversationMessage | None = None
        self._task: asyncio.Task[None] | None = None
        self._told: tuple[object, ...] = ()
        self._ticks = QTimer(self)
        self._ticks.setInterval(TICK_MS)
        self._ticks.timeout.connect(self._tick)

    @property
    def run(self) -> Run | None:
        """The running answer, if there is one."""
        return None if self._answer is None else self._answer.run

    def begin(
        self,
        answer: RunningAnswer,
        message: ConversationMessage,
        stored: Callable[[], Awaitable[None]],
    ) -> None:
        """Collect an answer."""
        self._answer, self._message = answer, message
        self._told = _stage(answer.run)
        self._ticks.start()
        self._keeping.begin(message)
        self._task = self._tasks.start(self._collect(answer, stored), f"answer {answer.run.id}")
        # A task that is cancelled before its first step never runs its own ending.
        self._task.add_done_callback(lambda _: self._end(answer))

    def cancel(self, *, is_closing: bool = False) -> None:
        """End the answer within one step of the model; its text is kept.

        An answer that the engine has not accepted yet, because its model is still loading, ends at
        once.
        """
        answer = self._answer
        if answer is None or answer.run.is_cancelling:
            return
        answer.run.is_cancelling, answer.run.is_closing = True, is_closing
        if not answer.cancel() and self._task is not None:
            self._task.cancel()
        self._listeners.changed(answer.run)

    async def _collect(self, answer: RunningAnswer, stored: Callable[[], Awaitable[None]]) -> None:
        try:
            await answer.collect(stored())
        finally:
            try:
                self._take(answer)
            except Exception:
                answer.fail()
            self._end(answer)

    def _tick(self) -> None:
        answer = self._answer
        if answer is None:
            return
        try:
            self._take(answer)
        except Exception:
            answer.fail()
            if self._task is not None:
                self._task.cancel()
        if self._answer is not answer:
            return
        has_pace, has_hold = answer.note_pace(), answer.arrived.note_hold(answer.run)
        if has_pace or has_hold:
            self._listeners.changed(answer.run)

    def _take(self, answer: RunningAnswer) -> None:
        """Apply the events since the last tick, with one call for each kind of text."""
        run = answer.run
        if run.is_over:
            answer.arrived.clear()  # events after a failure are not shown
            return
        if events := answer.arrived.take_events():
            self._keeping.note_growth()
        for event in events:
            run.apply(event)
            match event:
                case ThinkingDelta():
                    self._listeners.thinking(run, event.text)
                case TextDelta():
                    self._listeners.text(run, event.text)
                case _:
                    pass
        # The end of a load changes it without an event.
        if (stage := _stage(run)) != self._told:
            self._told = stage
            self._listeners.changed(run)

    def _end(self, answer: RunningAnswer) -> None:
        message = self._message
        if self._answer is not answer or message is None:
            return  # the end was reported already
        run = answer.run
        if not run.is_over:
            # Stopped before the engine accepted it, or the loop is closing: its text is kept.
            run.apply(Finished(StopInfo(StopKind.CANCELLED), Usage(), Timing()))
        self._ticks.stop()
        self._keeping.end()
        self._answer = self._message = self._task = None
        run.held, run.held_s = "", 0.0
        if run.finished is not None and run.finished.error:
            _log.error("an answer failed: %s", run.finished.error)
        self._listeners.ended(message)


def _stage(run: Run) -> tuple[object, ...]:
    """Return the facts about a run whose change must be reported at once."""
    calls = len(run.tool_calls), len(run.growing_calls)
    return run.state, run.is_loading, run.prompt_processed, calls

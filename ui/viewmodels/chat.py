"""One conversation being held: sends messages, receives answers, paces them for the eye.

Main thread. An asyncio task reads the engine's event batches into a deque; a timer drains it
at 30 Hz, so that a token costs an append and only a tick costs a signal and a repaint.
"""

import asyncio
from collections import deque
from typing import Protocol

from PySide6.QtCore import QObject, QTimer, Signal

from engine.chat import Message
from engine.errors import EngineError
from engine.events import Event, Finished, TextDelta, ThinkingDelta, Timing, Usage
from engine.generation import Generation, merged
from engine.models import ModelInfo
from engine.request import GenerationRequest, Sampling
from engine.stopping.record import StopInfo, StopKind
from engine.stopping.rules import StopRules
from ui.viewmodels.conversations import ChatMessage, Conversation
from ui.viewmodels.runs import Run, RunState
from ui.viewmodels.tasks import Tasks

TICK_MS = 33


class AnsweringEngine(Protocol):
    """The part of the engine that a chat needs."""

    @property
    def model(self) -> ModelInfo | None:
        """The loaded model."""

    async def generate(self, request: GenerationRequest) -> Generation:
        """Accept a request and return its running answer."""


class ChatSession(QObject):
    """Sends what a person writes and keeps the answer's run up to date.

    Signals:
        message_appended: A message was added; carries the ``ChatMessage``.
        text_appended: The running answer grew; carries the ``Run`` and the new text.
        thinking_appended: Its reasoning grew; carries the ``Run`` and the new text.
        run_changed: A run went to another stage or read more of its prompt; carries the ``Run``.
        run_finished: A run is over; carries the ``Run``.
        is_running_changed: An answer began or ended; carries whether one is running.
    """

    message_appended = Signal(object)
    text_appended = Signal(object, str)
    thinking_appended = Signal(object, str)
    run_changed = Signal(object)
    run_finished = Signal(object)
    is_running_changed = Signal(bool)

    def __init__(
        self, engine: AnsweringEngine, conversation: Conversation, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self.conversation = conversation
        self._engine = engine
        self._tasks = Tasks()
        self._run: Run | None = None
        self._generation: Generation | None = None
        self._arrived: deque[Event] = deque()
        self._ticks = QTimer(self)
        self._ticks.setInterval(TICK_MS)
        self._ticks.timeout.connect(self._take)

    @property
    def is_running(self) -> bool:
        """Whether an answer is on its way."""
        return self._run is not None

    @property
    def run(self) -> Run | None:
        """The running answer, if there is one."""
        return self._run

    def send(self, text: str) -> Run | None:
        """Ask a question; returns the run of its answer, None if one is still running."""
        if self._run is not None or not text.strip():
            return None
        conversation = self.conversation
        model = self._engine.model
        run = Run(
            stops=conversation.enabled_stops(),
            max_tokens=conversation.settings.max_tokens,
            model_id=model.id if model else "",
        )
        question = ChatMessage("user", text)
        conversation.messages.append(question)
        request = request_for(conversation, model)
        answer = ChatMessage("assistant", run=run)
        conversation.messages.append(answer)
        self._run = run
        self.message_appended.emit(question)
        self.message_appended.emit(answer)
        self.is_running_changed.emit(True)
        self._ticks.start()
        self._tasks.start(self._answer(run, request), f"answer {run.id}")
        return run

    def cancel(self) -> None:
        """End the running answer within one step of the model; its text is kept."""
        if self._run is None or self._run.is_cancelling:
            return
        self._run.is_cancelling = True
        if self._generation is not None:
            self._generation.cancel()
        self.run_changed.emit(self._run)

    async def finish(self) -> None:
        """Cancel what runs and wait for its end."""
        self.cancel()
        await self._tasks.finish()

    async def _answer(self, run: Run, request: GenerationRequest) -> None:
        try:
            self._generation = await self._engine.generate(request)
            run.prompt_total = self._generation.prompt_tokens
            if run.is_cancelling:
                self._generation.cancel()
            async for batch in self._generation.batches():
                self._arrived.extend(batch)
        except EngineError as error:
            run.refusal = str(error)
            run.state = RunState.REFUSED
        except asyncio.CancelledError:
            if self._generation is not None:
                self._generation.cancel()
            raise
        finally:
            self._take()
            self._end(run)

    def _take(self) -> None:
        """Apply what has arrived since the last tick: one signal per kind of text."""
        run = self._run
        if run is None or not self._arrived:
            return
        events = merged(list(self._arrived))
        self._arrived.clear()
        state_before, progress_before = run.state, run.prompt_processed
        for event in events:
            run.apply(event)
            match event:
                case ThinkingDelta():
                    self.thinking_appended.emit(run, event.text)
                case TextDelta():
                    self.text_appended.emit(run, event.text)
                case _:
                    pass
        if (run.state, run.prompt_processed) != (state_before, progress_before):
            self.run_changed.emit(run)

    def _end(self, run: Run) -> None:
        if not run.is_over:
            # The reading task itself was cut off (the loop is closing): say so and keep the text.
            run.apply(Finished(StopInfo(StopKind.CANCELLED), Usage(), Timing()))
        self._ticks.stop()
        self._generation = None
        self._run = None
        for message in self.conversation.messages:
            if message.run is run:
                message.text = run.text
        self.run_finished.emit(run)
        self.is_running_changed.emit(False)


def request_for(conversation: Conversation, model: ModelInfo | None) -> GenerationRequest:
    """Return the request that answers the last message of a conversation."""
    settings = conversation.settings
    messages: list[Message] = []
    if settings.system_prompt.strip():
        messages.append(Message("system", settings.system_prompt))
    for message in _answered(conversation.messages):
        messages.append(Message(message.role, message.text))
    return GenerationRequest(
        messages=tuple(messages),
        sampling=Sampling(temperature=settings.temperature),
        stops=StopRules(strings=conversation.enabled_stops()),
        max_tokens=settings.max_tokens,
        thinking=settings.is_thinking if model is not None and model.can_think else None,
    )


def _answered(messages: list[ChatMessage]) -> list[ChatMessage]:
    """Leave out questions that were refused or failed without a word, and their answers."""
    kept: list[ChatMessage] = []
    for message in messages:
        run = message.run
        if run is not None and not message.text and _went_wrong(run):
            if kept and kept[-1].role == "user":
                kept.pop()
            continue
        kept.append(message)
    return kept


def _went_wrong(run: Run) -> bool:
    is_error = run.finished is not None and run.finished.stop.kind is StopKind.ERROR
    return run.state is RunState.REFUSED or is_error

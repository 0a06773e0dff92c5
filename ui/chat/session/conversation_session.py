"""Sends the messages of one conversation, receives its answers, and paces them for display.

Main thread. An asyncio task reads the engine's event batches into a deque; a timer drains it
at 30 Hz, so that a token costs an append and only a tick costs a signal and a repaint.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import Protocol

from PySide6.QtCore import QObject, QTimer, Signal

from engine import (
    UNEXPECTED,
    EngineError,
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
    Usage,
)
from ui.chat.session.arrived_events import ArrivedEvents
from ui.chat.session.traces import Traces
from ui.kit.background.tasks import Tasks
from ui.records.asking import new_run, request_for
from ui.records.attachments import Attachment
from ui.records.conversations import Conversation
from ui.records.messages import ConversationMessage, question
from ui.records.runs import Run, RunState
from ui.records.storing import ConversationStore
from ui.words.failures import failure_words

_log = logging.getLogger(__name__)

TICK_MS = 33
# A running answer is stored this often. With the time that a save takes, at most half a second of
# it is missing after a crash.
KEEP_MS = 400


class AnsweringEngine(Protocol):
    """The part of the engine that a chat needs."""

    @property
    def model(self) -> ModelInfo | None:
        """The loaded model."""

    async def generate(self, request: GenerationRequest) -> Generation:
        """Accept a request and return its running answer."""


class ConversationSession(QObject):
    """Sends what a person writes and keeps the answer's run up to date, here and in the store.

    Signals:
        message_appended: A message was added at the end; carries the ``ConversationMessage``.
        path_changed: Other versions are shown; carries the index of the first such message.
        text_appended: The running answer grew; carries the ``Run`` and the new text.
        thinking_appended: Its reasoning grew; carries the ``Run`` and the new text.
        run_changed: A run went to another stage or read more of its prompt; carries the ``Run``.
        run_finished: A run ended; carries the ``Run``.
        is_running_changed: An answer began or ended; carries whether one is running.
    """

    message_appended = Signal(object)
    path_changed = Signal(int)
    text_appended = Signal(object, str)
    thinking_appended = Signal(object, str)
    run_changed = Signal(object)
    run_finished = Signal(object)
    is_running_changed = Signal(bool)

    def __init__(
        self,
        engine: AnsweringEngine,
        conversation: Conversation,
        store: ConversationStore,
        traces: Traces,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self.conversation = conversation
        self._traces = traces
        self._store = store
        self._answer_message: ConversationMessage | None = None
        self._is_unsaved = False
        self._engine = engine
        self._tasks = Tasks()
        self._run: Run | None = None
        self._generation: Generation | None = None
        self._asking: asyncio.Task[None] | None = None
        self._arrived = ArrivedEvents()
        self._ticks = QTimer(self)
        self._ticks.setInterval(TICK_MS)
        self._ticks.timeout.connect(self._tick)
        self._keeps = QTimer(self)
        self._keeps.setInterval(KEEP_MS)
        self._keeps.timeout.connect(self._keep)

    @property
    def is_running(self) -> bool:
        """Whether an answer is on its way."""
        return self._run is not None

    @property
    def run(self) -> Run | None:
        """The running answer, if there is one."""
        return self._run

    def send(self, text: str, files: Sequence[Attachment] = ()) -> Run | None:
        """Ask a question; returns the run of its answer, None if one is still running."""
        asked = question(text, files)
        if self._run is not None or not asked.text.strip():
            return None
        self.conversation.add(asked)
        self.message_appended.emit(asked)
        return self._begin(asked, [asked])

    def edit(
        self, replaced: ConversationMessage, text: str, files: Sequence[Attachment] = ()
    ) -> Run | None:
        """Ask another question in a question's place; the old one stays as a version."""
        edited = question(text, files)
        if self._run is not None or not edited.text.strip() or replaced.role != "user":
            return None
        self.conversation.tree.add(edited, replaced.parent)
        self.path_changed.emit(len(self.conversation.messages) - 1)
        return self._begin(edited, [edited])

    def regenerate(self, answer: ConversationMessage) -> Run | None:
        """Answer a question again; the old answer stays as a version."""
        if self._run is not None or answer.parent is None or answer.run is None:
            return None
        return self._begin(answer.parent)

    def continue_answer(
        self, answer: ConversationMessage, without: str | int | None = None
    ) -> Run | None:
        """Let the model go on where an answer ends; the short one stays as a version.

        A stop that ended it does not count for the rest, or it would end there again.

        Args:
            answer: What is to be longer.
            without: Another stop of the conversation that does not count this time.
        """
        run = answer.run
        if self._run is not None or answer.parent is None or run is None:
            return None
        if not run.can_be_continued:
            return None
        past = run.stopped_by if without is None else without
        return self._begin(answer.parent, continued=run, without=past, replaced=answer)

    def answer_without_stop(
        self, answer: ConversationMessage, without: str | int | None = None
    ) -> Run | None:
        """Answer a question again without the stop that ended its answer, this time only."""
        if self._run is not None or answer.parent is None or answer.run is None:
            return None
        past = answer.run.stopped_by if without is None else without
        return self._begin(answer.parent, without=past, replaced=answer)

    def show_version(self, message: ConversationMessage) -> None:
        """Show a version of a message, with all that follows it."""
        if self._run is not None:
            return
        before = self.conversation.messages
        self._store.save_messages(self.conversation, self.conversation.tree.show(message))
        after = self.conversation.messages
        pairs = zip(before, after, strict=False)
        same = next((n for n, (old, new) in enumerate(pairs) if old is not new), None)
        if same is not None:
            self.path_changed.emit(same)

    def cancel(self) -> None:
        """End the running answer within one step of the model; its text is kept.

        One that the engine has not taken yet, because a model is being read for it, ends at once.
        """
        if self._run is None or self._run.is_cancelling:
            return
        self._run.is_cancelling = True
        if self._generation is not None:
            self._generation.cancel()
        elif self._asking is not None:
            self._asking.cancel()
        self.run_changed.emit(self._run)

    async def finish(self) -> None:
        """Cancel what runs and wait for its end."""
        self.cancel()
        await self._tasks.finish()

    def _begin(
        self,
        asked: ConversationMessage,
        unsaved: Sequence[ConversationMessage] = (),
        continued: Run | None = None,
        without: str | int | None = None,
        replaced: ConversationMessage | None = None,
    ) -> Run:
        """Add an answer to a question, store what is new, and start generating it.

        Args:
            asked: What is answered.
            unsaved: Messages that are not stored yet.
            continued: The run whose text the answer goes on from.
            without: A stop of the conversation that does not count this time.
            replaced: The answer whose place this one takes; what follows it stays in sight.
        """
        conversation, model = self.conversation, self._engine.model
        begun = "" if continued is None else continued.text
        request = self._traces.traced(request_for(conversation, model, asked, begun, without))
        run = new_run(request, model, continued, without)
        is_first = not any(m.parent is asked for m in conversation.tree)
        answer = ConversationMessage("assistant", run=run)
        followers = conversation.tree.copied_after(replaced, answer)
        conversation.tree.add(answer, asked)
        for message in followers:
            conversation.tree.add(message, message.parent)
        self._run, self._answer_message = run, answer
        if is_first:
            self.message_appended.emit(answer)
        else:
            self.path_changed.emit(conversation.messages.index(answer))
        self._store.save(conversation)
        self._store.save_messages(conversation, [*unsaved, answer, *followers])
        self.is_running_changed.emit(True)
        self._ticks.start()
        self._keeps.start()
        self._asking = self._tasks.start(self._answer(run, request), f"answer {run.id}")
        # A task that is cancelled before its first step never reaches its own end.
        self._asking.add_done_callback(lambda _: self._end(run))
        return run

    def _keep(self) -> None:
        """Store the running answer if it has grown."""
        if self._is_unsaved and self._answer_message is not None:
            self._is_unsaved = False
            self._store.save_messages(self.conversation, [self._answer_message])

    async def _answer(self, run: Run, request: GenerationRequest) -> None:
        try:
            # What was asked is on disk before the model is.
            await self._store.settled()
            generation = await self._engine.generate(request)
            run.prompt_total = generation.prompt_tokens
            self._arrived.trace = self._traces.begin(run.id, generation)
            self._generation = generation
            async for batch in generation.batches():
                self._arrived.add(batch)
        except RequestCancelled:
            pass  # ends as an answer that was stopped
        except EngineError as error:
            run.refusal = failure_words(error)
            run.state = RunState.REFUSED
        except asyncio.CancelledError:
            if self._generation is not None:
                self._generation.cancel()
            raise
        except Exception:
            self._fail(run)
        finally:
            try:
                self._take()
            except Exception:
                self._fail(run)
            self._end(run)

    def _fail(self, run: Run) -> None:
        """End an answer because of an exception that nobody expected."""
        _log.exception("an answer failed unexpectedly")
        if self._generation is not None:
            self._generation.cancel()
        if not run.is_over:
            run.apply(Finished(StopInfo(StopKind.ERROR), Usage(), Timing(), error=UNEXPECTED))

    def _tick(self) -> None:
        try:
            self._take()
        except Exception:
            if self._run is not None:
                self._fail(self._run)
            if self._asking is not None:
                self._asking.cancel()
        if self._run is not None and self._arrived.note_hold(self._run):
            self.run_changed.emit(self._run)

    def _take(self) -> None:
        """Apply what has arrived since the last tick: one signal per kind of text."""
        run = self._run
        if run is None:
            return
        if run.is_over:
            self._arrived.clear()  # what comes after a failure is not shown
            return
        events = self._arrived.take_events()
        if not events:
            return
        self._is_unsaved = True
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
        if self._run is not run:
            return  # has been told
        if not run.is_over:
            # Stopped before the engine took it, or the loop is closing: its text is kept.
            run.apply(Finished(StopInfo(StopKind.CANCELLED), Usage(), Timing()))
        self._ticks.stop()
        self._keeps.stop()
        answer = self._answer_message
        self._generation = self._run = self._answer_message = None
        self._asking = None
        run.held, run.held_s, self._arrived = "", 0.0, ArrivedEvents()
        if run.finished is not None and run.finished.error:
            _log.error("an answer failed: %s", run.finished.error)
        if answer is not None:
            answer.text = run.text
            self._store.save_messages(self.conversation, [answer])
        self.run_finished.emit(run)
        self.is_running_changed.emit(False)

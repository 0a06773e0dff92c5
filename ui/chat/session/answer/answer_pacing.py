"""Takes the new events of the running answer at 30 Hz, and reports its end once.

Main thread. An asyncio task (``ui.chat.session.answer.running_answer``) collects the engine's
batches of events; a timer takes them. So a token costs only an append, and only a tick costs a
signal and a repaint.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from PySide6.QtCore import QObject, QTimer

from engine import Finished, StopInfo, StopKind, TextDelta, ThinkingDelta, Timing, Usage
from ui.chat.session.answer.answer_keeping import AnswerKeeping
from ui.chat.session.answer.running_answer import RunningAnswer
from ui.kit.background.tasks import Tasks
from ui.records.messages import ConversationMessage
from ui.records.runs import Run

_log = logging.getLogger(__name__)

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

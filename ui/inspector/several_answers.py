"""Several answers to the question of one run: they run together, beside the chat. Main thread."""

import asyncio
from collections import deque
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Literal

from PySide6.QtCore import QObject, QTimer, Signal

from engine import Engine, Generation
from engine.errors import EngineError, InvalidRequest, NoModel
from engine.recording.ends import SeededAnswer, Side, make_sides
from engine.recording.run_trace import MAX_RUN_TOKENS, trace_for
from engine.values.request import GenerationRequest
from engine.values.verdict import UNEXPECTED
from engine.wording import counted
from ui.chat.session.traces import MAX_TOKENS
from ui.kit.tasks import finish_tasks, start_task
from ui.models.model_library import ModelLibrary
from ui.records.conversations import ChosenModel, Conversation
from ui.words import THIS_COMPUTER, describe_error

# Rows of the engine's batch that stay free, so that a question of the chat does not wait.
_FREE_ROWS = 2


class SeveralAnswers(QObject):
    """One or two sides of answers, and how far they are; nothing of them is stored."""

    changed = Signal()  # at 10 Hz at most

    def __init__(self, engine: Engine, library: ModelLibrary, parent: QObject) -> None:
        super().__init__(parent)
        self._engine, self._library = engine, library
        self.stage: Literal["idle", "running", "done", "stopped", "failed"] = "idle"
        self.sides: list[Side] = []
        self.problem = ""
        self._task: asyncio.Task[None] | None = None
        self._generations: list[Generation] = []
        self._ticks = QTimer(self, interval=100)
        self._ticks.timeout.connect(self.changed)

    @property
    def max_answers(self) -> int:
        return max(2, self._engine.limits.max_rows - _FREE_ROWS)

    @property
    def is_running(self) -> bool:
        return self.stage == "running"

    @property
    def total(self) -> int:
        return sum(len(side.answers) for side in self.sides)

    @property
    def ended(self) -> int:
        return sum(len(side.whole) for side in self.sides)

    @property
    def progress(self) -> str:
        """The progress or the outcome, in a sentence."""
        ended = f"{self.ended:,} of {counted(self.total, 'answer')} ended"
        match self.stage:
            case "idle":
                return ""
            case "failed":
                return self.problem
            case "stopped":
                return f"Stopped: {ended}; the others do not count."
            case "done":
                return f"{ended}."
        if any(answer.output_tokens for side in self.sides for answer in side.answers):
            return f"{ended}…"
        name = self.sides[0].request.model or ""
        status = self._engine.resolve_model(name)
        if self._library.models.stage == "loading" or (status and status.state == "loading"):
            return f"Waiting for {name} to load…"
        if status is not None and status.waiting and status.running:
            return "Waiting for other answers…"
        return "Reading the prompt…"

    def start(self, request: GenerationRequest, other: GenerationRequest, count: int) -> None:
        """Answer a request with the seeds 1 to ``count``, and another one if it differs."""
        self.stop()
        self.sides = make_sides(request, other, range(1, count + 1))
        self.stage, self.problem, self._generations = "running", "", []
        self._ticks.start()
        self._task = start_task(self, self._answer(self.sides), "several answers")
        self.changed.emit()

    def stop(self) -> None:
        """End the running answers within one step; ended ones are kept."""
        if self.is_running and self._task is not None:
            self._task.cancel()
            self._end(self.sides, "stopped")

    def clear(self) -> None:
        self.stop()
        self.sides, self.stage = [], "idle"
        self.changed.emit()

    async def finish(self) -> None:
        self.stop()
        await finish_tasks(self)

    def _end(
        self, sides: list[Side], stage: Literal["done", "stopped", "failed"], problem: str = ""
    ) -> None:
        if sides is not self.sides or not self.is_running:
            return
        for generation in self._generations:
            generation.cancel()
        self._ticks.stop()
        self.stage, self.problem, self._task = stage, problem, None
        self.changed.emit()

    async def _answer(self, sides: list[Side]) -> None:
        try:
            # One after the other: the second finds the prompt read, and the batch stays half free.
            for side in sides:
                async with self._model_of(side.request):
                    self._generations = await self._engine.generate_together(side.requests())
                await asyncio.gather(*map(self._collect, side.answers, self._generations))
        except InvalidRequest as error:
            self._end(sides, "failed", describe_error(error).replace("Reduce it", "Reduce Answers"))
        except EngineError as error:
            self._end(sides, "failed", describe_error(error))
        except Exception:
            self._end(sides, "failed", UNEXPECTED)
            raise
        else:
            self._end(sides, "done")

    def _model_of(self, request: GenerationRequest) -> AbstractAsyncContextManager[object]:
        """Load the request's model if it is not there; another one must not answer."""
        name = request.model or ""
        status = self._engine.resolve_model(request.model)
        if status is not None and status.is_stuck:
            raise NoModel(f"the model {name} does not respond; restart it in Models")
        if status is not None and status.info is not None and status.has_name(name):
            return nullcontext()
        folder = self._library.folder_named(name)
        if folder is None:
            raise NoModel(f"the model {name} is not on {THIS_COMPUTER}; download it in Models")
        conversation = Conversation()
        conversation.model = ChosenModel.of(folder)
        return self._library.models.ready(conversation)

    async def _collect(self, answer: SeededAnswer, generation: Generation) -> None:
        kept = min(MAX_RUN_TOKENS, MAX_TOKENS // self.total)
        answer.trace = trace_for(generation, deque(maxlen=kept))
        async for event in generation.events():
            answer.take(event)

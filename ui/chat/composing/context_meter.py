"""How many tokens a message has and how full the context would be, counted while one types.

Main thread; the engine's thread counts, a moment after the last key and never while it answers.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from PySide6.QtCore import QObject, QTimer, Signal

from engine import EngineError, GenerationRequest, ModelInfo
from ui.kit.background.tasks import Tasks
from ui.records.asking import request_for
from ui.records.conversations import Conversation
from ui.records.messages import ConversationMessage

_COUNTED_AFTER_MS = 250


class CountingEngine(Protocol):
    """The part of the engine that counts."""

    async def count_tokens(self, request: GenerationRequest) -> int:
        """Return the number of prompt tokens of a request."""

    async def tokenize(self, text: str, name: str | None = None) -> tuple[tuple[int, str], ...]:
        """Return the (id, text) pairs of plain text."""


@dataclass(frozen=True, slots=True)
class Count:
    """What was counted.

    Attributes:
        message: Tokens of the message alone.
        prompt: Tokens of the whole prompt with it.
        context: Tokens that the model's context holds.
    """

    message: int
    prompt: int
    context: int

    @property
    def share(self) -> float:
        """How full the context would be; 1 or more where no answer fits."""
        return self.prompt / self.context if self.context else 0.0

    @property
    def is_full(self) -> bool:
        """Whether the prompt leaves no room for an answer."""
        return bool(self.context) and self.prompt >= self.context


class ContextMeter(QObject):
    """Counts the latest message that it was asked about.

    Signals:
        counted: Carries the ``Count``, or None where there is nothing to count.
    """

    counted = Signal(object)

    def __init__(self, engine: CountingEngine, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._engine = engine
        self._tasks = Tasks()
        self._is_counting = False
        self._ask: Callable[[], tuple[Conversation, ModelInfo, str] | None] = lambda: None
        self._timer = QTimer(self, singleShot=True, interval=_COUNTED_AFTER_MS)
        self._timer.timeout.connect(self._begin)

    def watch(self, ask: Callable[[], tuple[Conversation, ModelInfo, str] | None]) -> None:
        """Say where the conversation, the model and the text come from; None for not now."""
        self._ask = ask

    def recount(self) -> None:
        """Count soon; asked again before that, once."""
        self._timer.start()

    async def finish(self) -> None:
        """End what is under way."""
        self._timer.stop()
        await self._tasks.finish()

    def _begin(self) -> None:
        if self._is_counting:
            self._timer.start()
            return
        asked = self._ask()
        if asked is None:
            self.counted.emit(None)
            return
        self._is_counting = True
        self._tasks.start(self._count(*asked), "count the tokens of a message")

    async def _count(self, conversation: Conversation, model: ModelInfo, text: str) -> None:
        shown = conversation.messages
        question = ConversationMessage("user", text)
        question.parent = shown[-1] if shown else None
        count: Count | None
        try:
            message = len(await self._engine.tokenize(text, model.id))
            prompt = await self._engine.count_tokens(request_for(conversation, model, question))
            count = Count(message, prompt, model.context_length)
        except EngineError:
            count = None
        finally:
            self._is_counting = False
        if self._ask() == (conversation, model, text):
            self.counted.emit(count)
        else:
            self.recount()  # another text, or another conversation, is to be counted by now

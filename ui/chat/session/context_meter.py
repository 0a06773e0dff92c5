"""Counts the tokens of a message, and how full the context would be, while a person types.

Main thread.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from PySide6.QtCore import QObject, QTimer, Signal

from engine import EngineError, GenerationRequest, ModelInfo, PromptTooLong, Tool
from ui.kit.tasks import finish_tasks, start_task
from ui.records.attachments import Attachment
from ui.records.conversations import Conversation
from ui.records.messages import question
from ui.records.requests import (
    fitted,
    request_for,
    result_cuts,
    results_of,
    sent_messages,
    with_cuts,
)

# The engine's thread counts, a moment after the last key and not while it answers.

_COUNTED_AFTER_MS = 250
# Longer texts are counted in parts, so that other work does not wait long, and to save memory. A
# word that is cut may count as one token more.
_PART_CHARS = 100_000


class CountingEngine(Protocol):
    """The part of the engine that counts."""

    async def count_tokens(self, request: GenerationRequest) -> int:
        """Return the number of prompt tokens of a request."""

    async def tokenize(self, text: str, name: str | None = None) -> tuple[tuple[int, str], ...]:
        """Return the (id, text) pairs of plain text."""


@dataclass(frozen=True, slots=True)
class Count:
    """The result of a count."""

    message: int
    prompt: int
    context: int
    without_files: int | None = None
    files: Mapping[Attachment, int] = field(default_factory=dict)
    is_least: bool = False

    @property
    def share(self) -> float:
        """How full the context would be; 1 or more if there is no room for an answer."""
        return self.prompt / self.context if self.context else 0.0

    @property
    def is_full(self) -> bool:
        """Whether the prompt leaves no room for an answer."""
        return bool(self.context) and self.prompt >= self.context


@dataclass(frozen=True, slots=True)
class Counted:
    """A message to count."""

    conversation: Conversation
    model: ModelInfo
    typed: str
    files: tuple[Attachment, ...] = ()


class ContextMeter(QObject):
    """Counts the present message; a newer text replaces one that waits.

    Signals:
        counted: A count has ended; carries the ``Count``, or None if there is nothing to count.
    """

    counted = Signal(object)

    def __init__(
        self,
        engine: CountingEngine,
        parent: QObject | None = None,
        tools_of: Callable[[Conversation], tuple[Tool, ...]] = lambda _: (),
    ) -> None:
        super().__init__(parent)
        self._engine = engine
        self._tools_of = tools_of
        self._is_counting = False
        self._ask: Callable[[], Counted | None] = lambda: None
        # A file is counted once, however often the typed text changes.
        self._files: dict[tuple[str, Attachment], int] = {}
        self._timer = QTimer(self, singleShot=True, interval=_COUNTED_AFTER_MS)
        self._timer.timeout.connect(self._begin)

    def watch(self, ask: Callable[[], Counted | None]) -> None:
        """Set the function that returns the message to count; it returns None for no message."""
        self._ask = ask

    def recount(self) -> None:
        """Count in a moment; several calls before that lead to one count."""
        self._timer.start()

    @property
    def is_settled(self) -> bool:
        """Whether the present message has been counted, or cannot be counted."""
        return not self._timer.isActive() and not self._is_counting

    def count_now(self) -> None:
        """Count at once, because the person waits for it."""
        self._timer.stop()
        self._begin()

    async def finish(self) -> None:
        """Cancel the background work and wait for its end."""
        self._timer.stop()
        await finish_tasks(self)

    def _begin(self) -> None:
        if self._is_counting:
            self._timer.start()
            return
        asked = self._ask()
        if asked is None:
            self.counted.emit(None)
            return
        self._is_counting = True
        start_task(self, self._count(asked), "count the tokens of a message")

    async def _count(self, asked: Counted) -> None:
        count: Count | None
        try:
            count = await self._counted(asked)
        except (EngineError, _OutOfDate):
            count = None
        finally:
            self._is_counting = False
        if self._ask() == asked:
            self.counted.emit(count)
        else:
            self.recount()  # the text or the conversation has changed meanwhile

    async def _counted(self, asked: Counted) -> Count:
        files = await self._file_tokens(asked)
        without = (await self._prompt_tokens(asked, ()))[0] if asked.files else None
        prompt, is_least = await self._prompt_tokens(asked, asked.files)
        if is_least and without is not None:
            prompt = max(prompt, without + sum(files.values()))
        text = question(asked.typed, asked.files).text
        if len(text) > _PART_CHARS and files:
            message = sum(files.values()) + await self._tokens(asked, asked.typed)
        else:
            message = await self._tokens(asked, text)
        return Count(message, prompt, asked.model.context_length, without, files, is_least)

    async def _prompt_tokens(
        self, asked: Counted, files: tuple[Attachment, ...]
    ) -> tuple[int, bool]:
        """Return the tokens of the whole prompt, and whether that is only a lower bound."""
        shown = asked.conversation.messages
        message = question(asked.typed, files)
        message.parent = shown[-1] if shown else None
        conversation, model = asked.conversation, asked.model
        request = request_for(conversation, None, message)
        if model.can_call_tools:
            request = replace(request, tools=self._tools_of(conversation))

        def adapt(request: GenerationRequest) -> GenerationRequest:
            return fitted(request, conversation.settings, model)

        async def count_tokens(text: str) -> int:
            return len(await self._engine.tokenize(text, model.id))

        results = results_of(sent_messages(conversation, message))
        cuts = await result_cuts(
            request,
            results,
            model.context_length,
            adapt=adapt,
            count_prompt=self._engine.count_tokens,
            count_tokens=count_tokens,
        )
        try:
            counted = adapt(with_cuts(request, results, cuts))
            return await self._engine.count_tokens(counted), False
        except PromptTooLong as too_long:
            # Counting ends as soon as the context is surely full; the sum may be a little less.
            return max(too_long.prompt_tokens, asked.model.context_length), True

    async def _file_tokens(self, asked: Counted) -> dict[Attachment, int]:
        name, known = asked.model.id, self._files
        self._files = {}
        for file in asked.files:
            if (count := known.get((name, file))) is None:
                count = await self._tokens(asked, file.text)
            self._files[name, file] = count
        return {file: self._files[name, file] for file in asked.files}

    async def _tokens(self, asked: Counted, text: str) -> int:
        """Return the number of tokens of a text; a long text is counted in parts."""
        count = 0
        for start in range(0, len(text), _PART_CHARS):
            if start and self._is_out_of_date(asked):
                raise _OutOfDate
            part = text[start : start + _PART_CHARS]
            count += len(await self._engine.tokenize(part, asked.model.id))
        return count

    def _is_out_of_date(self, asked: Counted) -> bool:
        """Return whether the attached files have changed meanwhile, or counting is impossible."""
        now = self._ask()
        return now is None or now.files != asked.files


class _OutOfDate(Exception):
    """The text has changed since the count began."""

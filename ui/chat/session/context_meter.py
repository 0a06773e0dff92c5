"""Counts the tokens of a message, and how full the context would be, while the user types.

Main thread.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from PySide6.QtCore import QObject, QTimer, Signal

from engine import EngineError, ModelInfo, PromptTooLong
from ui.chat.session.conversation_controller import ChatContext
from ui.kit.tasks import finish_tasks, start_task
from ui.records.attachments import Attachment, cut_text
from ui.records.conversations import Conversation, WhenFull
from ui.records.messages import question
from ui.records.prompt_fit import PromptFit, fitted_prompt, last_left_out
from ui.records.requests import request_for, sent_messages
from ui.records.runs import LeftOut

# Longer texts are counted in parts, so that other work does not wait long, and to save memory. A
# word that is cut may count as one token more.
_PART_CHARS = 100_000


@dataclass(frozen=True, slots=True)
class Count:
    """The result of a count."""

    message: int
    prompt: int
    context: int
    without_files: int | None = None
    files: Mapping[Attachment, int] = field(default_factory=dict)
    is_lower_bound: bool = False
    total: int = 0
    is_lower_bound_total: bool = False
    left_out: LeftOut | None = None
    when_full: WhenFull = "leave_out"
    cuts: Mapping[Attachment, int] = field(default_factory=dict)

    @property
    def too_many(self) -> int:
        """By how many tokens the whole conversation is too long; 0 if it is not."""
        return max(0, self.total - self.context + 1) if self.context else 0

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
    """Counts a message; a newer one replaces a waiting one."""

    counted = Signal(object)  # Count, or None for no message

    def __init__(self, context: ChatContext, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._context = context
        self._engine = context.engine
        self._is_counting = self._has_ended = False
        self._target: Counted | None = None
        # A file is counted once, however often the typed text changes.
        self._files: dict[tuple[str, Attachment], int] = {}
        self._timer = QTimer(self, singleShot=True, interval=250)
        self._timer.timeout.connect(self._begin)

    def count(self, target: Counted | None) -> None:
        """Count another message in a moment; None for no message."""
        self._target = target
        self.recount()

    def recount(self) -> None:
        """Count in a moment; several calls before that lead to one count."""
        if not self._has_ended:
            self._timer.start()

    @property
    def is_settled(self) -> bool:
        """Whether the present message has been counted, or cannot be counted."""
        return not self._timer.isActive() and not self._is_counting

    def count_now(self) -> None:
        self._timer.stop()
        self._begin()

    async def finish(self) -> None:
        self._has_ended = True
        self._timer.stop()
        await finish_tasks(self)

    def _begin(self) -> None:
        if self._is_counting:
            self.recount()
            return
        if self._has_ended:
            return
        target = self._target
        if target is None:
            self.counted.emit(None)
            return
        self._is_counting = True
        start_task(self, self._count(target), "count the tokens of a message")

    async def _count(self, target: Counted) -> None:
        count: Count | None
        try:
            count = await self._counted(target)
        except EngineError:
            count = None
        finally:
            self._is_counting = False
        if self._target == target:
            self.counted.emit(count)
        else:
            self.recount()

    async def _counted(self, target: Counted) -> Count:
        files = await self._file_tokens(target)
        without = (await self._fit(target, ())).tokens if target.files else None
        fit = await self._fit(target, target.files)
        prompt, total = fit.tokens or 0, fit.total or 0
        if fit.is_lower_bound and without is not None:
            prompt = max(prompt, without + sum(files.values()))
        text = question(target.typed, target.files).sent
        if len(text) > _PART_CHARS and files:
            message_tokens = sum(files.values()) + await self._tokens(target, target.typed)
        else:
            message_tokens = await self._tokens(target, text)
        return Count(
            message_tokens,
            prompt,
            target.model.context_length,
            without,
            files,
            fit.is_lower_bound,
            max(total, prompt),
            fit.is_total_lower_bound,
            fit.left_out,
            self._context.when_full_of(target.conversation),
            await self._fitting_cuts(target, fit),
        )

    async def _fitting_cuts(self, target: Counted, fit: PromptFit) -> dict[Attachment, int]:
        """Return how much of the files fits, if the message is too long with all of them."""
        if not target.files or (fit.tokens or 0) < target.model.context_length:
            return {}
        cut = (await self._fit(target, target.files, cuts_files=True)).messages[-1]
        return {
            file: sent.sent_chars
            for file, sent in zip(target.files, cut.files, strict=False)
            if sent.sent_chars is not None and sent.sent_chars != file.sent_chars
        }

    async def _fit(
        self, target: Counted, files: tuple[Attachment, ...], *, cuts_files: bool = False
    ) -> PromptFit:
        """Return the prompt that would be sent, always with its tokens."""
        shown = target.conversation.messages
        message = question(target.typed, files)
        message.parent = shown[-1] if shown else None
        context, conversation, model = self._context, target.conversation, target.model
        when_full = context.when_full_of(conversation)
        request = request_for(conversation, None, message)
        if model.can_call_tools and context.toolbox is not None:
            request = replace(request, tools=context.toolbox.offered_to(conversation))
        fit = await fitted_prompt(
            [*shown, message],
            sent_messages(conversation, message),
            context.prompt_maker(request, conversation.settings, model, when_full),
            context.counts(model),
            when_full,
            last_left_out(shown),
            "" if cuts_files else message.id,
        )
        if fit.tokens is not None:
            return fit
        try:
            tokens = await self._engine.count_tokens(fit.request)
        except PromptTooLong as too_long:
            tokens = max(too_long.prompt_tokens, model.context_length)
        return replace(fit, tokens=tokens, total=tokens)

    async def _file_tokens(self, target: Counted) -> dict[Attachment, int]:
        name, known = target.model.id, self._files
        self._files = {}
        for file in target.files:
            if (count := known.get((name, file))) is None:
                count = await self._tokens(target, cut_text(file.text, file.sent_chars))
            self._files[name, file] = count
        return {file: self._files[name, file] for file in target.files}

    async def _tokens(self, target: Counted, text: str) -> int:
        count = 0
        for start in range(0, len(text), _PART_CHARS):
            part = text[start : start + _PART_CHARS]
            count += len(await self._engine.tokenize(part, target.model.id))
        return count

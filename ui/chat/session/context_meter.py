"""Counts the tokens of a message, and how full the context would be, while the user types.

Main thread.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from PySide6.QtCore import QObject, QTimer, Signal

from engine.errors import EngineError
from engine.library.model_info import ModelInfo
from ui.chat.session.conversation_controller import ChatContext
from ui.kit.tasks import finish_tasks, start_task
from ui.records.attachments import Attachment, cut_text, without_kept_files
from ui.records.conversations import Conversation, WhenFull
from ui.records.messages import question
from ui.records.passages import Document, Excerpt
from ui.records.prompt_fit import PromptFit, TokenCounter, last_left_out
from ui.records.requests import request_for


@dataclass(frozen=True, slots=True)
class ContextUsage:
    """How much of the context a message and its conversation would use, in tokens."""

    fit: PromptFit
    message: int
    without_files: int | None = None
    files: Mapping[Attachment, int] = field(default_factory=dict)
    when_full: WhenFull = "leave_out"
    cuts: Mapping[Attachment, int] = field(default_factory=dict)

    @property
    def context(self) -> int:
        return self.fit.context

    @property
    def prompt(self) -> int:
        tokens = self.fit.tokens or 0
        if self.fit.is_lower_bound and self.without_files is not None:
            return max(tokens, self.without_files + sum(self.files.values()))
        return tokens

    @property
    def too_many(self) -> int:
        """By how many tokens the whole conversation is too long; 0 if it is not."""
        total = max(self.fit.total or 0, self.prompt)
        return max(0, total - self.context + 1) if self.context else 0

    @property
    def share(self) -> float:
        """How full the context would be; 1 or more if there is no room for an answer."""
        return self.prompt / self.context if self.context else 0.0

    @property
    def is_full(self) -> bool:
        """Whether the prompt leaves no room for an answer."""
        return bool(self.context) and self.prompt >= self.context


@dataclass(frozen=True, slots=True)
class CountedDraft:
    """A message to count."""

    conversation: Conversation
    model: ModelInfo
    typed: str
    files: tuple[Attachment, ...] = ()


class ContextMeter(QObject):
    """Counts a message; a newer one replaces a waiting one."""

    usage_changed = Signal(object)  # ContextUsage, or None for no message

    def __init__(self, context: ChatContext, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._context = context
        self._planner = context.planner
        self._is_counting = self._has_ended = False
        self._target: CountedDraft | None = None
        # A file is counted once, however often the typed text changes.
        self._files: dict[tuple[str, Attachment], int] = {}
        self._timer = QTimer(self, singleShot=True, interval=250)
        self._timer.timeout.connect(self._begin)

    def count(self, target: CountedDraft | None) -> None:
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
            self.usage_changed.emit(None)
            return
        self._is_counting = True
        start_task(self, self._count(target), "count the tokens of a message")

    async def _count(self, target: CountedDraft) -> None:
        usage: ContextUsage | None
        try:
            usage = await self._usage_of(target)
        except EngineError:
            usage = None
        finally:
            self._is_counting = False
        if self._target == target:
            self.usage_changed.emit(usage)
        else:
            self.recount()

    async def _usage_of(self, target: CountedDraft) -> ContextUsage:
        counter = self._planner.counter(target.model)
        without = (await self._fit(target, ())).tokens if target.files else None
        fit = await self._fit(target, target.files)
        excerpts = fit.excerpts or ()
        files = await self._file_tokens(target, counter, excerpts)
        seen = {file for file in target.files if target.model.can_see and file.kept_file}
        others = [file for file in target.files if file not in seen]
        message = replace(question(target.typed, others), excerpts=excerpts)
        text = without_kept_files(message.sent)
        message_tokens = sum(files[file] for file in seen) + await counter.text(text)
        when_full = self._planner.when_full_of(target.conversation)
        cuts = await self._fitting_cuts(target, fit)
        return ContextUsage(fit, message_tokens, without, files, when_full, cuts)

    async def _fitting_cuts(self, target: CountedDraft, fit: PromptFit) -> dict[Attachment, int]:
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
        self, target: CountedDraft, files: tuple[Attachment, ...], *, cuts_files: bool = False
    ) -> PromptFit:
        """Return the prompt that would be sent, always with its tokens."""
        shown = target.conversation.messages
        message = question(target.typed, files)
        message.parent = shown[-1] if shown else None
        planner, conversation, model = self._planner, target.conversation, target.model
        facts = self._context.facts_for(conversation)
        request = request_for(conversation, None, message, facts=facts)
        toolbox = self._context.toolbox
        if model.can_call_tools and toolbox is not None:
            request = replace(request, tools=toolbox.offered_to(conversation))
        fit, _ = await planner.fit(
            conversation,
            message,
            request,
            conversation.settings,
            model,
            last_left_out(shown),
            facts=facts,
            uncut="" if cuts_files else message.id,
            is_draft=True,
        )
        if fit.tokens is not None:
            return fit
        tokens = await planner.counter(model).prompt(fit.request)
        return replace(fit, tokens=tokens, total=tokens)

    async def _file_tokens(
        self, target: CountedDraft, counter: TokenCounter, excerpts: Sequence[Excerpt]
    ) -> dict[Attachment, int]:
        name, known = target.model.id, self._files
        read = {excerpt.document: excerpt.as_file().text for excerpt in excerpts}
        new = [file for file in target.files if (name, file) not in known]
        pictures = await self._planner.pictures([question("", new)], target.model) if new else {}
        self._files = {}
        by_passages: dict[Attachment, int] = {}
        for file in target.files:
            if read and not file.kept_file and (text := read.get(Document.of(file).id)) is not None:
                by_passages[file] = await counter.text(text)
                continue
            if (count := known.get((name, file))) is None:
                if (picture := pictures.get(file.kept_file)) is not None:
                    count = await counter.picture(picture)
                else:
                    sent = without_kept_files(cut_text(file.text, file.sent_chars))
                    count = await counter.text(sent)
            self._files[name, file] = count
        whole = {file: count for (_, file), count in self._files.items()}
        return {file: by_passages.get(file, whole.get(file, 0)) for file in target.files}

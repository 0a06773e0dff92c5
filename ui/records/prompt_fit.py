"""Fits the prompt of a conversation into a context, however long the conversation is.

Of documents that do not fit, the last question gets the passages that it is about. The oldest
exchanges are left out whole: a question with its answers, their calls and the results. The system
prompt, exchanges with a pinned message and the last exchange always go; long results in these are
cut, and files that are not read by passages. Nothing is lost: messages and texts stay as they are,
and the run records the messages left out.

Pure, apart from the counts that it asks for; main thread.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from engine import Engine
from engine.errors import PromptTooLong
from engine.library.model_info import ModelInfo
from engine.values.request import PICTURE_MARK, GenerationRequest, Message, Picture
from ui.records.conversations import WhenFull
from ui.records.messages import ConversationMessage
from ui.records.passages import Document, Excerpt, FindPassages, fitting_excerpts
from ui.records.runs import LeftOut

# A prompt that takes more than this share of the context leaves too little room for an answer.
_FULL = 0.9
# A prompt from which exchanges are left out may then take this share. Leaving out more than
# necessary keeps the beginning of the prompt the same for several questions, so that the cached
# prompt is used and not all is read again with each of them.
_SHARE = 0.7
# Passages, files and results that are cut may take this share together with the rest of the prompt
# or, where there is much besides them, half of the context that the rest leaves.
_CUT_SHARE = 0.65
# A text is counted in parts, so that other work of the engine does not wait long, and to save
# memory. A word that is cut may count as one token more.
_PART_CHARS = 100_000
# No tokenizer has many tokens longer than this; a longer text has more tokens than are asked for.
_MAX_TOKEN_CHARS = 16


Messages = Sequence[ConversationMessage]
# Makes the request of messages. Before the message of the given id others are left out; empty if
# all are sent.
MakeRequest = Callable[[Messages, str], GenerationRequest]
# How many characters of a text are sent, by its message's id and its number in the message.
Cuts = Mapping[tuple[str, int], int]


@dataclass(frozen=True, slots=True)
class TokenCounter:
    """Counts the tokens of prompts and texts for a model."""

    engine: Engine
    model: ModelInfo

    @property
    def context(self) -> int:
        return self.model.context_length

    async def prompt(self, request: GenerationRequest) -> int:
        """Return the tokens of a request; a lower bound from the context's length on."""
        try:
            return await self.engine.count_tokens(request)
        except PromptTooLong as too_long:
            return max(too_long.prompt_tokens, self.context)

    async def picture(self, picture: Picture) -> int:
        shown = Message("user", PICTURE_MARK, pictures=(picture,))
        whole, rest = [
            await self.prompt(GenerationRequest((message,), model=self.model.id))
            for message in (shown, Message("user", ""))
        ]
        return whole - rest

    async def text(self, text: str) -> int:
        size = 0
        for start in range(0, len(text), _PART_CHARS):
            part = text[start : start + _PART_CHARS]
            size += len(await self.engine.tokenize(part, self.model.id))
        return size


@dataclass(frozen=True, slots=True)
class PromptFit:
    """The messages of a prompt that fits, unless its last exchange is too long by itself.

    Counts that fill the context are lower bounds: nothing beyond it is counted.
    """

    messages: tuple[ConversationMessage, ...]
    request: GenerationRequest
    context: int
    left_out: LeftOut | None = None
    cuts: Cuts = field(default_factory=dict)
    tokens: int | None = None
    total: int | None = None
    excerpts: tuple[Excerpt, ...] | None = None

    @property
    def is_lower_bound(self) -> bool:
        return self.tokens is not None and self.tokens >= self.context

    @property
    def is_total_lower_bound(self) -> bool:
        return self.total is not None and self.total >= self.context


def exchanges(messages: Messages) -> list[list[ConversationMessage]]:
    """Return messages in groups that are sent together or not at all."""
    groups: list[list[ConversationMessage]] = []
    for message in messages:
        if message.role == "user" or not groups:
            groups.append([])
        groups[-1].append(message)
    return groups


def without_oldest(messages: Messages, count: int) -> list[ConversationMessage]:
    """Return messages without the first exchanges, apart from pinned ones and the last one."""
    groups = exchanges(messages)
    kept = [
        group
        for number, group in enumerate(groups)
        if number >= min(count, len(groups) - 1) or any(message.is_pinned for message in group)
    ]
    return [message for group in kept for message in group]


def last_left_out(path: Messages) -> LeftOut | None:
    """Return what the last answer of a path was without."""
    runs = (message.run for message in reversed(path) if message.run is not None)
    run = next(runs, None)
    return None if run is None else run.left_out


def summary_tokens(context: int) -> int:
    """Return the most tokens of a summary, for a context of this size."""
    return min(512, context // 8)


async def fitted_prompt(
    path: Messages,
    sent: Messages,
    make: MakeRequest,
    counter: TokenCounter,
    when_full: WhenFull = "leave_out",
    before: LeftOut | None = None,
    uncut: str = "",
    find: FindPassages | None = None,
) -> PromptFit:
    """Return the prompt of a question: whole, or without the oldest exchanges.

    Documents are searched by ``find``; without it, they are cut to fit.
    """
    if find is not None and sent:
        sent, excerpts = await _Documents(sent, make, counter, find).read()
        fit = await fitted_prompt(path, sent, make, counter, when_full, before, uncut)
        return replace(fit, excerpts=excerpts)
    request = make(sent, "")
    limit = int(counter.context * _FULL)
    # No text has more tokens than bytes; the template's tokens around a message count as 16.
    texts = (message.content.encode(errors="replace") for message in request.messages)
    has_more = bool(request.tools) or any(
        message.tool_calls or message.thinking or message.pictures for message in request.messages
    )
    if not has_more and sum(len(text) + 16 for text in texts) < limit:
        return PromptFit(tuple(sent), request, counter.context)
    total = await counter.prompt(request)
    if total <= limit:
        return PromptFit(tuple(sent), request, counter.context, tokens=total, total=total)
    return await _Fitting(path, list(sent), make, counter, when_full, total, uncut).fit(before)


@dataclass
class _Documents:
    """Replaces documents by the passages that the last question is about.

    They go with that question alone: earlier questions have notes in their place, so that the
    conversation remains, and a question about other passages finds these.
    """

    sent: Messages
    make: MakeRequest
    counter: TokenCounter
    find: FindPassages

    async def read(self) -> tuple[Messages, tuple[Excerpt, ...] | None]:
        """Return the messages, and the passages of a new question; None if it is answered on."""
        last = max(n for n, message in enumerate(self.sent) if message.role == "user" or not n)
        searched = [*self._documents(("passages",))]
        if last < len(self.sent) - 1:  # go on with the same prompt
            given = {excerpt.document for excerpt in self.sent[last].excerpts}
            searched += [each for each in self._documents(("",)) if each.id in given]
            return self._noted(searched, last, self.sent[last].excerpts), None
        searched += await self._too_long(searched, last)
        texts = [message.typed for message in self.sent if message.role == "user"][-2:]
        found = await self.find(list(dict.fromkeys(searched)), [t for t in texts if t.strip()])
        noted = self._noted(searched, last)
        if not found.documents:
            return noted, ()
        budget = await self._token_budget(noted)
        own = {document.id for document in searched}
        excerpts = tuple(
            excerpt
            for excerpt in await fitting_excerpts(found, budget, self.counter.text)
            if excerpt.passages or excerpt.document in own
        )
        return self._noted(searched, last, excerpts), excerpts

    def _documents(self, readings: Sequence[str]) -> Iterator[Document]:
        for message in self.sent:
            if message.role == "user" and message.attached_chars:
                for file in message.files:
                    if not file.kept_file and file.reading in readings:
                        yield Document.of(file)

    def _noted(
        self, searched: Sequence[Document], last: int, excerpts: Sequence[Excerpt] = ()
    ) -> list[ConversationMessage]:
        """Return the messages with notes in the place of documents, and passages in the last."""
        names = {document.id: document.name for document in searched}

        def changed(message: ConversationMessage, is_last: bool) -> ConversationMessage:
            own = [Document.of(file).id for file in message.files] if names else []
            given = tuple(excerpts) if is_last else ()
            known = {excerpt.document for excerpt in given}
            notes = [Excerpt(i, names[i], 0, ()) for i in own if i in names and i not in known]
            return replace(message, excerpts=(*given, *notes))

        return [
            changed(message, number == last)
            if message.role == "user" and (message.excerpts or message.attached_chars or excerpts)
            else message
            for number, message in enumerate(self.sent)
        ]

    async def _too_long(self, searched: Sequence[Document], last: int) -> list[Document]:
        """Return the documents that do not fit and may be read by passages."""
        others = [*self._documents(("",))]
        limit, counter = int(self.counter.context * _FULL), self.counter
        whole = self.make(self._noted(searched, last), "")
        # No text has more tokens than bytes.
        is_short = sum(len(message.content.encode(errors="replace")) for message in whole.messages)
        if not others or is_short * 2 < limit or await counter.prompt(whole) <= limit:
            return []
        budget = await self._token_budget(self._noted([*searched, *others], last))
        sizes = [await _size(document.text, budget, counter) for document in others]
        share = _fair_share(sizes, budget)
        return [each for each, size in zip(others, sizes, strict=True) if size > share]

    async def _token_budget(self, messages: Messages) -> int:
        """Return the tokens that passages may have beside messages.

        At least half of the rest beside the last exchange; old exchanges are left out for it.
        """
        limit = int(self.counter.context * _CUT_SHARE)
        budget = limit - await self.counter.prompt(self.make(messages, ""))
        if budget * 2 < limit:
            last = without_oldest(messages, len(messages))
            alone = await self.counter.prompt(self.make(last, last[0].id))
            budget = max(budget, (limit - alone) // 2)
        return max(budget, 0)


@dataclass
class _Fitting:
    """Fits a prompt that is too long."""

    path: Messages
    sent: list[ConversationMessage]
    make: MakeRequest
    counter: TokenCounter
    when_full: WhenFull
    total: int
    uncut: str
    cuts: Cuts = field(default_factory=dict)

    async def fit(self, left_out: LeftOut | None) -> PromptFit:
        context, limit = self.counter.context, int(self.counter.context * _FULL)
        last = len(exchanges(self.sent)) - 1
        smallest = await self._size(last)
        if smallest > limit:
            self.cuts = await self._fitting_cuts(without_oldest(self.sent, last), last)
            if self.cuts:
                self.sent = [cut_message(message, self.cuts) for message in self.sent]
                smallest = await self._size(last)
                self.total = await self._size(0)
        if self.when_full == "ask" or (self.cuts and self.total <= limit):
            return self._fit_of(0, self.total)
        if smallest > limit:
            return self._fit_of(last, smallest)
        before = min(self._count_left_out(left_out), last)
        if before and (size := await self._size(before)) <= limit:
            return self._fit_of(before, size)
        reserve = summary_tokens(context) if self.when_full == "summarize" else 0
        target = max(int(context * _SHARE) - reserve, (smallest + limit) // 2)
        # The smallest number of exchanges without which the rest has the target size. The last one
        # always goes, so it is known that some number is enough.
        low, high, size = before, last, smallest
        while high - low > 1:
            middle = (low + high) // 2
            tried = await self._size(middle)
            if tried <= target:
                high, size = middle, tried
            else:
                low = middle
        return self._fit_of(high, size)

    def _count_left_out(self, left_out: LeftOut | None) -> int:
        """Return how many exchanges an answer was without, if it had the same context."""
        if left_out is None or left_out.context != self.counter.context:
            return 0
        ids = {message.id for message in self.path[: left_out.until]}
        return sum(group[0].id in ids for group in exchanges(self.sent))

    def _without(self, count: int) -> tuple[list[ConversationMessage], str]:
        """Return the messages without the first exchanges, and the id of the first one after."""
        messages = without_oldest(self.sent, count)
        is_whole = len(messages) == len(self.sent)
        return messages, "" if is_whole else exchanges(self.sent)[count][0].id

    async def _size(self, count: int) -> int:
        return await self.counter.prompt(self.make(*self._without(count)))

    def _fit_of(self, count: int, tokens: int) -> PromptFit:
        messages, first = self._without(count)
        request, context, left_out = self.make(messages, first), self.counter.context, None
        if first:
            until, boundary = next((n, m) for n, m in enumerate(self.path) if m.id == first)
            is_summarized = self.when_full == "summarize" and bool(boundary.summary)
            removed = len(self.sent) - len(messages)
            left_out = LeftOut(until, removed, context, is_summarized)
        cuts, total = self.cuts, self.total
        return PromptFit(tuple(messages), request, context, left_out, cuts, tokens, total)

    # -- files and results that are too long ---------------------------------------------------

    async def _fitting_cuts(self, messages: Messages, last: int) -> Cuts:
        """Return which files and results have to be cut so that there is room for an answer."""
        texts = {
            (message.id, number): text
            for message in messages
            for number, text in enumerate(texts_of(message))
            if text and message.id != self.uncut
        }
        if not texts:
            return {}
        context, counter = self.counter.context, self.counter
        empty = [cut_message(message, dict.fromkeys(texts, 0)) for message in messages]
        first = self._without(last)[1]
        without = await self.counter.prompt(self.make(empty, first))
        if without >= context:
            return {}  # cutting them does not help
        budget = max(int(context * _CUT_SHARE) - without, (context - without) // 2)
        sizes = {key: await _size(text, budget, counter) for key, text in texts.items()}
        share = _fair_share(list(sizes.values()), budget)
        limit = max(share - 40, 16)  # the note about the cut takes 40
        return {
            key: await fitting_chars(text, limit, counter)
            for key, text in texts.items()
            if sizes[key] > share
        }


def texts_of(message: ConversationMessage) -> list[str]:
    """Return the texts of a message that can be cut, as they are sent: its files, or results."""
    if message.run is None:
        whole = message.whole_files
        return [
            file.text[: file.sent_chars] if file in whole and not file.kept_file else ""
            for file in message.files
        ]
    results = map(message.run.result_of, (call.id for call in message.run.tool_calls))
    return ["" if result is None else result.text[: result.sent_chars] for result in results]


def cut_message(message: ConversationMessage, cuts: Cuts) -> ConversationMessage:
    """Return a message with the cuts that are its own; itself if it has none."""
    own = {number: chars for (key, number), chars in cuts.items() if key == message.id}
    if not own:
        return message
    if message.run is None:
        before = dict(enumerate(message.sent_chars))
        now = (own.get(n, before.get(n)) for n in range(len(message.files)))
        return replace(message, sent_chars=tuple(now))
    run = message.run
    by_call = {call.id: own[n] for n, call in enumerate(run.tool_calls) if n in own}
    results = [
        replace(result, sent_chars=by_call[result.call_id]) if result.call_id in by_call else result
        for result in run.results
    ]
    return replace(message, run=replace(run, results=results))


async def _size(text: str, limit: int, counter: TokenCounter) -> int:
    """Return the tokens of a text; one more than the limit if it surely has more."""
    if len(text) > limit * _MAX_TOKEN_CHARS:
        return limit + 1
    return await counter.text(text)


def _fair_share(sizes: list[int], budget: int) -> int:
    """Return the most tokens that each text may have: short ones leave their share to others."""
    left = budget
    for number, size in enumerate(sorted(sizes)):
        share = left // (len(sizes) - number)
        if size > share:
            return share
        left -= size
    return budget


async def fitting_chars(text: str, limit: int, counter: TokenCounter) -> int:
    """Return how many characters at a text's beginning have at most so many tokens."""
    chars = min(len(text), limit * 4)
    size = await counter.text(text[:chars])
    if size <= limit and chars < len(text):
        chars = min(len(text), int(chars * limit / max(size, 1)), limit * _MAX_TOKEN_CHARS)
        size = await counter.text(text[:chars])
    while size > limit and chars:
        chars = min(chars - 1, int(chars * limit / size))
        size = await counter.text(text[:chars])
    line = text.rfind("\n", 0, chars) + 1
    return line if line > chars * 0.8 else chars

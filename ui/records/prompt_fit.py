"""Fits the prompt of a conversation into a context, however long the conversation is.

What has no room is left out from the beginning, in whole exchanges: a question with its answers,
their calls and the results. The system prompt, exchanges with a pinned message and the last
exchange always go; long files and results in these are cut. Nothing is lost: messages and texts
stay as they are, and the record says what was not sent.

Pure, apart from the counts that it asks for; main thread.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from engine import GenerationRequest, PromptTooLong
from ui.records.conversations import WhenFull
from ui.records.messages import ConversationMessage
from ui.records.runs import LeftOut

# A prompt that takes more than this share of the context leaves too little room for an answer.
_FULL = 0.9
# A prompt from which exchanges are left out may then take this share. Leaving out more than
# necessary keeps the beginning of the prompt the same for several questions, so that the cached
# prompt is used and not all is read again with each of them.
_SHARE = 0.7
# The same for files and results that are cut: what is sent of them may take this share together
# with the rest or, where there is much besides them, half of what that leaves.
_CUT_SHARE = 0.65
# A text is counted in parts, so that other work of the engine does not wait long.
_PART_CHARS = 100_000
# No tokenizer has many tokens longer than this; a longer text has more tokens than are asked for.
_MAX_TOKEN_CHARS = 16


Messages = Sequence[ConversationMessage]
# Makes the request of messages. Before the message of the given id others are left out; empty if
# all are sent.
MakeRequest = Callable[[Messages, str], GenerationRequest]
CountPrompt = Callable[[GenerationRequest], Awaitable[int]]
CountTokens = Callable[[str], Awaitable[int]]
# How many characters of a text are sent, by its message's id and its number in the message.
Cuts = Mapping[tuple[str, int], int]


@dataclass(frozen=True, slots=True)
class Counts:
    """The context of a model, and how to count: ``prompt`` raises ``PromptTooLong``."""

    context: int
    prompt: CountPrompt
    tokens: CountTokens


@dataclass(frozen=True, slots=True)
class PromptFit:
    """The messages of a prompt that fits, unless what must go is too long by itself."""

    messages: tuple[ConversationMessage, ...]
    request: GenerationRequest
    left_out: LeftOut | None = None
    cuts: Cuts = field(default_factory=dict)
    tokens: int | None = None
    total: int | None = None
    is_least: bool = False
    is_least_total: bool = False


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
    counts: Counts,
    when_full: WhenFull = WhenFull.LEAVE_OUT,
    before: LeftOut | None = None,
    uncut: str = "",
) -> PromptFit:
    """Return the prompt of a question: whole, or without the oldest exchanges."""
    request = make(sent, "")
    room = int(counts.context * _FULL)
    if not request.tools and _bytes_up_to(request, counts.context) < room:
        return PromptFit(tuple(sent), request)  # no text has more tokens than bytes
    total, is_least = await _counted(request, counts)
    if total <= room and not is_least:
        return PromptFit(tuple(sent), request, tokens=total, total=total)
    fitting = _Fitting(path, sent, make, counts, when_full, (total, is_least), uncut)
    return await fitting.fit(before)


class _Fitting:
    """Fits a prompt that is too long."""

    def __init__(
        self,
        path: Messages,
        sent: Messages,
        make: MakeRequest,
        counts: Counts,
        when_full: WhenFull,
        total: tuple[int, bool],
        uncut: str,
    ) -> None:
        self._uncut = uncut
        self._path = path
        self._sent = list(sent)
        self._make = make
        self._counts = counts
        self._when_full = when_full
        self._total = total
        self._cuts: Cuts = {}
        self._last = len(exchanges(sent)) - 1

    async def fit(self, left_out: LeftOut | None) -> PromptFit:
        context, room = self._counts.context, int(self._counts.context * _FULL)
        must, is_least = await self._size(self._last)
        if must > room or is_least:
            self._cuts = await self._fitting_cuts(without_oldest(self._sent, self._last))
            if self._cuts:
                self._sent = [cut_message(message, self._cuts) for message in self._sent]
                must, is_least = await self._size(self._last)
                self._total = await self._size(0)
        total, is_least_total = self._total
        fits_whole = total < context and not is_least_total
        if self._when_full is WhenFull.ASK or (self._cuts and total <= room and fits_whole):
            return self._fit_of(0, *self._total)
        if must > room or is_least:
            return self._fit_of(self._last, must, is_least)
        before = self._gone_with(left_out)
        if before:
            size, is_least = await self._size(before)
            if size <= room and not is_least:
                return self._fit_of(before, size, is_least)
        reserve = summary_tokens(context) if self._when_full is WhenFull.SUMMARIZE else 0
        target = max(int(context * _SHARE) - reserve, (must + room) // 2)
        # The smallest number of exchanges with which the rest has the wanted size. The last one
        # always goes, so it is known that some number is enough.
        least, most, size = before, self._last, must
        while most - least > 1:
            middle = (least + most) // 2
            tried, is_least = await self._size(middle)
            if tried <= target and not is_least:
                most, size = middle, tried
            else:
                least = middle
        return self._fit_of(most, size, is_least=False)

    def _gone_with(self, left_out: LeftOut | None) -> int:
        """Return how many exchanges an answer was without, if it had the same context."""
        if left_out is None or left_out.context != self._counts.context:
            return 0
        ids = {message.id for message in self._path[: left_out.until]}
        return min(sum(group[0].id in ids for group in exchanges(self._sent)), self._last)

    def _without(self, gone: int) -> tuple[list[ConversationMessage], str]:
        """Return the messages without the first exchanges, and the id of the first one after."""
        messages = without_oldest(self._sent, gone)
        is_whole = len(messages) == len(self._sent)
        return messages, "" if is_whole else exchanges(self._sent)[gone][0].id

    async def _size(self, gone: int) -> tuple[int, bool]:
        return await _counted(self._make(*self._without(gone)), self._counts)

    def _fit_of(self, gone: int, tokens: int, is_least: bool) -> PromptFit:
        messages, first = self._without(gone)
        left_out = None
        if first:
            until, boundary = next((n, m) for n, m in enumerate(self._path) if m.id == first)
            is_summarized = self._when_full is WhenFull.SUMMARIZE and bool(boundary.summary)
            count = len(self._sent) - len(messages)
            left_out = LeftOut(until, count, self._counts.context, is_summarized)
        return PromptFit(
            tuple(messages),
            self._make(messages, first),
            left_out,
            self._cuts,
            tokens,
            self._total[0],
            is_least,
            self._total[1],
        )

    # -- files and results that are too long ---------------------------------------------------

    async def _fitting_cuts(self, messages: Messages) -> Cuts:
        """Return which files and results have to be cut so that there is room for an answer."""
        texts = {
            (message.id, number): text
            for message in messages
            for number, text in enumerate(texts_of(message))
            if text and message.id != self._uncut
        }
        if not texts:
            return {}
        context, tokens = self._counts.context, self._counts.tokens
        empty = [cut_message(message, dict.fromkeys(texts, 0)) for message in messages]
        first = self._without(self._last)[1]
        without, is_least = await _counted(self._make(empty, first), self._counts)
        if is_least or without >= context:
            return {}  # cutting them does not help
        budget = max(int(context * _CUT_SHARE) - without, (context - without) // 2)
        sizes = {key: await _size(text, budget, tokens) for key, text in texts.items()}
        share = _fair_share(list(sizes.values()), budget)
        most = max(share - 40, 16)  # the note about the cut takes 40
        return {
            key: await fitting_chars(text, most, tokens)
            for key, text in texts.items()
            if sizes[key] > share
        }


def texts_of(message: ConversationMessage) -> list[str]:
    """Return the texts of a message that can be cut, as they are sent: its files, or results."""
    if message.run is None:
        return ["" if file.kept_file else file.text[: file.sent_chars] for file in message.files]
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


async def _counted(request: GenerationRequest, counts: Counts) -> tuple[int, bool]:
    """Return the tokens of a request, and whether that is only a lower bound."""
    try:
        return await counts.prompt(request), False
    except PromptTooLong as too_long:
        return max(too_long.prompt_tokens, counts.context), True


def _bytes_up_to(request: GenerationRequest, most: int) -> int:
    """Return the bytes of a request's texts, at least if they are no more than ``most``."""
    size = 0
    for message in request.messages:
        if size > most:
            break
        size += max(len(message.content), len(message.content[:most].encode(errors="replace")))
        size += 16  # the template's tokens around a message
    return size


async def _size(text: str, most: int, count_tokens: CountTokens) -> int:
    """Return the tokens of a text; more than ``most`` if it surely has more."""
    if len(text) > most * _MAX_TOKEN_CHARS:
        return most + 1
    size = 0
    for start in range(0, len(text), _PART_CHARS):
        size += await count_tokens(text[start : start + _PART_CHARS])
    return size


def _fair_share(sizes: list[int], budget: int) -> int:
    """Return the most tokens that each text may have: short ones leave their share to others."""
    left = budget
    for number, size in enumerate(sorted(sizes)):
        share = left // (len(sizes) - number)
        if size > share:
            return share
        left -= size
    return budget


async def fitting_chars(text: str, most: int, count_tokens: CountTokens) -> int:
    """Return how many characters at a text's beginning have at most so many tokens."""
    chars = min(len(text), most * 4)
    size = await count_tokens(text[:chars])
    if size <= most and chars < len(text):
        chars = min(len(text), int(chars * most / max(size, 1)), most * _MAX_TOKEN_CHARS)
        size = await count_tokens(text[:chars])
    while size > most and chars:
        chars = min(chars - 1, int(chars * most / size))
        size = await count_tokens(text[:chars])
    line = text.rfind("\n", 0, chars) + 1
    return line if line > chars * 0.8 else chars

"""Fits the results of tools to a model's context: the longest are cut, and nothing is lost.

Pure, apart from the counts that it asks for; main thread.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace

from engine import GenerationRequest, Message, PromptTooLong
from ui.records.messages import ConversationMessage
from ui.records.runs import Run
from ui.records.tooling.calls import CallResult

# Results are cut once the prompt takes more than this share of the context.
_FULL = 0.9
# What is sent may then take this share together with the results or, where there is more besides
# them, the results get half of what that leaves. Cutting further than necessary keeps the beginning
# of the prompt the same for several questions, so that it is read only once.
_SHARE = 0.65
_NOTE_TOKENS = 40
_LEAST_TOKENS = 16
# A text is counted in parts, so that other work of the engine does not wait long.
_PART_CHARS = 100_000
# No tokenizer has many tokens longer than this; a longer text has more tokens than are asked for.
_MOST_CHARS_A_TOKEN = 16

Adapt = Callable[[GenerationRequest], GenerationRequest]
CountPrompt = Callable[[GenerationRequest], Awaitable[int]]
CountTokens = Callable[[str], Awaitable[int]]
Results = Sequence[tuple[Run, CallResult | None]]


def results_of(messages: Sequence[ConversationMessage]) -> Results:
    """Return the results of all calls of messages, in the order in which they are sent."""
    runs = [message.run for message in messages if message.run is not None]
    return [(run, run.result_of(call.id)) for run in runs for call in run.tool_calls]


async def result_cuts(
    request: GenerationRequest,
    results: Results,
    context: int,
    *,
    adapt: Adapt,
    count_prompt: CountPrompt,
    count_tokens: CountTokens,
) -> dict[int, int]:
    """Return which results have to be cut so that the prompt leaves room for an answer.

    Args:
        request: The request, with a message for each result.
        results: The results.
        context: The tokens that the model's context holds.
        adapt: Adapts a request to the model.
        count_prompt: Counts the tokens of an adapted request; raises ``PromptTooLong``.
        count_tokens: Counts the tokens of a text.

    Returns:
        The number of characters to send of each result that is cut, by its place among the results.
    """
    if not results or _bytes_up_to(request, context) < context * _FULL:
        return {}  # no text has more tokens than bytes

    async def counted(request: GenerationRequest) -> int | None:
        try:
            return await count_prompt(adapt(request))
        except PromptTooLong:
            return None

    total = await counted(request)
    if total is not None and total <= context * _FULL:
        return {}
    without = await counted(_with_texts(request, dict.fromkeys(range(len(results)), "")))
    if without is None or without >= context:
        return {}  # cutting results does not help
    budget = max(int(context * _SHARE) - without, (context - without) // 2)
    texts = {n: one.sent for n, (_, one) in enumerate(results) if one is not None}
    sizes = {n: await _size(text, budget, count_tokens) for n, text in texts.items()}
    share = _fair_share(list(sizes.values()), budget)
    return {
        n: await _fitting_chars(text, max(share - _NOTE_TOKENS, _LEAST_TOKENS), count_tokens)
        for n, text in texts.items()
        if sizes[n] > share
    }


def with_cuts(
    request: GenerationRequest, results: Results, cuts: Mapping[int, int]
) -> GenerationRequest:
    """Return a request in which results are cut after a number of characters."""
    texts = {
        n: replace(one, sent_chars=cuts[n]).sent
        for n, (_, one) in enumerate(results)
        if one is not None and n in cuts
    }
    return _with_texts(request, texts)


def _with_texts(request: GenerationRequest, texts: Mapping[int, str]) -> GenerationRequest:
    messages: list[Message] = []
    number = 0
    for message in request.messages:
        if message.role == "tool":
            if number in texts:
                message = replace(message, content=texts[number])
            number += 1
        messages.append(message)
    return replace(request, messages=tuple(messages))


def _bytes_up_to(request: GenerationRequest, most: int) -> int:
    """Return the bytes of a request's texts, at least if they are no more than ``most``."""
    size = 0
    for message in request.messages:
        if size > most:
            break
        size += max(len(message.content), len(message.content[:most].encode(errors="replace")))
    return size


async def _size(text: str, most: int, count_tokens: CountTokens) -> int:
    """Return the tokens of a text; more than ``most`` if it surely has more."""
    if len(text) > most * _MOST_CHARS_A_TOKEN:
        return most + 1
    size = 0
    for start in range(0, len(text), _PART_CHARS):
        size += await count_tokens(text[start : start + _PART_CHARS])
    return size


def _fair_share(sizes: list[int], budget: int) -> int:
    """Return the most tokens that each result may have: short ones leave their share to others."""
    left = budget
    for number, size in enumerate(sorted(sizes)):
        share = left // (len(sizes) - number)
        if size > share:
            return share
        left -= size
    return budget


async def _fitting_chars(text: str, most: int, count_tokens: CountTokens) -> int:
    """Return how many characters at a text's beginning have at most so many tokens."""
    chars = min(len(text), most * 4)
    size = await count_tokens(text[:chars])
    if size <= most and chars < len(text):
        chars = min(len(text), int(chars * most / max(size, 1)), most * _MOST_CHARS_A_TOKEN)
        size = await count_tokens(text[:chars])
    while size > most and chars:
        chars = min(chars - 1, int(chars * most / size))
        size = await count_tokens(text[:chars])
    line = text.rfind("\n", 0, chars) + 1
    return line if line > chars * 0.8 else chars

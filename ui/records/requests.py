"""Makes the requests of a conversation to the engine, whose results of tools fit its context.

Pure, apart from the counts that it asks for; main thread.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from engine import (
    PERSON,
    CacheOwner,
    GenerationRequest,
    Message,
    ModelInfo,
    PromptTooLong,
    StopKind,
    StopRules,
)
from ui.records.attachments import without_picture_files
from ui.records.conversations import Conversation, ConversationSettings, rules_of
from ui.records.messages import ConversationMessage
from ui.records.runs import NO_CHANGE, Run, RunState, StopChange
from ui.records.tools import NOT_RUN, CallResult

# Turns: calls and their results, for models with tools and without.


def turns_of(messages: list[ConversationMessage]) -> list[Message]:
    """Return the messages as turns, each call followed by its result.

    Reasoning before a call is kept with the call until the question is answered, so that the model
    can continue it.
    """
    questions = [n for n, one in enumerate(messages) if one.role == "user"]
    last_question = questions[-1] if questions else -1
    turns: list[Message] = []
    for number, message in enumerate(messages):
        run = message.run
        if run is None or not run.tool_calls:
            turns.append(Message(message.role, _read_text(message)))
            continue
        thinking = run.thinking if number > last_question else ""
        turns.append(Message("assistant", message.text, thinking, tuple(run.tool_calls)))
        for call in run.tool_calls:
            result = run.result_of(call.id)
            text = NOT_RUN if result is None else result.sent
            turns.append(Message("tool", text, tool_call_id=call.id, name=call.name))
    return turns


def _read_text(message: ConversationMessage) -> str:
    if message.attached_chars:
        return without_picture_files(message.text)
    return "(a picture)" if message.pictures and not message.text.strip() else message.text


def questions_joined(messages: Iterable[Message]) -> list[Message]:
    """Return a conversation without two questions in a row, which many templates reject.

    A message that has no answer is joined with the question after it.
    """
    joined: list[Message] = []
    for message in messages:
        if joined and message.role == "user" == joined[-1].role:
            joined[-1] = Message("user", f"{joined[-1].content}\n\n{message.content}")
        else:
            joined.append(message)
    return joined


def without_tools(messages: Iterable[Message]) -> tuple[Message, ...]:
    """Return a conversation for a model whose template has no calls: they are written as text."""
    told: list[Message] = []
    for message in messages:
        role, content = message.role, message.content
        if role == "tool":
            role, content = "user", f"Result of {message.name or 'a tool'}:\n{content}"
        elif message.tool_calls:
            called = "\n".join(f"{call.name}({call.arguments})" for call in message.tool_calls)
            content = "\n\n".join(filter(None, (content, called)))
        told.append(Message(role, content))
    return tuple(questions_joined(told))


def has_tools(messages: Iterable[Message]) -> bool:
    """Return whether a conversation has calls or results."""
    return any(message.role == "tool" or message.tool_calls for message in messages)


def request_for(
    conversation: Conversation,
    model: ModelInfo | None,
    question: ConversationMessage,
    begun: str = "",
    change: StopChange = NO_CHANGE,
) -> GenerationRequest:
    """Return the request that answers a question of a conversation.

    Args:
        conversation: Gives the settings, the stop list, and the earlier messages.
        model: The loaded model.
        question: The question to answer.
        begun: The text that the answer continues; empty for a new answer.
        change: How its stops differ from the conversation's list.
    """
    settings = conversation.settings
    messages: list[Message] = []
    if settings.system_prompt.strip():
        messages.append(Message("system", settings.system_prompt))
    messages += questions_joined(turns_of(sent_messages(conversation, question)))
    if begun:
        messages.append(Message("assistant", begun))
    return fitted(
        GenerationRequest(
            messages=tuple(messages),
            sampling=settings.sampling,
            stops=stop_rules(conversation, None, change),
            max_tokens=settings.max_tokens,
            cache_owner=cache_owner(conversation),
        ),
        settings,
        model,
        change.without,
    )


def fitted(
    request: GenerationRequest,
    settings: ConversationSettings,
    model: ModelInfo | None,
    without: str | int | None = None,
) -> GenerationRequest:
    """Return a request adapted to a model: its end tokens, reasoning, and calls.

    Args:
        request: The request, independent of the model.
        settings: The settings of the question.
        model: The model that answers; None while it is not loaded.
        without: A stop sequence or stop token to leave out this time.
    """
    ids = tuple(token_id for token_id in _known(settings, model) if token_id != without)
    can_think = model is not None and model.can_think
    if model is not None and not model.can_call_tools:
        told = request.messages
        told = without_tools(told) if has_tools(told) else told
        request = replace(request, messages=told, tools=())
    return replace(
        request,
        model=None if model is None else model.id,
        stops=replace(request.stops, token_ids=ids),
        thinking=settings.is_thinking if can_think else None,
        thinking_budget=settings.thinking_budget if can_think else None,
    )


def cache_owner(conversation: Conversation) -> CacheOwner:
    """Return the name under which the engine keeps a conversation's caches on disk."""
    return CacheOwner(PERSON.name, kept_with=conversation.id)


def new_run(
    request: GenerationRequest,
    model: ModelInfo | None,
    continued: Run | None,
    change: StopChange,
    begun: str = "",
) -> Run:
    """Return the record of an answer that is about to begin.

    Args:
        request: The request to the engine.
        model: The loaded model.
        continued: The run whose text the answer continues; None for a new answer.
        change: How its stops differ from the conversation's list.
        begun: The text that the answer continues.
    """
    run = Run(
        rules=request.stops,
        stop_change=change,
        max_tokens=request.max_tokens,
        model_id=model.id if model else "",
    )
    if continued is not None:
        run.text, run.thinking = begun, continued.thinking
        run.thinking_s, run.continued_chars = continued.thinking_s, len(begun)
    return run


def stop_rules(
    conversation: Conversation, model: ModelInfo | None, change: StopChange = NO_CHANGE
) -> StopRules:
    """Return the stops of the next answer.

    Args:
        conversation: The conversation.
        model: The model that answers; None while it is not loaded.
        change: How they differ from the conversation's list this time.
    """
    rules = rules_of(conversation.stops).with_options(conversation.settings.stop_options)
    extra = (change.extra,) if change.extra and change.extra not in rules.strings else ()
    without = change.without
    known = _known(conversation.settings, model)
    return replace(
        rules.with_strings(text for text in (*rules.strings, *extra) if text != without),
        token_ids=tuple(token_id for token_id in known if token_id != without),
    )


def _known(settings: ConversationSettings, model: ModelInfo | None) -> tuple[int, ...]:
    """Return the added end tokens that the model has."""
    size = model.vocabulary_size if model is not None else 0
    return tuple(token_id for token_id in settings.stop_token_ids if token_id < size)


def sent_messages(
    conversation: Conversation, question: ConversationMessage
) -> list[ConversationMessage]:
    """Return the messages that a request for a question's answer names.

    Answers that were refused or failed without any text are left out, with their questions.
    """
    kept: list[ConversationMessage] = []
    for message in conversation.tree.path_to(question):
        run = message.run
        if run is not None and not message.text and _went_wrong(run):
            if kept and kept[-1].role == "user":
                kept.pop()
            continue
        kept.append(message)
    return kept


def _went_wrong(run: Run) -> bool:
    is_error = run.finished is not None and run.finished.stop.kind is StopKind.ERROR
    return run.state is RunState.REFUSED or is_error


# Results of tools that are too long: they are cut to fit the context, and nothing is lost.

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

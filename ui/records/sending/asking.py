"""Makes the requests of a conversation to the engine. Pure; main thread."""

from dataclasses import replace

from engine import PERSON, CacheOwner, GenerationRequest, Message, ModelInfo, StopKind, StopRules
from ui.records.conversations import Conversation, ConversationSettings, rules_of
from ui.records.messages import ConversationMessage
from ui.records.runs import NO_CHANGE, Run, RunState, StopChange
from ui.records.sending.turns import has_tools, questions_joined, turns_of, without_tools


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
    ids = tuple(one for one in _known(settings, model) if one != without)
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
        stops=request.stops.strings,
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
    return replace(
        rules,
        strings=tuple(one for one in (*rules.strings, *extra) if one != without),
        scopes=tuple(one for one in rules.scopes if one[0] != without),
        token_ids=tuple(one for one in _known(conversation.settings, model) if one != without),
    )


def _known(settings: ConversationSettings, model: ModelInfo | None) -> tuple[int, ...]:
    """Return the added end tokens that the model has."""
    size = model.vocabulary_size if model is not None else 0
    return tuple(one for one in settings.stop_token_ids if one < size)


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

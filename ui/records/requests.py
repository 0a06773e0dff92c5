"""Makes the requests of a conversation to the engine. Pure; main thread."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from engine.library.model_info import ModelInfo
from engine.recording.replay import replay
from engine.recording.run_trace import RunTrace
from engine.stopping.record import StopKind
from engine.stopping.rules import StopRules
from engine.values.events import Timing
from engine.values.request import (
    LOCAL_OWNER,
    PICTURE_MARK,
    CacheOwner,
    GenerationRequest,
    Message,
    Picture,
)
from ui.records.attachments import with_attachments, without_kept_files
from ui.records.conversations import Conversation, ConversationSettings
from ui.records.facts import Fact, facts_block, remembered
from ui.records.messages import ConversationMessage
from ui.records.pictures import NO_PICTURES, Pictures
from ui.records.runs import NO_CHANGE, ForkOrigin, Run, StopChange, recorded_run
from ui.records.stop_entries import rules_of
from ui.records.tool_calls import NOT_RUN, PICTURE_NOTE, CallResult

# Turns: calls and their results, for models with tools and without.


def turns_of(
    messages: Sequence[ConversationMessage], pictures: Pictures = NO_PICTURES, summarized: str = ""
) -> list[Message]:
    """Return the messages as turns, each call followed by its result.

    Reasoning before a call is kept with the call until the question is answered, so that the model
    can continue it. Pictures that are not given are notes. ``summarized`` is the id of the message
    whose summary stands for the messages before it.
    """
    questions = [n for n, message in enumerate(messages) if message.role == "user"]
    last_question = questions[-1] if questions else -1
    turns: list[Message] = []
    for number, message in enumerate(messages):
        run = message.run
        if run is None or not run.tool_calls:
            text, shown = _content(message, pictures)
            if message.id == summarized and (summary := message.summary.strip()):
                # In the question, because many templates allow a system prompt only at the
                # beginning, or none.
                text = f"(Summary of our conversation before this message:\n{summary})\n\n{text}"
            turns.append(Message(message.role, text, pictures=shown))
            continue
        thinking = run.thinking if number > last_question else ""
        turns.append(Message("assistant", message.text, thinking, tuple(run.tool_calls)))
        for call in run.tool_calls:
            result = run.result_of(call.id)
            text, shown = (NOT_RUN, ()) if result is None else _result_content(result, pictures)
            turns.append(
                Message("tool", text, tool_call_id=call.id, name=call.name, pictures=shown)
            )
    return turns


def _content(message: ConversationMessage, pictures: Pictures) -> tuple[str, tuple[Picture, ...]]:
    """Return the text of a question or an answer, and the pictures that its marks stand for."""
    if message.run is None and (message.attached_chars or message.excerpts):
        files = message.sent_files
        shown = tuple(pictures[file.kept_file] for file in files if file.kept_file in pictures)
        if not shown:
            return without_kept_files(message.sent), ()
        others = [file for file in files if file.kept_file not in pictures]
        text = without_kept_files(with_attachments(message.typed, others))
        return PICTURE_MARK * len(shown) + text.replace(PICTURE_MARK, ""), shown
    if not message.pictures or message.text.strip():
        return message.text, ()
    return "(a sound recording)" if message.pictures[0].is_sound else "(a picture)", ()


def _result_content(result: CallResult, pictures: Pictures) -> tuple[str, tuple[Picture, ...]]:
    """Return the text of a tool's result, with marks in place of the notes about its pictures."""
    shown = tuple(
        pictures[file.kept_file] for file in result.pictures if file.kept_file in pictures
    )
    if not shown:
        unseen = r"[\1, which the model cannot see]"
        return PICTURE_NOTE.sub(unseen, result.sent) if result.pictures else result.sent, ()
    text = result.sent.replace(PICTURE_MARK, "")
    if len(PICTURE_NOTE.findall(text)) == len(shown):
        return PICTURE_NOTE.sub(PICTURE_MARK, text), shown
    return text + PICTURE_MARK * len(shown), shown


def questions_joined(messages: Iterable[Message]) -> list[Message]:
    """Return a conversation without two questions in a row, which many templates reject."""
    joined: list[Message] = []
    for message in messages:
        if joined and message.role == "user" == joined[-1].role:
            before = joined[-1]
            text, shown = f"{before.content}\n\n{message.content}", before.pictures
            joined[-1] = Message("user", text, pictures=(*shown, *message.pictures))
        else:
            joined.append(message)
    return joined


def without_tools(messages: Iterable[Message]) -> tuple[Message, ...]:
    """Return a conversation for a model whose template has no calls: they are written as text."""
    converted: list[Message] = []
    for message in messages:
        role, content = message.role, message.content
        if role == "tool":
            role, content = "user", f"Result of {message.name or 'a tool'}:\n{content}"
        elif message.tool_calls:
            called = "\n".join(f"{call.name}({call.arguments})" for call in message.tool_calls)
            content = "\n\n".join(filter(None, (content, called)))
        converted.append(Message(role, content, pictures=message.pictures))
    return tuple(questions_joined(converted))


def has_tools(messages: Iterable[Message]) -> bool:
    """Return whether a conversation has calls or results."""
    return any(message.role == "tool" or message.tool_calls for message in messages)


def system_texts_of(request: GenerationRequest) -> tuple[str, ...]:
    """Return the texts of a request's system messages: the prompt, and the kept facts."""
    return tuple(message.content for message in request.messages if message.role == "system")


def request_for(
    conversation: Conversation,
    model: ModelInfo | None,
    question: ConversationMessage,
    begun: str = "",
    change: StopChange = NO_CHANGE,
    pictures: Pictures = NO_PICTURES,
    facts: Iterable[Fact] = (),
) -> GenerationRequest:
    """Return the request that answers a question of a conversation; ``facts`` are kept ones."""
    settings = conversation.settings
    sent = sent_messages(conversation, question)
    return fitted(
        GenerationRequest(
            messages=prompt_messages(sent, settings.system_prompt, facts, begun, pictures=pictures),
            sampling=settings.sampling,
            stops=stop_rules(conversation, None, change),
            max_tokens=settings.max_tokens,
            max_tokens_from=settings.limits_from,
            cache_owner=cache_owner(conversation),
        ),
        settings,
        model,
        change.without,
    )


def prompt_messages(
    sent: Sequence[ConversationMessage],
    system_prompt: str = "",
    facts: Iterable[Fact] = (),
    begun: str = "",
    summarized: str = "",
    pictures: Pictures = NO_PICTURES,
) -> tuple[Message, ...]:
    """Return the messages of a prompt, with the kept facts that none of its calls shows.

    A fact that a call adds would change the beginning of the prompt, which is cached.
    """
    results = (result for each in sent if each.run is not None for result in each.run.results)
    shown = set(map(remembered, results))
    block = facts_block(fact for fact in facts if (fact.id, fact.text) not in shown)
    messages = [Message("system", text) for text in (system_prompt, block) if text.strip()]
    messages += questions_joined(turns_of(sent, pictures, summarized))
    if begun:
        messages.append(Message("assistant", begun))
    return tuple(messages)


def fitted(
    request: GenerationRequest,
    settings: ConversationSettings,
    model: ModelInfo | None,
    without: str | int | None = None,
) -> GenerationRequest:
    """Return a request adapted to a model: its end tokens, reasoning, and calls."""
    ids = tuple(token_id for token_id in _known(settings, model) if token_id != without)
    can_think = model is not None and model.can_think
    if model is not None and not model.can_call_tools:
        converted = request.messages
        converted = without_tools(converted) if has_tools(converted) else converted
        request = replace(request, messages=converted, tools=())
    return replace(
        request,
        model=None if model is None else model.id,
        stops=replace(request.stops, token_ids=ids),
        thinking=settings.is_thinking if can_think else None,
        thinking_budget=settings.thinking_budget if can_think else None,
        thinking_budget_from=settings.limits_from,
        preset=settings.preset,
    )


def cache_owner(conversation: Conversation) -> CacheOwner:
    """Return the name under which the engine keeps a conversation's caches on disk."""
    return CacheOwner(LOCAL_OWNER.name, kept_with=conversation.id)


def new_run(
    request: GenerationRequest,
    model: ModelInfo | None,
    continued: Run | None,
    change: StopChange,
    begun: str = "",
) -> Run:
    """Return the record of an answer that is about to begin."""
    run = Run(
        rules=request.stops,
        stop_change=change,
        max_tokens=request.max_tokens,
        model_id=model.id if model else "",
    )
    if continued is not None:
        run.text, run.thinking = begun, continued.thinking
        run.thinking_s, run.continued_chars = continued.thinking_s, len(begun)
        run.left_out = continued.left_out
    return run


def forked_run(original: Run, trace: RunTrace, origin: ForkOrigin) -> Run:
    """Return the record of an answer that repeats the beginning of another one."""
    run = Run(
        rules=trace.rules,
        stop_change=original.stop_change,
        max_tokens=trace.max_tokens,
        model_id=original.model_id,
        left_out=original.left_out,
        forked_from=origin,
    )
    if original.continued_chars:  # text before the recorded tokens
        run.continued_chars = original.continued_chars
        run.text = original.text[: original.continued_chars]
        run.thinking = original.thinking.removesuffix(replay(trace).thinking)
    return run


def ended_run(original: Run, ended: RunTrace, origin: ForkOrigin) -> Run:
    """Return the record of an answer that ends at a token of another one."""
    run, played = forked_run(original, ended, origin), recorded_run(ended)
    run.text, run.thinking = run.text + played.text, run.thinking + played.thinking
    run.thinking_s = original.thinking_s if run.thinking else None
    run.tool_calls, run.state = played.tool_calls, "finished"
    assert played.finished is not None, "a fork has ended"
    # Nothing was generated, so there are no durations.
    run.finished = replace(played.finished, timing=Timing())
    run.prompt_total = run.prompt_processed = original.prompt_total
    return run


def stop_rules(
    conversation: Conversation, model: ModelInfo | None, change: StopChange = NO_CHANGE
) -> StopRules:
    """Return the stops of the next answer."""
    rules = rules_of(conversation.stops).with_options(conversation.settings.stop_options)
    without = change.without
    known = _known(conversation.settings, model)
    return replace(
        rules.with_strings(text for text in rules.strings if text != without),
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
    return run.state == "refused" or is_error

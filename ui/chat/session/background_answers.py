"""Answers of the model that are no part of a conversation: summaries of it, and its title.

Main thread.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from engine import (
    LOCAL_OWNER,
    Engine,
    EngineError,
    Finished,
    GenerationRequest,
    Message,
    ModelInfo,
    Sampling,
    StopKind,
    TextDelta,
    counted,
)
from ui.records.messages import ConversationMessage
from ui.records.prompt_fit import fitting_chars, summary_tokens
from ui.records.requests import turns_of, without_tools
from ui.words import describe_error

# What a part may take of the context, beside the instructions, the summary before and the new one.
_PART_SHARE = 0.5
_CUT_OFF = (StopKind.MAX_TOKENS, StopKind.CONTEXT_FULL, StopKind.MEMORY_FULL)
_NAMES = {"user": "User", "assistant": "Assistant", "tool": "Tool", "system": "System"}


class SummaryFailed(EngineError):
    """No summary could be made; the message says why, as a sentence."""


async def answer_text(
    engine: Engine,
    request: GenerationRequest,
    advance: Callable[[int], None] = lambda tokens: None,
) -> tuple[str, Finished]:
    """Return the text of an answer and its end; the answer ends with the task that asks for it."""
    generation = await engine.generate(request)
    texts: list[str] = []
    try:
        async for batch in generation.batches():
            texts += [event.text for event in batch if isinstance(event, TextDelta)]
            advance(generation.written_tokens)
    finally:
        generation.cancel()
    assert generation.finished is not None, "every generation ends in Finished"
    return "".join(texts), generation.finished


async def summary_of(
    messages: Sequence[ConversationMessage],
    before: str,
    engine: Engine,
    model: ModelInfo,
    advance: Callable[[str], None],
) -> str:
    """Return a summary of messages, made by the model.

    Raises:
        SummaryFailed: The model wrote none.
    """
    sent = without_tools(turns_of(list(messages)))
    remainder = "\n\n".join(
        f"{_NAMES[message.role]}: {message.content.strip()}" for message in sent
    )
    caption = f"Summarizing {counted(len(messages), 'earlier message')}"
    limit = summary_tokens(model.context_length)
    summary = before
    while remainder.strip():
        advance(f"{caption}…")
        available = int(model.context_length * _PART_SHARE)

        async def count(text: str) -> int:
            return len(await engine.tokenize(text, model.id))

        chars = await fitting_chars(remainder, available, count)
        part, remainder = remainder[: max(chars, 1)], remainder[max(chars, 1) :]
        request = background_request(_summary_question(summary, part, limit), model, limit)

        def report(tokens: int) -> None:
            advance(f"{caption}: {counted(tokens, 'token')}")

        try:
            text, finished = await answer_text(engine, request, report)
        except EngineError as error:
            raise SummaryFailed(describe_error(error)) from error
        if finished.stop.kind is StopKind.CANCELLED:
            raise SummaryFailed("It was stopped.")
        if not text.strip() or finished.error:
            raise SummaryFailed("The model wrote nothing.")
        summary = text.strip() + ("…" if finished.stop.kind in _CUT_OFF else "")
    return summary


def _summary_question(before: str, part: str, max_tokens: int) -> str:
    parts = [
        "Summarize the conversation below in plain sentences, in at most "
        f"{counted(max(max_tokens // 2, 10), 'word')} and in its own language. Keep names, "
        "numbers, decisions and open questions. Write the summary only.",
        f"What came before:\n{before.strip()}" if before.strip() else "",
        f"The conversation:\n{part.strip()}",
    ]
    return "\n\n".join(filter(None, parts))


def background_request(question: str, model: ModelInfo, token_limit: int) -> GenerationRequest:
    """Return the request for an answer that is no part of a conversation."""
    # Nothing of it is kept on disk, and nothing of it is recorded.
    return GenerationRequest(
        messages=(Message("user", question),),
        sampling=Sampling(temperature=0),
        max_tokens=token_limit,
        thinking=False if model.can_think else None,
        cache_owner=replace(LOCAL_OWNER, kept_with=None),
        model=model.id,
    )

"""Answers of the model that are no part of a conversation: summaries of it, and its title.

Main thread.
"""

from collections.abc import Sequence

from engine import Engine
from engine.errors import EngineError
from engine.library.model_info import ModelInfo
from engine.stopping.record import StopKind
from engine.values.events import Finished, TextDelta
from engine.values.request import LOCAL_OWNER, GenerationRequest, Message, Sampling
from engine.wording import counted
from ui.records.messages import ConversationMessage
from ui.records.prompt_fit import TokenCounter, fitting_chars, summary_tokens
from ui.records.requests import turns_of, without_tools

_CUT_OFF = (StopKind.MAX_TOKENS, StopKind.CONTEXT_FULL, StopKind.MEMORY_FULL)
_NAMES = {"user": "User", "assistant": "Assistant", "tool": "Tool", "system": "System"}


async def answer_text(engine: Engine, request: GenerationRequest) -> tuple[str, Finished]:
    """Return the text of an answer and its end; the answer ends with the task that asks for it."""
    generation = await engine.generate(request)
    texts: list[str] = []
    try:
        async for batch in generation.batches():
            texts += [event.text for event in batch if isinstance(event, TextDelta)]
    finally:
        generation.cancel()
    assert generation.finished is not None, "every generation ends in Finished"
    return "".join(texts), generation.finished


async def summary_of(
    messages: Sequence[ConversationMessage],
    before: str,
    engine: Engine,
    model: ModelInfo,
) -> str:
    """Return a summary of messages, made by the model; raises ``EngineError`` if it wrote none."""
    sent = without_tools(turns_of(list(messages)))
    remainder = "\n\n".join(
        f"{_NAMES[message.role]}: {message.content.strip()}" for message in sent
    )
    limit = summary_tokens(model.context_length)
    summary, counter = before, TokenCounter(engine, model)
    while remainder.strip():
        # The other half is for the instructions, the summary before and the new one.
        chars = await fitting_chars(remainder, model.context_length // 2, counter)
        part, remainder = remainder[: max(chars, 1)], remainder[max(chars, 1) :]
        request = background_request(_summary_question(summary, part, limit), model, limit)
        text, finished = await answer_text(engine, request)
        if finished.stop.kind is StopKind.CANCELLED:
            raise EngineError("It was stopped.")
        if not text.strip() or finished.error:
            raise EngineError("The model wrote nothing.")
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
        cache_owner=LOCAL_OWNER,
        model=model.id,
    )

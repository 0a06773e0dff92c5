"""Chat Completions' answers and the chunks of its streams, spelled as in OpenAI's reference.

They describe what ``read`` and ``write`` make, for documents and their readers. Any thread.
"""

from typing import Literal

from pydantic import RootModel

from api.dialects.openai.answers import (
    CallAnswer,
    CompletionUsage,
    Ending,
    ErrorAnswer,
    TokenLogprob,
)
from api.dialects.shared.answers import DEFERRED, AnswerModel, FullstopReport


class ChatLogprobs(AnswerModel):
    """How likely the tokens of the answer's text were."""

    content: list[TokenLogprob]
    refusal: None


class AnswerMessage(AnswerModel):
    """The answer of one choice."""

    role: Literal["assistant"]
    content: str | None
    refusal: None
    reasoning_content: str | None = None
    tool_calls: list[CallAnswer] | None = None


class ChatChoice(Ending):
    """One choice."""

    index: int
    message: AnswerMessage
    logprobs: ChatLogprobs | None
    fullstop: FullstopReport | None = None


class ChatCompletion(AnswerModel):
    """The answer of ``POST /v1/chat/completions``."""

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[ChatChoice]
    usage: CompletionUsage


class ChatDelta(AnswerModel):
    """What a choice grows by."""

    role: Literal["assistant"] | None = None
    content: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[CallAnswer] | None = None


class ChunkChoice(Ending):
    """What is new of one choice."""

    index: int
    delta: ChatDelta
    logprobs: ChatLogprobs | None
    fullstop: FullstopReport | None = None


class ChatCompletionChunk(AnswerModel):
    """One event of a stream; the one with the usage has no choices."""

    id: str
    object: Literal["chat.completion.chunk"]
    created: int
    model: str
    choices: list[ChunkChoice]
    usage: CompletionUsage | None = None


class ChatEvent(RootModel[ChatCompletionChunk | ErrorAnswer]):
    """One event of a stream, before the last, which is ``[DONE]``."""

    model_config = DEFERRED

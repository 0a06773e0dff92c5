"""Completions' answers and the chunks of its streams, spelled as in OpenAI's reference.

They describe what ``read`` and ``write`` make, for documents and their readers. Any thread.
"""

from typing import Literal

from pydantic import Field, RootModel

from api.dialects.openai.answers import CallAnswer, CompletionUsage, Ending, ErrorAnswer
from api.dialects.shared.answers import DEFERRED, AnswerModel, FullstopReport


class TextLogprobs(AnswerModel):
    """How likely the tokens of the answer's text were: lists in step with each other."""

    tokens: list[str]
    token_logprobs: list[float]
    top_logprobs: list[dict[str, float]] | None
    text_offset: list[int] = Field(description="where each token begins, in characters")


class TextChoice(Ending):
    """One choice, or in a stream what is new of it."""

    index: int
    text: str
    logprobs: TextLogprobs | None
    reasoning_content: str | None = None
    tool_calls: list[CallAnswer] | None = None
    fullstop: FullstopReport | None = None


class Completion(AnswerModel):
    """The answer of ``POST /v1/completions``, and one event of its stream."""

    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    choices: list[TextChoice]
    usage: CompletionUsage | None = None


class CompletionEvent(RootModel[Completion | ErrorAnswer]):
    """One event of a stream, before the last, which is ``[DONE]``."""

    model_config = DEFERRED

"""Completions' requests and answers, spelled as in OpenAI's reference and its open relatives.

https://platform.openai.com/docs/api-reference/completions
Only the shapes: ``read`` knows what a request means, ``write`` makes the answers. Unknown fields
are ignored. Any thread.
"""

from typing import Annotated, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from api.dialects.openai.wire import (
    ChoiceEnding,
    CompletionUsage,
    ErrorAnswer,
    PromptLogprobs,
    Prompts,
    ScoringParams,
    StreamOptions,
)


class CompletionParams(ScoringParams):
    """``POST /v1/completions``."""

    prompt: Prompts
    max_tokens: int | None = Field(default=None, ge=0)
    n: int | None = Field(default=None, ge=1, le=128)
    best_of: int | None = Field(default=None, ge=1)
    echo: bool | None = None
    suffix: str | None = None
    logprobs: int | None = Field(default=None, ge=0, le=20)
    stream_options: StreamOptions | None = None


# -- answers ----------------------------------------------------------------------------------


class TextLogprobs(TypedDict):
    """The logprobs of the text's tokens: parallel lists.

    With ``echo`` the prompt's tokens come first; the very first token has no logprob.
    """

    tokens: list[str]
    token_logprobs: list[float | None]
    top_logprobs: list[dict[str, float] | None] | None
    text_offset: Annotated[list[int], Field(description="where each token begins, in characters")]


class TextChoice(ChoiceEnding):
    """One choice, or its new content in a stream."""

    index: int
    text: str
    logprobs: TextLogprobs | None


class ScoredTextChoice(TextChoice):
    """One choice with the log-probabilities of its prompt."""

    prompt_logprobs: PromptLogprobs


class Completion(TypedDict):
    """The answer of ``POST /v1/completions``, and one event of its stream."""

    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    choices: list[TextChoice] | list[ScoredTextChoice]
    usage: NotRequired[CompletionUsage | None]


# One event of a stream, before the last, which is ``[DONE]``.
CompletionEvent = Completion | ErrorAnswer

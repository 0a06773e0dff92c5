"""What the answers of OpenAI's three APIs have in common, spelled as in its reference.

For documents and their readers; what is sent is made elsewhere. Any thread.
"""

from typing import Literal

from pydantic import Field

from api.dialects.shared.answers import AnswerModel

FinishReason = Literal["stop", "length", "tool_calls"]


class ErrorFields(AnswerModel):
    """What went wrong; all four are always there."""

    message: str
    type: Literal["invalid_request_error", "permission_error", "rate_limit_error", "server_error"]
    param: str | None = Field(description="the field that is wrong")
    code: str | None


class ErrorAnswer(AnswerModel):
    """What every failure looks like, in a body and in a stream."""

    error: ErrorFields


class PromptTokensDetails(AnswerModel):
    """Which of the prompt's tokens needed no work."""

    cached_tokens: int


class CompletionTokensDetails(AnswerModel):
    """Which of the answer's tokens are not in its text."""

    reasoning_tokens: int


class CompletionUsage(AnswerModel):
    """Tokens over all choices."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptTokensDetails
    completion_tokens_details: CompletionTokensDetails


class CalledFunctionAnswer(AnswerModel):
    """A function's name and its arguments as JSON text."""

    name: str
    arguments: str


class CallAnswer(AnswerModel):
    """A call that the client is to make."""

    index: int | None = Field(default=None, description="in streams")
    id: str
    type: Literal["function"]
    function: CalledFunctionAnswer


class LikelyToken(AnswerModel):
    """A token and how likely it was."""

    token: str
    logprob: float
    bytes: list[int]


class TokenLogprob(LikelyToken):
    """A token of the answer, and the likeliest in its place."""

    top_logprobs: list[LikelyToken]


class Ending(AnswerModel):
    """How a choice ended; all but the first are there once it has."""

    finish_reason: FinishReason | None
    matched_stop: str | int | None = Field(
        default=None, description="the stop that matched: a string or a token id"
    )
    stop_reason: str | int | None = Field(default=None, description="the same as matched_stop")

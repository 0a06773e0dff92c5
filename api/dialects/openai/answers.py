"""The parts of answers that OpenAI's three APIs share, spelled as in its reference.

https://platform.openai.com/docs/api-reference. Any thread.
"""

from typing import Annotated, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from api.dialects.shared.answers.report import FullstopReport

FinishReason = Literal["stop", "length", "tool_calls", "function_call"]
ErrorType = Literal["invalid_request_error", "permission_error", "rate_limit_error", "server_error"]


class ErrorFields(TypedDict):
    """The fields of an error; all four are always present."""

    message: str
    type: ErrorType
    param: Annotated[str | None, Field(description="the field that is wrong")]
    code: str | None


class ErrorAnswer(TypedDict):
    """An error, in a body and in a stream."""

    error: ErrorFields


class PromptTokensDetails(TypedDict):
    """How many of the prompt's tokens came from the cache."""

    cached_tokens: int


class CompletionTokensDetails(TypedDict):
    """Details of the answer's tokens, and of the request's prediction."""

    reasoning_tokens: int
    accepted_prediction_tokens: Annotated[
        int, Field(description="tokens guessed from the prediction that are in the answer")
    ]
    rejected_prediction_tokens: Annotated[
        int,
        Field(
            description="tokens guessed from the prediction that the model did not "
            "sample; they are not counted in completion_tokens"
        ),
    ]


class CompletionUsage(TypedDict):
    """Tokens over all choices."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptTokensDetails
    completion_tokens_details: CompletionTokensDetails


class CalledFunctionAnswer(TypedDict):
    """A function's name and its arguments as JSON text."""

    name: str
    arguments: str


class CallAnswer(TypedDict):
    """A call for the client to make."""

    id: str
    type: Literal["function"]
    function: CalledFunctionAnswer


class CalledCustomAnswer(TypedDict):
    """A custom tool's name and its input."""

    name: str
    input: str


class CustomCallAnswer(TypedDict):
    """A call of a custom tool for the client to make."""

    id: str
    type: Literal["custom"]
    custom: CalledCustomAnswer


class CalledFunctionDelta(TypedDict):
    """A function's name, or more of its arguments."""

    name: NotRequired[str]
    arguments: str


class CalledCustomDelta(TypedDict):
    """A custom tool's name, or more of its input."""

    name: NotRequired[str]
    input: str


class CallDelta(TypedDict):
    """New content of a call in a stream; its first chunk has its id, type and name."""

    index: int
    id: NotRequired[str]
    type: NotRequired[Literal["function", "custom"]]
    function: NotRequired[CalledFunctionDelta]
    custom: NotRequired[CalledCustomDelta]


class LikelyToken(TypedDict):
    """A token and how likely it was."""

    token: str
    logprob: float
    bytes: list[int]


class TokenLogprob(LikelyToken):
    """A token of the answer, and the likeliest tokens at its position."""

    top_logprobs: list[LikelyToken]


class ChoiceEnding(TypedDict):
    """How a choice ended; all fields but the first are absent until it has."""

    finish_reason: FinishReason | None
    matched_stop: NotRequired[
        Annotated[
            str | int | None, Field(description="the stop that matched: a string or a token id")
        ]
    ]
    stop_reason: NotRequired[
        Annotated[str | int | None, Field(description="the same as matched_stop")]
    ]
    fullstop: NotRequired[FullstopReport]


class PromptLogprob(TypedDict):
    """A candidate token at a position of the prompt; the likeliest has rank 1."""

    logprob: float
    rank: int
    decoded_token: str


# For each position of the prompt, by token id: its own token and the likeliest ones.
PromptLogprobs = list[dict[str, PromptLogprob] | None]

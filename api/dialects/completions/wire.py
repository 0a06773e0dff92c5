"""Completions' requests and answers, spelled as in OpenAI's reference and its open relatives.

https://platform.openai.com/docs/api-reference/completions
Only the shapes: ``read`` knows what a request means, ``write`` makes the answers. Unknown fields
are ignored. Any thread.
"""

from typing import Annotated, Any, Literal, NotRequired

from pydantic import BeforeValidator, Field, WithJsonSchema
from pydantic_core import PydanticCustomError
from typing_extensions import TypedDict

from api.dialects.openai.answers import ChoiceEnding, CompletionUsage, ErrorAnswer
from api.dialects.openai.parameters import ScoringParams, StreamOptions
from api.dialects.openai.prompt_logprobs import PromptLogprobs


def _as_prompts(value: Any) -> Any:
    """Read one prompt as a list of one."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, list) and value:
        if _are_ids(value):
            return [value]
        if all(isinstance(one, str) for one in value) or all(_are_ids(one) for one in value):
            return value
    raise PydanticCustomError(
        "prompt_type",
        "must be a string, a list of strings, a list of token ids or a list of such lists",
    )


def _are_ids(value: Any) -> bool:
    if not isinstance(value, list) or not value:
        return False
    return all(type(one) is int or (type(one) is float and one.is_integer()) for one in value)


_IDS = {"type": "array", "items": {"type": "integer"}, "minItems": 1}
_PROMPT = WithJsonSchema(
    {
        "anyOf": [
            {"type": "string"},
            {"type": "array", "items": {"type": "string"}, "minItems": 1},
            _IDS,
            {"type": "array", "items": _IDS, "minItems": 1},
        ]
    }
)


class CompletionParams(ScoringParams):
    """``POST /v1/completions``."""

    prompt: Annotated[list[str | list[int]], BeforeValidator(_as_prompts), _PROMPT]
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

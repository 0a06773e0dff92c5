"""The types of ``/generate``, spelled as in SGLang's reference.

https://docs.sglang.ai/basic_usage/native_api.html
Only the shapes: ``read`` knows what a request means, ``dialect`` makes the answers. Unknown fields
are ignored. Any thread.
"""

from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from api.dialects.shared.answers import FullstopReport
from api.dialects.shared.body import WireModel
from api.dialects.shared.parameters import (
    STOPS,
    FullstopOptions,
    MaxTokensOrNone,
    with_sampling,
    with_stop_options,
)

MAX_PROMPTS = 128

_Count = Annotated[int, Field(ge=0)]
_Name = Annotated[str, Field(max_length=256)]


@with_stop_options("SGLang")
@with_sampling("SGLang")
class SamplingParams(WireModel):
    """Sampling and stop parameters of one prompt."""

    # The reference's default: clients that leave the field out expect a short answer.
    max_new_tokens: MaxTokensOrNone | None = 128
    stop: Annotated[Any, STOPS] = None
    stop_token_ids: list[int] | None = None
    n: int | None = Field(default=None, ge=1, le=MAX_PROMPTS)
    # JSON text in the reference; some clients send the schema itself.
    json_schema: str | dict[str, Any] | None = None
    regex: str | None = None
    ebnf: str | None = None


class GenerateParams(WireModel):
    """``POST /generate``: one prompt or a list of them, as text or as token ids."""

    text: str | Annotated[list[str], Field(min_length=1, max_length=MAX_PROMPTS)] | None = None
    input_ids: (
        Annotated[list[int], Field(min_length=1)]
        | Annotated[
            list[Annotated[list[int], Field(min_length=1)]],
            Field(min_length=1, max_length=MAX_PROMPTS),
        ]
        | None
    ) = None
    sampling_params: SamplingParams | list[SamplingParams] | None = None
    stream: bool | None = None
    # Every frame of a stream repeats it.
    rid: _Name | list[_Name] | None = None
    return_logprob: bool | None = None
    # One value for all prompts, or a list with one for each.
    logprob_start_len: int | list[int] | None = None
    top_logprobs_num: _Count | list[_Count] | None = None
    token_ids_logprob: list[int] | list[list[int]] | None = None
    return_text_in_logprobs: bool | None = None
    fullstop: FullstopOptions | None = None


# -- answers ----------------------------------------------------------------------------------


class SglangErrorFields(TypedDict):
    """What went wrong."""

    message: str
    type: str
    param: Annotated[str | None, Field(description="the field that is wrong")]
    code: Annotated[int, Field(description="the HTTP status")]


class SglangErrorAnswer(TypedDict):
    """The body of an error."""

    error: SglangErrorFields


class Stopped(TypedDict):
    """The answer ended by itself, or at a stop."""

    type: Literal["stop"]
    matched: str | int | None


class OutOfLength(TypedDict):
    """The answer reached a limit."""

    type: Literal["length"]
    length: int


class Aborted(TypedDict):
    """The answer was aborted."""

    type: Literal["abort"]
    message: str


GenerateFinish = Stopped | OutOfLength | Aborted
Likelihood = tuple[float | None, int, str | None]
"""The log-probability of a token, its id, and its text if requested.

The first token of a prompt has no log-probability.
"""


class GenerateMeta(TypedDict):
    """``meta_info`` of an answer."""

    id: str
    finish_reason: Annotated[GenerateFinish, Field(discriminator="type")] | None
    matched_stop: str | int | None
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    e2e_latency: NotRequired[Annotated[float, Field(description="in seconds, at the end")]]
    input_token_logprobs: NotRequired[list[Likelihood]]
    input_top_logprobs: NotRequired[list[list[Likelihood] | None]]
    input_token_ids_logprobs: NotRequired[list[list[Likelihood] | None]]
    normalized_prompt_logprob: NotRequired[
        Annotated[float | None, Field(description="the mean over input_token_logprobs")]
    ]
    output_token_logprobs: NotRequired[list[Likelihood]]
    output_top_logprobs: NotRequired[list[list[Likelihood]]]
    output_token_ids_logprobs: NotRequired[list[list[Likelihood]]]


class GenerateAnswer(TypedDict):
    """One answer; in a stream, the answer so far."""

    text: Annotated[str, Field(description="all text so far, without the stop")]
    output_ids: list[int]
    meta_info: GenerateMeta
    index: NotRequired[Annotated[int, Field(description="in the stream of several answers")]]
    error: NotRequired[SglangErrorFields]
    fullstop: NotRequired[FullstopReport]


# One answer to one prompt; several prompts, or several answers to one, make a list.
GenerateAnswers = GenerateAnswer | list[GenerateAnswer]
# One event of a stream, before the last, which is ``[DONE]``.
GenerateEvent = GenerateAnswer | SglangErrorAnswer


class FlushedCache(TypedDict):
    """``/flush_cache``."""

    success: Literal[True]
    message: str
    flushed_prompts: int
    freed_bytes: int


class SglangState(TypedDict):
    """What a server is doing now."""

    running: int
    waiting: int
    cached_prompts: int
    cached_bytes: int


class SglangServer(TypedDict):
    """``GET /server_info``, with those of SGLang's fields that apply here."""

    model_path: str
    tokenizer_path: str
    served_model_name: str
    context_length: int
    version: Annotated[str, Field(description="of this server")]
    internal_states: list[SglangState]


class SglangModel(TypedDict):
    """``GET /get_model_info``."""

    model_path: str
    tokenizer_path: str
    is_generation: bool
    preferred_sampling_params: None
    max_context_length: int
    vocab_size: int
    model_type: str

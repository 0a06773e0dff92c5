"""The types of ``/generate``, spelled as in SGLang's reference.

https://docs.sglang.ai/basic_usage/native_api.html
"""

from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from api.dialects.shared.answers import FullstopReport
from api.dialects.shared.parameters import (
    STOPS,
    Biases,
    MaxTokensOrNone,
    MinTokens,
    OwnOptions,
    Penalty,
    Probability,
    Seed,
    Temperature,
    TopK,
)
from api.dialects.shared.parsing import WireModel

MAX_PROMPTS = 128


class SamplingParams(WireModel):
    """Sampling and stop parameters of the prompts."""

    temperature: Temperature | None = None
    top_p: Probability | None = None
    top_k: TopK | None = None
    min_p: Probability | None = None
    repetition_penalty: Annotated[float, Field(ge=0.01, le=2, allow_inf_nan=False)] | None = None
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    logit_bias: Biases | None = None
    xtc_probability: Probability | None = None
    xtc_threshold: Probability | None = None
    seed: Seed | None = None
    sampling_seed: Seed | None = None
    no_stop_trim: bool | None = None
    ignore_eos: bool | None = None
    min_new_tokens: MinTokens | None = None
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
    image_data: str | list[Any] | None = None
    lora_path: str | None = None
    sampling_params: SamplingParams | None = None
    stream: bool | None = None
    # Every frame of a stream repeats it.
    rid: Annotated[str, Field(max_length=256)] | None = None
    return_logprob: bool | None = None
    logprob_start_len: int | None = None
    top_logprobs_num: Annotated[int, Field(ge=0, le=20)] | None = None
    return_text_in_logprobs: bool | None = None
    fullstop: OwnOptions


# What went wrong: message, type, param (the wrong field) and code (the HTTP status).
SglangError = dict[str, str | int | None]


class GenerateFinish(TypedDict):
    """Why an answer ended: by itself or at a stop, at a limit, or aborted."""

    type: Literal["stop", "length", "abort"]
    matched: NotRequired[str | int | None]
    length: NotRequired[int]
    message: NotRequired[str]


# The log-probability of a token (None for the first of a prompt), its id, its text if requested.
TokenLogprob = tuple[float | None, int, str | None]


class GenerateMeta(TypedDict):
    """``meta_info`` of an answer."""

    id: str
    finish_reason: GenerateFinish | None
    matched_stop: str | int | None
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    e2e_latency: NotRequired[Annotated[float, Field(description="in seconds, at the end")]]
    input_token_logprobs: NotRequired[list[TokenLogprob]]
    input_top_logprobs: NotRequired[list[list[TokenLogprob] | None]]
    output_token_logprobs: NotRequired[list[TokenLogprob]]
    output_top_logprobs: NotRequired[list[list[TokenLogprob]]]


class GenerateAnswer(TypedDict):
    """One answer; in a stream, the answer so far."""

    text: Annotated[str, Field(description="all text so far, without the stop")]
    output_ids: list[int]
    meta_info: GenerateMeta
    index: NotRequired[Annotated[int, Field(description="in the stream of several answers")]]
    error: NotRequired[SglangError]
    fullstop: NotRequired[FullstopReport]


# One answer to one prompt; several prompts, or several answers to one, make a list.
GenerateAnswers = GenerateAnswer | list[GenerateAnswer]

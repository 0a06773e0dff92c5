"""The shared parts of requests and answers of OpenAI's three APIs, spelled as in its reference.

https://platform.openai.com/docs/api-reference
Only the shapes. Unknown fields of requests are ignored. Any thread.
"""

from typing import Annotated, Any, Literal, NotRequired

from pydantic import BeforeValidator, Field, WithJsonSchema
from pydantic_core import PydanticCustomError
from typing_extensions import TypedDict

from api.dialects.shared.answers import FullstopReport
from api.dialects.shared.parameters import (
    STOPS,
    Biases,
    ChatTemplateKwargs,
    MaxTokens,
    MinTokens,
    ModelName,
    OwnOptions,
    Penalty,
    Probability,
    RepetitionParams,
    RepetitionPenalty,
    Seed,
    Temperature,
    TopK,
)
from api.dialects.shared.parsing import WireModel

# JSON schemas for fields that accept any type; their readers check them.
TOOL_CHOICE = WithJsonSchema(
    {"anyOf": [{"enum": ["none", "auto", "required"]}, {"type": "object"}, {"type": "null"}]}
)
SCHEMA_OR_TEXT = WithJsonSchema(
    {"anyOf": [{"type": "object"}, {"type": "string"}, {"type": "null"}]}
)
FORMAT_TYPE = WithJsonSchema(
    {"enum": ["text", "json_object", "json_schema", "json", "regex", "grammar"]}
)


def _as_prompts(value: Any) -> Any:
    """Read one prompt as a list of one."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, list) and value:
        if _are_ids(value):
            return [value]
        if all(isinstance(item, str) for item in value) or all(_are_ids(item) for item in value):
            return value
    raise PydanticCustomError(
        "prompt_type",
        "must be a string, a list of strings, a list of token ids or a list of such lists",
    )


def _are_ids(value: Any) -> bool:
    if not isinstance(value, list) or not value:
        return False
    return all(type(item) is int or (type(item) is float and item.is_integer()) for item in value)


# A prompt or several, each as text or as token ids.
Prompts = Annotated[
    list[str | list[int]],
    BeforeValidator(
        _as_prompts, json_schema_input_type=str | list[str] | list[int] | list[list[int]]
    ),
    Field(min_length=1),
]


# How long a model stays loaded without requests, as LM Studio spells it.
IdleSeconds = Annotated[float, Field(ge=0, le=1e8, allow_inf_nan=False)]


class RefusalPart(WireModel):
    """``{"type": "refusal"}`` of an earlier answer."""

    type: Literal["refusal"]
    refusal: str


class StreamOptions(WireModel):
    """What a stream includes in addition to the answer."""

    include_usage: bool | None = None


class StructuredOutputs(WireModel):
    """``structured_outputs``, the output format as vLLM spells it."""

    json_schema: Annotated[Any, SCHEMA_OR_TEXT] = Field(default=None, alias="json")
    json_object: bool | None = None
    disable_additional_properties: bool | None = None
    regex: str | None = None
    choice: list[str] | None = None
    grammar: str | None = None


class ResponseFormat(WireModel):
    """``response_format``, the output format; a schema stands where a vendor puts it.

    OpenAI: ``json_schema.schema``; llama.cpp, Together, Fireworks: ``schema`` beside any type; TGI:
    ``value``, with the types ``json`` and ``regex``, too.
    """

    type: Annotated[str, FORMAT_TYPE]
    json_schema: dict[str, Any] | None = None
    plain_schema: dict[str, Any] | None = Field(default=None, alias="schema")
    strict: bool | None = None
    value: Annotated[Any, SCHEMA_OR_TEXT] = None
    pattern: str | None = None
    grammar: str | None = None


class GenerationParams(WireModel):
    """How an answer is sampled, where it stops, and whether it is streamed."""

    model: ModelName = ""
    stream: bool | None = None
    stop: Annotated[Any, STOPS] = None
    temperature: Temperature | None = None
    top_p: Probability | None = None
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    logit_bias: Biases | None = None
    seed: Seed | None = None
    # Accepted beyond the reference, as open servers spell them.
    top_k: TopK | None = None
    min_p: Probability | None = None
    repeat_penalty: RepetitionPenalty | None = None
    repetition_penalty: RepetitionPenalty | None = None
    xtc_probability: Probability | None = None
    xtc_threshold: Probability | None = None
    include_stop_str_in_output: bool | None = None
    ignore_eos: bool | None = None
    min_tokens: MinTokens | None = None
    repetition_detection: RepetitionParams | None = None
    enable_thinking: bool | None = None
    thinking_budget: int | None = Field(default=None, ge=-1)
    thinking_token_budget: int | None = Field(default=None, ge=-1)
    chat_template_kwargs: ChatTemplateKwargs | None = None
    stop_token_ids: list[int] | None = None
    response_format: ResponseFormat | None = None
    # llama.cpp's and Ollama's.
    json_schema: Annotated[Any, SCHEMA_OR_TEXT] = None
    format: Annotated[Any, SCHEMA_OR_TEXT] = None
    guided_json: Annotated[Any, SCHEMA_OR_TEXT] = None
    guided_regex: str | None = None
    guided_choice: list[str] | None = None
    guided_grammar: str | None = None
    regex: str | None = None
    ebnf: str | None = None
    grammar: str | None = None
    structured_outputs: StructuredOutputs | None = None
    ttl: IdleSeconds | None = None
    fullstop: OwnOptions


class ChoicesParams(GenerationParams):
    """The same for APIs that return several choices, and the logprobs of a prompt."""

    # An adapter of the model, as mlx_lm.server spells it.
    adapters: str | None = None

    n: int | None = Field(default=None, ge=1, le=128)
    best_of: int | None = Field(default=None, ge=1)
    stream_options: StreamOptions | None = None
    # As vLLM spells it.
    prompt_logprobs: int | None = Field(default=None, ge=0, le=20)


class ConversationParams(GenerationParams):
    """The same for APIs whose prompts are conversations."""

    max_tokens: MaxTokens | None = None
    max_completion_tokens: MaxTokens | None = None
    top_logprobs: int | None = Field(default=None, ge=0, le=20)
    tool_choice: Annotated[Any, TOOL_CHOICE] = None
    parallel_tool_calls: bool | None = None
    reasoning_effort: str | None = None
    # Whether the answer continues a last turn of the assistant, as vLLM spells it.
    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None


class CustomFormat(WireModel):
    """The format of a custom tool's input; Chat Completions puts a grammar one level deeper."""

    type: str = "grammar"
    syntax: str | None = None
    definition: str | None = None
    grammar: "CustomFormat | None" = None


FinishReason = Literal["stop", "length", "repetition", "tool_calls", "function_call"]
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


class TokenDetails(TypedDict, total=False):
    """How many tokens of a prompt or of an answer were of some kind."""

    cached_tokens: int
    cache_write_tokens: int
    reasoning_tokens: int
    accepted_prediction_tokens: Annotated[
        int, Field(description="draft tokens from the prediction that are in the answer")
    ]
    rejected_prediction_tokens: Annotated[
        int,
        Field(
            description="draft tokens from the prediction that the model did not "
            "sample; they are not counted in completion_tokens"
        ),
    ]


class CompletionUsage(TypedDict):
    """Tokens over all choices."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: NotRequired[TokenDetails]
    completion_tokens_details: NotRequired[TokenDetails]


class CallAnswer(TypedDict):
    """A call for the client to make: a function's arguments, or a custom tool's input."""

    id: str
    type: Literal["function", "custom"]
    function: NotRequired[dict[Literal["name", "arguments"], str]]
    custom: NotRequired[dict[Literal["name", "input"], str]]


class TokenLogprob(TypedDict):
    """How likely a token was; one of the answer also has the likeliest at its position."""

    token: str
    logprob: float
    bytes: list[int]
    top_logprobs: NotRequired[list["TokenLogprob"]]


class ChoiceEnding(TypedDict):
    """How a choice ended; all fields but the first are absent until it has."""

    finish_reason: FinishReason | None
    matched_stop: NotRequired[
        Annotated[
            str | int | None, Field(description="the stop that matched: a string or a token id")
        ]
    ]
    stop_reason: NotRequired[
        Annotated[
            str | int | None,
            Field(description="the same; repetition_detected where a cycle ended it"),
        ]
    ]
    fullstop: NotRequired[FullstopReport]


# For each position of the prompt, by token id: its own token and the likeliest ones, with their
# ``logprob``, ``rank`` (1 for the likeliest) and ``decoded_token``.
PromptLogprobs = list[dict[str, dict[str, float | str]] | None]


# https://platform.openai.com/docs/api-reference/embeddings
class EmbeddingParams(WireModel):
    """``POST /v1/embeddings``."""

    model: ModelName = ""
    texts: Prompts = Field(alias="input")
    dimensions: int | None = Field(default=None, ge=1)
    encoding_format: Literal["float", "base64"] | None = None
    ttl: IdleSeconds | None = None


class EmbeddingAnswer(TypedDict):
    """The answer of ``POST /v1/embeddings``."""

    object: Literal["list"]
    data: Annotated[
        list[dict[Literal["object", "index", "embedding"], str | int | list[float]]],
        Field(description="vectors: numbers, or their 32-bit floats (little-endian) in base64"),
    ]
    model: str
    usage: dict[str, int]

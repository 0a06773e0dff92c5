"""Chat Completions' requests and answers, spelled as in OpenAI's reference and its open relatives.

https://platform.openai.com/docs/api-reference/chat
Only the shapes: ``chat_read`` converts requests, ``chat_write`` makes the answers. Unknown fields
are ignored. Any thread.
"""

from typing import Annotated, Any, ClassVar, Literal, NotRequired

from pydantic import Field, WithJsonSchema
from typing_extensions import TypedDict

from api.dialects.openai.wire import (
    CallAnswer,
    ChoiceEnding,
    ChoicesParams,
    CompletionUsage,
    ConversationParams,
    CustomFormat,
    PromptLogprobs,
    RefusalPart,
    TokenLogprob,
)
from api.dialects.shared.parameters import MaxTokens, ModelName
from api.dialects.shared.parsing import WireModel
from api.dialects.shared.requests import (
    FunctionParam,
    TextPart,
    text_or,
)
from engine.values.events import PromptPart

# What ``tool_choice`` was called before there were tools; ``read`` checks it.
FUNCTION_CALL = WithJsonSchema(
    {"anyOf": [{"enum": ["none", "auto"]}, {"type": "object"}, {"type": "null"}]}
)


class MediaPart(WireModel):
    """An image, a file, a recording or a film, as OpenAI and vLLM spell them."""

    type: Literal["image_url", "input_image", "file", "input_audio", "audio_url", "video_url"]
    image_url: Any = None
    file: Any = None


InputPart = Annotated[TextPart | MediaPart, Field(discriminator="type")]


class ReasoningPart(WireModel):
    """Reasoning before an earlier answer, as Mistral and some gateways spell it."""

    type: Literal["thinking", "reasoning"]
    thinking: Any = None
    reasoning: Any = None
    text: Any = None


AnswerPart = Annotated[TextPart | RefusalPart | ReasoningPart, Field(discriminator="type")]


class TextMessage(WireModel):
    """Instructions, under their old and their new name, or the user's turn."""

    role: Literal["system", "developer", "user"]
    name: str | None = None
    content: Annotated[list[InputPart], text_or(list[InputPart])]


class CalledToolParam(WireModel):
    """The called function and its arguments, or the called custom tool and its input."""

    name: str
    # JSON text; some clients send the object itself.
    arguments: str | dict[str, Any] | None = None
    input: str = ""


class ChatCallParam(WireModel):
    """A call that an earlier answer made."""

    id: str
    type: Literal["function", "custom"] = "function"
    function: CalledToolParam | None = None
    custom: CalledToolParam | None = None


class AssistantMessage(WireModel):
    """An earlier answer, or the prefilled beginning of this one."""

    role: Literal["assistant"]
    name: str | None = None
    content: Annotated[list[AnswerPart], text_or(list[AnswerPart], accepts_null=True)] = Field(
        default_factory=list
    )
    # Instead of the content.
    refusal: str | None = None
    # One text under the names of DeepSeek, vLLM, Ollama, OpenRouter and LiteLLM.
    reasoning_content: str | None = None
    reasoning: Any = None
    thinking: Any = None
    reasoning_details: Any = None
    thinking_blocks: Any = None
    tool_calls: list[ChatCallParam] | None = None
    function_call: CalledToolParam | None = None


class ToolMessage(WireModel):
    """The result of a call: by its id or, in the older form, by the name of the function."""

    role: Literal["tool", "function"]
    tool_call_id: str | None = None
    name: str | None = None
    content: Annotated[list[InputPart], text_or(list[InputPart], accepts_null=True)] = Field(
        default_factory=list
    )


ChatTurn = Annotated[
    TextMessage | AssistantMessage | ToolMessage,
    Field(discriminator="role"),
]


class CustomParam(WireModel):
    """A tool whose input is a text."""

    name: str = Field(min_length=1)
    description: str | None = None
    format: CustomFormat | None = None


class ChatTool(WireModel):
    """A tool: a function or a custom tool; others are left out."""

    function_types: ClassVar = ("function", "custom")

    type: str = "function"
    function: FunctionParam | None = None
    custom: CustomParam | None = None


class Prediction(WireModel):
    """Text to repeat: https://platform.openai.com/docs/guides/predicted-outputs."""

    type: Literal["content"]
    content: Annotated[list[TextPart], text_or(list[TextPart])]


class GatewayReasoning(WireModel):
    """Whether the model reasons, and whether the answer includes it, as gateways spell it."""

    effort: str | None = None
    max_tokens: int | None = Field(default=None, ge=-1)
    enabled: bool | None = None
    exclude: bool | None = None


class ChatCompletionParams(ConversationParams, ChoicesParams):
    """``POST /v1/chat/completions``."""

    messages: list[ChatTurn] = Field(min_length=1)
    # Accepted beyond the reference, as open servers spell it.
    max_new_tokens: MaxTokens | None = None
    n_predict: MaxTokens | None = None
    logprobs: bool | None = None
    tools: list[ChatTool] | None = None
    functions: list[FunctionParam] | None = None
    function_call: Annotated[Any, FUNCTION_CALL] = None
    prediction: Prediction | None = None
    modalities: list[str] | None = None
    reasoning: GatewayReasoning | None = None
    # vLLM's and OpenRouter's switch for the text of the reasoning in the answer.
    include_reasoning: bool | None = None


class AnswerMessage(TypedDict):
    """The answer of one choice."""

    role: Literal["assistant"]
    content: str | None
    refusal: None
    reasoning_content: NotRequired[str]
    tool_calls: NotRequired[list[CallAnswer]]
    function_call: NotRequired[dict[Literal["name", "arguments"], str]]


class ChatChoice(ChoiceEnding):
    """One choice."""

    index: int
    message: AnswerMessage
    logprobs: dict[str, list[TokenLogprob] | None] | None


class ChatCompletion(TypedDict):
    """The answer of ``POST /v1/chat/completions``."""

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[ChatChoice]
    usage: CompletionUsage
    prompt_logprobs: NotRequired[PromptLogprobs]


class TokenizeParams(ChatCompletionParams):
    """``POST /tokenize``: a text, or the body of a request of Chat Completions.

    llama.cpp's clients send ``content``.
    """

    prompt: str | None = None
    content: str | None = None
    add_special: bool | None = None
    parse_special: bool | None = None
    with_pieces: bool | None = None
    messages: list[ChatTurn] = Field(default_factory=list)
    add_special_tokens: bool | None = None
    return_token_strs: bool | None = None


class DetokenizeParams(WireModel):
    """``POST /detokenize``."""

    model: ModelName = ""
    tokens: list[int]


class DetokenizeAnswer(TypedDict):
    """The text of tokens, as vLLM spells it, and as llama.cpp does."""

    prompt: str
    content: str


class PromptSpan(TypedDict):
    """The text of one part, from ``start`` to ``end`` in characters of the prompt's text."""

    part: PromptPart
    field: str
    start: int
    end: int


class PromptParts(TypedDict):
    """What became of the parts of a request; ``prompt`` is the prompt's text."""

    prompt: NotRequired[str]
    not_in_prompt: Annotated[
        list[str],
        Field(description="the parts of the request that are in no part of the prompt"),
    ]
    parts: Annotated[
        list[PromptSpan],
        Field(description="the others in their order; empty where their places are not known"),
    ]
    no_effect: Annotated[
        list[str],
        Field(description="fields, tools and options of the request that change nothing"),
    ]


class RenderedChat(TypedDict):
    """The prompt of a Chat request, as vLLM's GenerateRequest."""

    request_id: str
    token_ids: list[int]
    features: None
    sampling_params: dict[str, Any]
    model: str
    stream: bool
    cache_salt: None
    priority: int
    fullstop: PromptParts


class AppliedTemplate(TypedDict):
    """The prompt of a Chat request as text."""

    prompt: str
    fullstop: PromptParts


class TokenizeAnswer(TypedDict):
    """The tokens of a prompt."""

    count: int
    max_model_len: Annotated[int, Field(description="tokens that the model's context holds")]
    tokens: list[int]
    token_strs: Annotated[list[str] | None, Field(description="their texts, if requested")]

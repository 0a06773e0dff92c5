"""The Chat Completions request types, spelled as in OpenAI's reference and its open relatives.

Only shapes: what they mean is ``convert``'s business. Unknown fields are ignored. Any thread.
"""

from typing import Annotated, Any, Literal

from pydantic import Field

from api.body import WireModel
from api.content import TEXT_OR_PARTS, TEXT_OR_PARTS_OR_NULL
from api.extension import FullstopOptions


class TextPart(WireModel):
    """``{"type": "text"}``."""

    type: Literal["text"]
    text: str


class RefusalPart(WireModel):
    """``{"type": "refusal"}`` of an earlier answer."""

    type: Literal["refusal"]
    refusal: str


Text = Annotated[list[Annotated[TextPart, Field(discriminator="type")]], TEXT_OR_PARTS]
AnswerPart = Annotated[TextPart | RefusalPart, Field(discriminator="type")]


class SystemMessage(WireModel):
    """Instructions, under their old and their new name."""

    role: Literal["system", "developer"]
    content: Text


class UserMessage(WireModel):
    """A person's turn."""

    role: Literal["user"]
    content: Text


class FunctionCall(WireModel):
    """What was called, and with what (JSON text)."""

    name: str
    arguments: str


class ToolCallParam(WireModel):
    """A call that an earlier answer made."""

    id: str
    type: Literal["function"] = "function"
    function: FunctionCall


class AssistantMessage(WireModel):
    """An earlier answer, or the beginning of this one."""

    role: Literal["assistant"]
    content: Annotated[list[AnswerPart], TEXT_OR_PARTS_OR_NULL] = Field(default_factory=list)
    reasoning_content: str | None = None
    tool_calls: list[ToolCallParam] | None = None


class ToolMessage(WireModel):
    """What a call came to."""

    role: Literal["tool"]
    tool_call_id: str
    content: Text


ChatMessage = Annotated[
    SystemMessage | UserMessage | AssistantMessage | ToolMessage, Field(discriminator="role")
]


class FunctionParam(WireModel):
    """A function that the client runs."""

    name: str = Field(min_length=1)
    description: str | None = None
    parameters: dict[str, Any] | None = None


class ToolParam(WireModel):
    """A tool; only functions can be offered to a model here."""

    type: Literal["function"] = "function"
    function: FunctionParam


class ResponseFormat(WireModel):
    """The form of the output."""

    type: str


class StreamOptions(WireModel):
    """What a stream carries beside the answer."""

    include_usage: bool | None = None


class ChatTemplateKwargs(WireModel):
    """Switches of the chat template, as open servers take them."""

    enable_thinking: bool | None = None


_Penalty = Annotated[float, Field(ge=-2, le=2, allow_inf_nan=False)]
_Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


class ChatCompletionParams(WireModel):
    """``POST /v1/chat/completions``."""

    model: str
    messages: list[ChatMessage] = Field(min_length=1)
    max_tokens: int | None = Field(default=None, ge=1)
    max_completion_tokens: int | None = Field(default=None, ge=1)
    n: int | None = Field(default=None, ge=1, le=128)
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    # A string, a list or null: checked by the rule that all surfaces share.
    stop: Any = None
    temperature: float | None = Field(default=None, ge=0, le=2, allow_inf_nan=False)
    top_p: _Share | None = None
    presence_penalty: _Penalty | None = None
    frequency_penalty: _Penalty | None = None
    logit_bias: dict[str, Annotated[float, Field(ge=-100, le=100)]] | None = None
    seed: int | None = Field(default=None, ge=-(2**63), lt=2**63)
    logprobs: bool | None = None
    top_logprobs: int | None = None
    tools: list[ToolParam] | None = None
    tool_choice: Any = None
    parallel_tool_calls: bool | None = None
    functions: list[Any] | None = None
    response_format: ResponseFormat | None = None
    modalities: list[str] | None = None
    reasoning_effort: str | None = None
    # Accepted beyond the reference, as open servers spell them.
    enable_thinking: bool | None = None
    chat_template_kwargs: ChatTemplateKwargs | None = None
    top_k: int | None = Field(default=None, ge=-1)
    min_p: _Share | None = None
    repetition_penalty: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    stop_token_ids: list[int] | None = None
    include_stop_str_in_output: bool | None = None
    ignore_eos: bool | None = None
    min_tokens: int | None = Field(default=None, ge=0)
    fullstop: FullstopOptions | None = None

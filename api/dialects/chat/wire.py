"""The Chat Completions request types, spelled as in OpenAI's reference and its open relatives.

Only shapes: what they mean is ``read``'s business. Unknown fields are ignored. Any thread.
"""

from typing import Annotated, Any, Literal

from pydantic import Field

from api.dialects.openai.parameters import (
    FORMAT_TYPE,
    TOOL_CHOICE,
    GenerationParams,
    StreamOptions,
)
from api.dialects.shared.body import WireModel
from api.dialects.shared.content import TEXT_OR_PARTS, TEXT_OR_PARTS_OR_NULL


class TextPart(WireModel):
    """``{"type": "text"}``."""

    type: Literal["text"]
    text: str


class ImagePart(WireModel):
    """``{"type": "image_url"}``."""

    type: Literal["image_url"]
    image_url: Any = None


class FilePart(WireModel):
    """``{"type": "file"}``."""

    type: Literal["file"]
    file: Any = None


class RefusalPart(WireModel):
    """``{"type": "refusal"}`` of an earlier answer."""

    type: Literal["refusal"]
    refusal: str


InputPart = Annotated[TextPart | ImagePart | FilePart, Field(discriminator="type")]
Content = Annotated[list[InputPart], TEXT_OR_PARTS]
AnswerPart = Annotated[TextPart | RefusalPart, Field(discriminator="type")]


class SystemMessage(WireModel):
    """Instructions, under their old and their new name."""

    role: Literal["system", "developer"]
    content: Content


class UserMessage(WireModel):
    """A person's turn."""

    role: Literal["user"]
    content: Content


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
    content: Content


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

    type: str = "function"
    function: FunctionParam | None = None


class JsonSchemaFormat(WireModel):
    """The schema of the output, under a name."""

    json_schema: dict[str, Any] | None = Field(default=None, alias="schema")


class ResponseFormat(WireModel):
    """The form of the output."""

    type: Annotated[str, FORMAT_TYPE]
    json_schema: JsonSchemaFormat | None = None


class ReasoningParam(WireModel):
    """Whether the model thinks first, and whether the answer shows it, as gateways spell it."""

    effort: str | None = None
    enabled: bool | None = None
    exclude: bool | None = None


class ChatCompletionParams(GenerationParams):
    """``POST /v1/chat/completions``."""

    messages: list[ChatMessage] = Field(min_length=1)
    max_tokens: int | None = Field(default=None, ge=1)
    max_completion_tokens: int | None = Field(default=None, ge=1)
    n: int | None = Field(default=None, ge=1, le=128)
    stream_options: StreamOptions | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = Field(default=None, ge=0, le=20)
    tools: list[ToolParam] | None = None
    tool_choice: Annotated[Any, TOOL_CHOICE] = None
    parallel_tool_calls: bool | None = None
    functions: list[Any] | None = None
    response_format: ResponseFormat | None = None
    modalities: list[str] | None = None
    reasoning_effort: str | None = None
    reasoning: ReasoningParam | None = None
    best_of: int | None = Field(default=None, ge=1)

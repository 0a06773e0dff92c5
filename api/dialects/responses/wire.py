"""The Responses request types, spelled as in OpenAI's reference.

https://platform.openai.com/docs/api-reference/responses
Only shapes: what they mean is ``read``'s business. Unknown fields are ignored. Any thread.
"""

from typing import Annotated, Any, Literal

from pydantic import Field
from pydantic_core import PydanticCustomError

from api.dialects.openai.parameters import FORMAT_TYPE, TOOL_CHOICE, GenerationParams
from api.dialects.shared.body import WireModel
from api.dialects.shared.parameters.content import RefusalPart, TextOr, TextPart


class InputTextPart(WireModel):
    """``{"type": "input_text"}``."""

    type: Literal["input_text"]
    text: str


class InputImagePart(WireModel):
    """``{"type": "input_image"}``."""

    type: Literal["input_image"]
    image_url: Any = None


class InputFilePart(WireModel):
    """``{"type": "input_file"}``."""

    type: Literal["input_file"]
    file_data: Any = None


class OutputTextPart(WireModel):
    """``{"type": "output_text"}`` of an earlier answer."""

    type: Literal["output_text"]
    text: str


Part = Annotated[
    InputTextPart | InputImagePart | InputFilePart | OutputTextPart | TextPart | RefusalPart,
    Field(discriminator="type"),
]


def _as_parts(value: Any) -> Any:
    if isinstance(value, str):
        return [{"type": "input_text", "text": value}]
    if isinstance(value, list):
        return value
    raise PydanticCustomError("content_type", "must be a string or a list of content parts")


Parts = Annotated[list[Part], TextOr(_as_parts)]


class MessageItem(WireModel):
    """One turn; its type may be left out."""

    type: Literal["message"] = "message"
    role: Literal["user", "assistant", "system", "developer"]
    content: Parts


class FunctionCallItem(WireModel):
    """A call that an earlier answer made."""

    type: Literal["function_call"]
    call_id: str
    name: str
    arguments: str


class FunctionCallOutputItem(WireModel):
    """The result of a call."""

    type: Literal["function_call_output"]
    call_id: str
    output: Parts


class ReasoningItem(WireModel):
    """What an earlier answer thought."""

    type: Literal["reasoning"]


Item = Annotated[
    MessageItem | FunctionCallItem | FunctionCallOutputItem | ReasoningItem,
    Field(discriminator="type"),
]


def _as_items(value: Any) -> Any:
    if isinstance(value, str):
        return [{"type": "message", "role": "user", "content": value}]
    if not isinstance(value, list):
        raise PydanticCustomError("input_type", "must be a string or a list of items")
    return [
        {**item, "type": "message"} if isinstance(item, dict) and "type" not in item else item
        for item in value
    ]


class ResponseTool(WireModel):
    """A tool; only functions can be offered to a model here."""

    type: str
    name: str | None = None
    description: str | None = None
    parameters: dict[str, Any] | None = None


class ResponseReasoning(WireModel):
    """Whether the model thinks first, and how hard."""

    effort: str | None = None


class TextFormat(WireModel):
    """The form of the output."""

    type: Annotated[str, FORMAT_TYPE]
    name: str | None = None
    description: str | None = None
    json_schema: dict[str, Any] | None = Field(default=None, alias="schema")
    strict: bool | None = None


class TextParam(WireModel):
    """How the text of the answer is to be."""

    format: TextFormat | None = None


class ResponseParams(GenerationParams):
    """``POST /v1/responses``."""

    input: Annotated[list[Item], Field(min_length=1), TextOr(_as_items)]
    instructions: str | None = None
    max_output_tokens: int | None = Field(default=None, ge=1)
    tools: list[ResponseTool] | None = None
    tool_choice: Annotated[Any, TOOL_CHOICE] = None
    parallel_tool_calls: bool | None = None
    reasoning: ResponseReasoning | None = None
    text: TextParam | None = None
    include: list[str] | None = None
    top_logprobs: int | None = Field(default=None, ge=0, le=20)
    metadata: dict[str, Any] | None = None
    previous_response_id: str | None = None
    conversation: Any = None
    prompt: Any = None
    background: bool | None = None

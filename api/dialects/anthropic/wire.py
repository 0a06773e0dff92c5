"""The Messages API's request types, spelled as in Anthropic's reference.

Only the shapes; ``read`` knows what they mean. Unknown fields are ignored. Any thread.
"""

from typing import Annotated, Any, Literal

from pydantic import Field

from api.dialects.shared.body import WireModel
from api.dialects.shared.parameters.content import TEXT_OR_PARTS, TextPart
from api.dialects.shared.parameters.extension import FullstopOptions
from api.dialects.shared.parameters.fields import ModelName
from api.dialects.shared.parameters.sampling import with_sampling
from api.dialects.shared.parameters.stops import STOP_LIST


class ImageBlock(WireModel):
    """``{"type": "image"}``."""

    type: Literal["image"]
    source: Any = None


class DocumentBlock(WireModel):
    """``{"type": "document"}``; a document that is text is read as text."""

    type: Literal["document"]
    source: Any = None
    title: str | None = None
    context: str | None = None


class SearchResultBlock(WireModel):
    """``{"type": "search_result"}``: a result of the client's search."""

    type: Literal["search_result"]
    source: str
    title: str
    content: Annotated[list[TextPart], Field(min_length=1)]


class ThinkingBlock(WireModel):
    """``{"type": "thinking"}`` of an earlier answer."""

    type: Literal["thinking"]
    thinking: str


class RedactedThinkingBlock(WireModel):
    """``{"type": "redacted_thinking"}``: only the vendor can read it."""

    type: Literal["redacted_thinking"]


class ToolUseBlock(WireModel):
    """``{"type": "tool_use"}``: a call that an earlier answer made."""

    type: Literal["tool_use"]
    id: str
    name: str
    input: dict[str, Any]


ResultBlock = Annotated[
    TextPart | ImageBlock | DocumentBlock | SearchResultBlock, Field(discriminator="type")
]


class ToolResultBlock(WireModel):
    """``{"type": "tool_result"}``: the result of a call."""

    type: Literal["tool_result"]
    tool_use_id: str
    content: Annotated[list[ResultBlock], TEXT_OR_PARTS] | None = None
    is_error: bool | None = None


ContentBlock = Annotated[
    TextPart
    | ImageBlock
    | DocumentBlock
    | SearchResultBlock
    | ThinkingBlock
    | RedactedThinkingBlock
    | ToolUseBlock
    | ToolResultBlock,
    Field(discriminator="type"),
]
TextContent = Annotated[list[TextPart], TEXT_OR_PARTS]


class MessageParam(WireModel):
    """One turn."""

    role: Literal["user", "assistant", "system"]
    content: Annotated[list[ContentBlock], TEXT_OR_PARTS]


class MessageTool(WireModel):
    """A tool that the client runs; those of other types than "custom" are the vendor's own."""

    type: str | None = None
    name: str | None = Field(default=None, min_length=1)
    description: str | None = None
    input_schema: dict[str, Any] | None = None


class ToolChoiceParam(WireModel):
    """Whether tools may or must be called."""

    type: Literal["auto", "any", "tool", "none"]
    name: str | None = None
    disable_parallel_tool_use: bool | None = None


class ThinkingParam(WireModel):
    """Whether the model thinks first, and for how many tokens at most."""

    type: Literal["enabled", "disabled", "adaptive", "between_tools"]
    budget_tokens: int | None = Field(default=None, ge=0)
    display: str | None = Field(
        default=None,
        description='"omitted" leaves the text out of the answer, any other word includes it',
    )


class OutputFormatParam(WireModel):
    """``{"type": "json_schema"}``: the schema that the answer's text must follow."""

    type: Literal["json_schema"]
    json_schema: dict[str, Any] = Field(alias="schema")


class OutputConfigParam(WireModel):
    """The format of the output, and the reasoning effort."""

    effort: str | None = None
    format: OutputFormatParam | None = None


class CountTokensParams(WireModel):
    """``POST /v1/messages/count_tokens``: the fields that determine the prompt."""

    model: ModelName = ""
    messages: list[MessageParam] = Field(min_length=1)
    system: TextContent | None = None
    tools: list[MessageTool] | None = None
    tool_choice: ToolChoiceParam | None = None
    thinking: ThinkingParam | None = None
    output_config: OutputConfigParam | None = None
    # The field's name during the API's beta.
    output_format: OutputFormatParam | None = None
    mcp_servers: list[Any] | None = None
    thread: Any = None
    # Accepted beyond the reference.
    fullstop: FullstopOptions | None = None


@with_sampling("Anthropic")
class MessageCreateParams(CountTokensParams):
    """``POST /v1/messages``."""

    max_tokens: int = Field(ge=0, description="0 only reads the prompt into the cache")
    # ``checked_strings`` checks the items, so that its errors name the index.
    stop_sequences: Annotated[list[Any] | None, STOP_LIST] = None
    stream: bool | None = None
    # Accepted beyond the reference.
    stop_token_ids: list[int] | None = None

"""The Messages API's requests, answers and events, spelled as in Anthropic's reference.

https://docs.claude.com/en/api/messages and https://docs.claude.com/en/docs/build-with-claude/streaming
"""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, NotRequired

from pydantic import Discriminator, Field, Tag, WithJsonSchema, model_validator
from pydantic.json_schema import SkipJsonSchema
from typing_extensions import TypedDict

from api.dialects.shared.answers import FullstopReport
from api.dialects.shared.foreign_parts import readable_text
from api.dialects.shared.parameters import (
    STOP_LIST,
    ChatTemplateKwargs,
    MaxTokensOrNone,
    ModelName,
    OwnOptions,
    Penalty,
    Probability,
    RepetitionPenalty,
    Seed,
    Temperature,
)
from api.dialects.shared.parsing import WireModel
from api.dialects.shared.requests import TextPart, text_or

# Blocks of tools that run on the vendor's servers, and others that only the vendor can read.
# https://docs.claude.com/en/docs/agents-and-tools/tool-use/server-tools
FOREIGN_TYPES = (
    "advisor_tool_result",
    "bash_code_execution_tool_result",
    "browser_state",
    "code_execution_tool_result",
    "compaction",
    "container_upload",
    "fallback",
    "mcp_tool_listing",
    "mcp_tool_result",
    "mcp_tool_use",
    "server_tool_use",
    "text_editor_code_execution_tool_result",
    "tool_search_tool_result",
    "web_fetch_tool_result",
    "web_search_tool_result",
)
_FOREIGN = "foreign"
# The tags by which the models of blocks are found, by the types of the blocks.
_RESULT_TAGS = {
    "document": "media",
    "image": "media",
    "search_result": "search_result",
    "text": "text",
    "tool_reference": "tool_reference",
}
_BLOCK_TAGS = {
    **_RESULT_TAGS,
    "redacted_thinking": "thinking",
    "thinking": "thinking",
    "tool_result": "tool_result",
    "tool_use": "tool_use",
    "tool_addition": "tool_change",
    "tool_removal": "tool_change",
}


class MediaBlock(WireModel):
    """``{"type": "image"}`` or ``{"type": "document"}``, which has the fields behind ``source``."""

    type: Literal["document", "image"]
    source: Any = None
    citations: Any = None
    title: str | None = None
    context: str | None = None


class SearchResultBlock(WireModel):
    """``{"type": "search_result"}``: a result of the client's search."""

    type: Literal["search_result"]
    source: str
    citations: Any = None
    title: str
    content: Annotated[list[TextPart], Field(min_length=1)]


class ThinkingBlock(WireModel):
    """``{"type": "thinking"}`` of an earlier answer; omitted text is in the signature."""

    type: Literal["redacted_thinking", "thinking"]
    thinking: str | None = None
    signature: str | None = None


class ToolUseBlock(WireModel):
    """``{"type": "tool_use"}``: an earlier call, with text as input if that was no JSON object."""

    type: Literal["tool_use"]
    id: str
    name: str
    input: Annotated[Any, WithJsonSchema({"anyOf": [{"type": "object"}, {"type": "string"}]})]


class MessageTool(WireModel):
    """A tool that the client runs; those of other types than "custom" are the vendor's own."""

    function_types: ClassVar = ("custom",)

    type: str | None = None
    name: str | None = Field(default=None, min_length=1)
    description: str | None = None
    input_schema: dict[str, Any] | None = None
    input_examples: list[dict[str, Any]] | None = None
    defer_loading: bool | None = Field(
        default=None, description="true offers the tool once a tool_reference names it"
    )


class ToolReferenceBlock(WireModel):
    """``{"type": "tool_reference"}``: a deferred tool that a search of the client has found."""

    type: Literal["tool_reference"]
    tool_name: str


class ChangedTool(WireModel):
    """A tool that a turn adds or removes: its name, or its definition."""

    name: str | None = None
    definition: MessageTool | None = None


class ToolChangeBlock(WireModel):
    """``{"type": "tool_addition"}`` or ``{"type": "tool_removal"}``: a change of the tools."""

    type: Literal["tool_addition", "tool_removal"]
    tool: ChangedTool


class ForeignBlock(WireModel):
    """The readable parts of a block of another server's tool, or of an unknown type."""

    type: Annotated[str, WithJsonSchema({"enum": list(FOREIGN_TYPES)})]
    id: str | None = None
    name: str | None = None
    tool_use_id: str | None = None
    readable: SkipJsonSchema[str] = ""
    references: SkipJsonSchema[list[str]] = Field(default_factory=list)

    @model_validator(mode="before")
    @classmethod
    def _read(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        names = {key: value.get(key) for key in ("id", "name", "tool_use_id")}
        return {
            **({"type": value["type"]} if "type" in value else {}),
            **{key: name for key, name in names.items() if isinstance(name, str)},
            "readable": readable_text(value),
            "references": _found_tools(value.get("content")),
        }


def _found_tools(result: Any) -> list[str]:
    """Return the names of the tools that a search of the vendor has found."""
    found = result.get("tool_references") if isinstance(result, dict) else None
    items = found if isinstance(found, list) else ()
    names = [item.get("tool_name") for item in items if isinstance(item, dict)]
    return [name for name in names if isinstance(name, str)]


def _tag(value: Any, tags: Mapping[str, str]) -> str:
    kind = value.get("type") if isinstance(value, dict) else getattr(value, "type", None)
    return tags.get(kind, _FOREIGN) if isinstance(kind, str) else _FOREIGN


_Foreign = Annotated[ForeignBlock, Tag(_FOREIGN)]
_Text = Annotated[TextPart, Tag("text")]
_Media = Annotated[MediaBlock, Tag("media")]
_SearchResult = Annotated[SearchResultBlock, Tag("search_result")]
_ToolReference = Annotated[ToolReferenceBlock, Tag("tool_reference")]

ResultBlock = Annotated[
    _Text | _Media | _SearchResult | _ToolReference | _Foreign,
    Discriminator(lambda value: _tag(value, _RESULT_TAGS)),
]


class ToolResultBlock(WireModel):
    """``{"type": "tool_result"}``: the result of a call."""

    type: Literal["tool_result"]
    tool_use_id: str
    content: Annotated[list[ResultBlock], text_or(list[ResultBlock])] | None = None
    is_error: bool | None = None


ContentBlock = Annotated[
    _Text
    | _Media
    | _SearchResult
    | _ToolReference
    | Annotated[ThinkingBlock, Tag("thinking")]
    | Annotated[ToolUseBlock, Tag("tool_use")]
    | Annotated[ToolResultBlock, Tag("tool_result")]
    | Annotated[ToolChangeBlock, Tag("tool_change")]
    | _Foreign,
    Discriminator(lambda value: _tag(value, _BLOCK_TAGS)),
]
TextContent = Annotated[list[TextPart], text_or(list[TextPart])]


class MessageParam(WireModel):
    """One turn."""

    role: Literal["user", "assistant", "system"]
    content: Annotated[list[ContentBlock], text_or(list[ContentBlock])] = Field(
        default_factory=list
    )
    # Of turns of the system: for how long they are shown, and settings of single turns.
    clear_at: str | None = None
    output_config: Any = None


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
    thread: Any = None
    # Accepted beyond the reference, as open servers spell them.
    enable_thinking: bool | None = None
    reasoning_effort: str | None = None
    chat_template_kwargs: ChatTemplateKwargs | None = None
    fullstop: OwnOptions


class MessageCreateParams(CountTokensParams):
    """``POST /v1/messages``."""

    max_tokens: MaxTokensOrNone = Field(description="0 only reads the prompt into the cache")
    # ``checked_strings`` checks the items, so that its errors name the index.
    stop_sequences: Annotated[list[Any] | None, STOP_LIST] = None
    cache_control: Any = None
    stream: bool | None = None
    temperature: Temperature | None = None
    top_p: Probability | None = None
    top_k: Annotated[int, Field(ge=0)] | None = None
    # Accepted beyond the reference.
    min_p: Probability | None = None
    repetition_penalty: RepetitionPenalty | None = None
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    seed: Seed | None = None
    stop_token_ids: list[int] | None = None


StopReason = Literal[
    "end_turn", "stop_sequence", "max_tokens", "model_context_window_exceeded", "tool_use"
]
MessageErrorType = Literal[
    "invalid_request_error",
    "authentication_error",
    "permission_error",
    "not_found_error",
    "timeout_error",
    "request_too_large",
    "rate_limit_error",
    "api_error",
    "overloaded_error",
]


class MessageError(TypedDict):
    """What went wrong."""

    type: MessageErrorType
    message: str
    details: NotRequired[dict[str, Any]]


class MessageErrorAnswer(TypedDict):
    """The error object, in a body and as an event."""

    type: Literal["error"]
    error: MessageError
    request_id: str


class MessageUsage(TypedDict):
    """Token counts; ``input_tokens`` does not include cached tokens."""

    input_tokens: int
    cache_creation_input_tokens: int
    cache_read_input_tokens: int
    output_tokens: int
    output_tokens_details: Annotated[
        dict[str, int], Field(description="``thinking_tokens``: those of the reasoning")
    ]


class AnswerBlock(TypedDict):
    """A block of text, of reasoning, or a call that the client is to make."""

    type: Literal["text", "thinking", "tool_use"]
    text: NotRequired[str]
    thinking: NotRequired[str]
    signature: NotRequired[str]
    id: NotRequired[str]
    name: NotRequired[str]
    input: NotRequired[dict[str, Any]]


class MessageAnswer(TypedDict):
    """The answer of ``POST /v1/messages``; without its stop it begins a stream."""

    id: str
    type: Literal["message"]
    role: Literal["assistant"]
    model: str
    content: list[AnswerBlock]
    stop_reason: StopReason | None
    stop_sequence: Annotated[str | None, Field(description="the one that matched")]
    usage: MessageUsage
    fullstop: NotRequired[FullstopReport]

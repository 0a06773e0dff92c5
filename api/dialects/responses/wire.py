"""The Responses API's requests, answers and events, spelled as in OpenAI's reference.

https://platform.openai.com/docs/api-reference/responses and
https://platform.openai.com/docs/api-reference/responses-streaming
Only the shapes: ``read`` converts requests, ``write`` makes the answers. Unknown fields are
ignored. Any thread.
"""

import json
from collections.abc import Sequence
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal, NotRequired, Self

from pydantic import (
    AliasChoices,
    BeforeValidator,
    Discriminator,
    Field,
    PrivateAttr,
    Tag,
    WithJsonSchema,
    model_validator,
)
from pydantic.json_schema import SkipJsonSchema
from pydantic_core import PydanticCustomError
from typing_extensions import TypedDict

from api.dialects.openai.wire import (
    FORMAT_TYPE,
    ConversationParams,
    CustomFormat,
    RefusalPart,
    TokenDetails,
    TokenLogprob,
)
from api.dialects.shared.answers import FullstopReport
from api.dialects.shared.foreign_parts import readable_text
from api.dialects.shared.parameters import MaxTokens
from api.dialects.shared.parsing import WireModel
from api.dialects.shared.requests import TextPart, text_or

# Conversations that began with the vendor's service or other tools contain them. A call that the
# client ran becomes a function call; of others the text is kept.
_CALLS = {
    "apply_patch_call": ("apply_patch", "operation"),
    "local_shell_call": ("shell", "action"),
    "shell_call": ("shell", "action"),
}
_RESULTS = {
    "apply_patch_call_output": ("output", "status"),
    "local_shell_call_output": ("output",),
    "shell_call_output": ("output",),
}
# Items of which the text is kept, if they have any, for the documentation.
_FOREIGN_TYPES = [
    "code_interpreter_call",
    "computer_call",
    "computer_call_output",
    "configuration_update",
    "file_search_call",
    "image_generation_call",
    "mcp_approval_request",
    "mcp_approval_response",
    "mcp_list_tools",
    "program",
    "program_output",
    "tool_search_call",
    "web_search_call",
]
# Which model has which types of parts and items; all other types have the one of foreign ones.
_FOREIGN = "foreign"
_TAGS = {
    "additional_tools": "additional_tools",
    "compaction": "sealed",
    "custom_tool_call": "call",
    "custom_tool_call_output": "call_output",
    "function_call": "call",
    "function_call_output": "call_output",
    "input_file": "media",
    "input_image": "media",
    "input_text": "text",
    "item_reference": "item_reference",
    "mcp_call": "mcp_call",
    "message": "message",
    "output_text": "text",
    "reasoning": "sealed",
    "refusal": "refusal",
    "text": "text",
    "tool_search_output": "additional_tools",
}


def _known_item(item: Any) -> Any:
    """Return an item with its type; calls of some missing tools become function calls.

    Each item remains one item, so that errors name the position that the client knows.
    """
    if not isinstance(item, dict):
        return item
    kind = item.get("type")
    if kind is None:
        is_reference = "id" in item and "role" not in item
        return {**item, "type": "item_reference" if is_reference else "message"}
    call_id = item.get("call_id") or item.get("id")
    if not isinstance(kind, str) or not isinstance(call_id, str):
        return item
    if kind in _RESULTS:
        return _result(call_id, next(filter(None, map(item.get, _RESULTS[kind])), ""))
    if kind in _CALLS:
        name, field = _CALLS[kind]
        return _call(call_id, name, {field: item.get(field)})
    return item


def _call(call_id: str, name: str, arguments: object) -> dict[str, Any]:
    text = text_or_json(arguments)
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": text}


def _result(call_id: str, output: object) -> dict[str, Any]:
    is_text = isinstance(output, list) and all(
        isinstance(part, dict) and "text" in str(part.get("type")) for part in output
    )
    text = output if is_text else text_or_json(output)
    return {"type": "function_call_output", "call_id": call_id, "output": text}


def text_or_json(value: object) -> str:
    """Return a text as it is, and any other value as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


class MediaPart(WireModel):
    """An image or a file."""

    type: Literal["input_image", "input_file"]
    image_url: Any = None
    file_data: Any = None
    filename: Any = None
    detail: str | None = None


class ForeignPart(WireModel):
    """A part of an unknown type: its text, if it has any."""

    type: str
    readable: SkipJsonSchema[str] = ""

    @model_validator(mode="before")
    @classmethod
    def _read(cls, value: Any) -> Any:
        # Stored ones have been read before.
        if not isinstance(value, dict) or isinstance(value.get("readable"), str):
            return value
        kind = {"type": value["type"]} if "type" in value else {}
        return {**kind, "readable": readable_text(value)}


def _tag(value: Any) -> str:
    """Return the tag of a part or an item, by which its model is found."""
    kind = value.get("type") if isinstance(value, dict) else getattr(value, "type", None)
    return _TAGS.get(kind, _FOREIGN) if isinstance(kind, str) else _FOREIGN


Part = Annotated[
    Annotated[TextPart, Tag("text")]
    | Annotated[MediaPart, Tag("media")]
    | Annotated[RefusalPart, Tag("refusal")]
    | SkipJsonSchema[Annotated[ForeignPart, Tag(_FOREIGN)]],
    Discriminator(_tag),
]


Parts = Annotated[list[Part], text_or(list[Part], part_type="input_text")]


class MessageItem(WireModel):
    """One turn; its type may be left out."""

    type: Literal["message"] = "message"
    role: Literal["user", "assistant", "system", "developer"]
    content: Parts


class CallItem(WireModel):
    """A call that an earlier answer made: a function's arguments, or a custom tool's input."""

    type: Literal["function_call", "custom_tool_call"]
    call_id: str
    name: str
    arguments: str | None = None
    input: str | None = None
    namespace: str | None = None
    status: str | None = None


class CallOutputItem(WireModel):
    """The result of a call."""

    type: Literal["function_call_output", "custom_tool_call_output"]
    call_id: str
    output: Parts


class McpCallItem(WireModel):
    """A call that a server of the vendor's ran, with its result."""

    type: Literal["mcp_call"]
    # The id of the item itself is the one of the call; stored items have an id of their own.
    call_id: str = Field(validation_alias=AliasChoices("id", "call_id"))
    name: str
    arguments: Any = None
    output: Any = None
    error: Any = None


class ResponseTool(WireModel):
    """A tool: a function, a custom tool, or a namespace of such tools; others are left out."""

    function_types: ClassVar = ("function", "custom", "namespace")

    type: str
    name: str | None = None
    description: str | None = None
    parameters: dict[str, Any] | None = None
    format: CustomFormat | None = None
    tools: list["ResponseTool"] | None = None


class AdditionalToolsItem(WireModel):
    """More tools, which are offered beside those of the field ``tools``."""

    type: Literal["additional_tools", "tool_search_output"]
    tools: list[ResponseTool]


class SealedItem(WireModel):
    """The reasoning of an earlier answer, or the summary of a compacted conversation."""

    type: Literal["reasoning", "compaction"]
    content: list[dict[str, Any]] | None = None
    summary: list[dict[str, Any]] | None = None
    encrypted_content: str | None = None


class ItemReference(WireModel):
    """An item of an answer that the server keeps; its type may be left out."""

    type: Literal["item_reference"]
    id: str


class ForeignItem(ForeignPart):
    """An item of a tool that this server does not have, or one of an unknown type: its text."""

    type: Annotated[str, WithJsonSchema({"enum": _FOREIGN_TYPES})]


Item = Annotated[
    Annotated[MessageItem, Tag("message")]
    | Annotated[CallItem, Tag("call")]
    | Annotated[CallOutputItem, Tag("call_output")]
    | Annotated[McpCallItem, Tag("mcp_call")]
    | Annotated[AdditionalToolsItem, Tag("additional_tools")]
    | Annotated[SealedItem, Tag("sealed")]
    | Annotated[ItemReference, Tag("item_reference")]
    | Annotated[ForeignItem, Tag(_FOREIGN)],
    Discriminator(_tag),
]


def _as_items(value: Any) -> Any:
    if isinstance(value, str):
        return [{"type": "message", "role": "user", "content": value}]
    if not isinstance(value, list):
        raise PydanticCustomError("input_type", "must be a string or a list of items")
    return list(map(_known_item, value))


Items = Annotated[list[Item], BeforeValidator(_as_items, json_schema_input_type=str | list[Item])]


class ResponseReasoning(WireModel):
    """Whether and how hard the model reasons, and how the answer shows it."""

    effort: str | None = None
    summary: str | None = None
    # Its name in earlier versions of the API.
    generate_summary: str | None = None


class TextFormat(WireModel):
    """The format of the output."""

    type: Annotated[str, FORMAT_TYPE]
    name: str | None = None
    description: str | None = None
    json_schema: dict[str, Any] | None = Field(default=None, alias="schema")
    strict: bool | None = None


class TextParam(WireModel):
    """Settings of the answer's text."""

    format: TextFormat | None = None


class ResponseParams(ConversationParams):
    """``POST /v1/responses``, and the requests to count or to compact an input."""

    input: Items = Field(default_factory=list)
    instructions: str | None = None
    max_output_tokens: MaxTokens | None = None
    tools: list[ResponseTool] | None = None
    reasoning: ResponseReasoning | None = None
    text: TextParam | None = None
    include: list[str] | None = None
    metadata: dict[str, Any] | None = None
    previous_response_id: str | None = None
    store: bool | None = None
    # Repeated in the answer, and without effect on it.
    prompt_cache_key: str | None = None
    safety_identifier: str | None = None
    user: str | None = None
    # Only ``prewarm`` changes an answer.
    prompt_cache_options: dict[str, Any] | None = None
    truncation: str | None = Field(
        default=None, description='"auto" has no effect: a prompt that is too long is refused'
    )
    stream_options: Any = None
    prompt: Any = None

    # How many items at the beginning of ``input`` come from stored answers.
    _recalled: int = PrivateAttr(default=0)

    @property
    def recalled(self) -> int:
        """How many items at the beginning of ``input`` come from stored answers."""
        return self._recalled

    @property
    def needs_recall(self) -> bool:
        """Whether it continues stored answers whose items are still missing."""
        return (self.previous_response_id is not None and not self._recalled) or any(
            isinstance(item, ItemReference) for item in self.input
        )

    @cached_property
    def all_tools(self) -> list[ResponseTool]:
        """The tools of the field and those of items, each of these once."""
        tools = list(self.tools or ())
        # Comparing each with each would block the server for minutes: there can be thousands.
        known = {tool.model_dump_json() for tool in tools}
        for item in self.input:
            for tool in item.tools if isinstance(item, AdditionalToolsItem) else ():
                if (text := tool.model_dump_json()) not in known:
                    known.add(text)
                    tools.append(tool)
        return tools

    def with_recalled(self, earlier: Sequence[Item], own: Sequence[Item]) -> Self:
        """Return a copy with the items of stored answers before its own."""
        copy = self.model_copy(update={"input": [*earlier, *own]})
        copy.__dict__.pop("all_tools", None)  # cached
        copy._recalled = len(earlier)  # noqa: SLF001 - its own
        return copy

    def sent_items(self) -> tuple[str, ...]:
        return tuple(
            item.model_dump_json(by_alias=True, exclude_none=True)
            for item in self.input[self.recalled :]
        )


ResponseStatus = Literal["in_progress", "completed", "incomplete", "failed"]
ItemStatus = Literal["in_progress", "completed", "incomplete"]


class OutputPart(TypedDict):
    """Text of a message, of the reasoning, or of its summary: the reasoning itself."""

    type: Literal["output_text", "reasoning_text", "summary_text"]
    text: str
    annotations: NotRequired[list[Any]]
    logprobs: NotRequired[list[TokenLogprob]]


class OutputMessage(TypedDict):
    """Text of the answer."""

    id: str
    type: Literal["message"]
    status: ItemStatus
    role: Literal["assistant"]
    content: list[OutputPart]


class OutputReasoning(TypedDict):
    """The model's reasoning."""

    id: str
    type: Literal["reasoning"]
    status: ItemStatus
    summary: list[OutputPart]
    content: list[OutputPart]
    encrypted_content: Annotated[
        str | None,
        Field(description="the reasoning, if the request includes reasoning.encrypted_content"),
    ]


class OutputCall(TypedDict):
    """A call for the client to make: a function's arguments, or a custom tool's input."""

    id: str
    type: Literal["function_call", "custom_tool_call"]
    status: ItemStatus
    call_id: str
    name: str
    namespace: NotRequired[str]
    arguments: NotRequired[str]
    input: NotRequired[str]


OutputItem = OutputMessage | OutputReasoning | OutputCall


class ResponseUsage(TypedDict):
    """Tokens."""

    input_tokens: int
    input_tokens_details: TokenDetails
    output_tokens: int
    output_tokens_details: TokenDetails
    total_tokens: int


class ResponseAnswer(TypedDict):
    """The answer of ``POST /v1/responses``, in each of its states."""

    id: str
    object: Literal["response"]
    created_at: int
    completed_at: Annotated[int | None, Field(description="when it ended, if it is completed")]
    status: ResponseStatus
    background: bool
    error: dict[Literal["code", "message"], str] | None
    incomplete_details: dict[Literal["reason"], str] | None
    instructions: str | None
    max_output_tokens: int | None
    metadata: dict[str, Any]
    model: str
    output: list[Annotated[OutputItem, Field(discriminator="type")]]
    parallel_tool_calls: bool
    previous_response_id: str | None
    prompt_cache_key: str | None
    reasoning: dict[str, str | None]
    safety_identifier: str | None
    store: bool
    temperature: float | None
    text: dict[str, Any]
    tool_choice: str | dict[str, Any]
    tools: list[dict[str, Any]]
    top_logprobs: int
    top_p: float | None
    truncation: Literal["disabled"]
    usage: ResponseUsage | None
    user: str | None
    fullstop: NotRequired[
        Annotated[
            FullstopReport,
            Field(description="present if the request has stops or asks for the report"),
        ]
    ]


class ItemList(TypedDict):
    """``GET /v1/responses/{id}/input_items``."""

    object: Literal["list"]
    data: list[dict[str, Any]]
    first_id: str | None
    last_id: str | None
    has_more: bool


class CompactedResponse(TypedDict):
    """``POST /v1/responses/compact``: the user's messages, and an item that replaces all else."""

    id: str
    object: Literal["response.compaction"]
    created_at: int
    output: list[dict[str, Any]]
    usage: ResponseUsage

"""The Responses request types, spelled as in OpenAI's reference.

https://platform.openai.com/docs/api-reference/responses
Only the shapes; ``read`` knows what they mean. Unknown fields are ignored. Any thread.
"""

import json
from collections.abc import Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import Field, PrivateAttr, model_validator
from pydantic.json_schema import SkipJsonSchema
from pydantic_core import PydanticCustomError

from api.dialects.openai.parameters import (
    FORMAT_TYPE,
    TOOL_CHOICE,
    CustomFormat,
    GenerationParams,
    LastTurnParams,
)
from api.dialects.responses.foreign_items import FOREIGN_ITEMS, foreign_items
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
    namespace: str | None = None
    status: str | None = None


class FunctionCallOutputItem(WireModel):
    """The result of a call."""

    type: Literal["function_call_output"]
    call_id: str
    output: Parts


class CustomCallItem(WireModel):
    """A call of a custom tool that an earlier answer made."""

    type: Literal["custom_tool_call"]
    call_id: str
    name: str
    input: str
    namespace: str | None = None
    status: str | None = None


class CustomCallOutputItem(WireModel):
    """The result of a call of a custom tool."""

    type: Literal["custom_tool_call_output"]
    call_id: str
    output: Parts


class ResponseTool(WireModel):
    """A tool: a function, a custom tool, or a namespace of such tools; others are left out."""

    type: str
    name: str | None = None
    description: str | None = None
    parameters: dict[str, Any] | None = None
    format: CustomFormat | None = None
    tools: list["ResponseTool"] | None = None


class AdditionalToolsItem(WireModel):
    """More tools, which are offered beside those of the field ``tools``."""

    type: Literal["additional_tools"]
    tools: list[ResponseTool]


class ReasoningItem(WireModel):
    """The reasoning of an earlier answer."""

    type: Literal["reasoning"]


class ItemReference(WireModel):
    """An item of an answer that the server keeps; its type may be left out."""

    type: Literal["item_reference"]
    id: str


class CompactionItem(WireModel):
    """The item of a compacted conversation that replaces all but the user's messages."""

    type: Literal["compaction"]
    encrypted_content: str = ""


Item = Annotated[
    MessageItem
    | FunctionCallItem
    | FunctionCallOutputItem
    | CustomCallItem
    | CustomCallOutputItem
    | AdditionalToolsItem
    | ReasoningItem
    | CompactionItem
    | ItemReference,
    Field(discriminator="type"),
]


def _as_items(value: Any) -> Any:
    if isinstance(value, str):
        return [{"type": "message", "role": "user", "content": value}]
    if not isinstance(value, list):
        raise PydanticCustomError("input_type", "must be a string or a list of items")
    return [one for item in value for one in _known_items(item)]


def _known_items(item: Any) -> list[Any]:
    """Return an item with its type; items of missing tools become similar known items."""
    if not isinstance(item, dict):
        return [item]
    kind = item.get("type")
    if kind is None:
        is_reference = "id" in item and "role" not in item
        return [{**item, "type": "item_reference" if is_reference else "message"}]
    return foreign_items(item) if isinstance(kind, str) and kind in FOREIGN_ITEMS else [item]


class ResponseReasoning(WireModel):
    """Whether and how hard the model reasons, and how the answer shows it."""

    effort: str | None = None
    summary: Literal["auto", "concise", "detailed"] | None = None
    # Its name in earlier versions of the API.
    generate_summary: Literal["auto", "concise", "detailed"] | None = None


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


class ResponseParams(LastTurnParams, GenerationParams):
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
    store: bool | None = None
    # Repeated in the answer, and without effect on it.
    prompt_cache_key: str | None = None
    safety_identifier: str | None = None
    user: str | None = None
    conversation: Any = None
    prompt: Any = None
    background: bool | None = None
    prompt_logprobs: SkipJsonSchema[Any] = None

    @model_validator(mode="before")
    @classmethod
    def _with_additional_tools(cls, value: Any) -> Any:
        """Offer the tools among the items as well; the items themselves may be dropped later."""
        items = value.get("input") if isinstance(value, dict) else None
        added = [
            tool
            for item in (items if isinstance(items, list) else ())
            if isinstance(item, dict) and item.get("type") == "additional_tools"
            for tool in (item["tools"] if isinstance(item.get("tools"), list) else ())
        ]
        if not added or not isinstance(value.get("tools"), list | None):
            return value
        return {**value, "tools": [*(value.get("tools") or ()), *added]}

    # How many items at the beginning of ``input`` come from kept answers; None until they are
    # added.
    _recalled: int | None = PrivateAttr(default=None)
    # The items that were sent, as JSON, once ``input`` has been dropped.
    _sent: tuple[str, ...] | None = PrivateAttr(default=None)

    @property
    def recalled(self) -> int:
        """How many items at the beginning of ``input`` come from kept answers."""
        return self._recalled or 0

    @property
    def needs_recall(self) -> bool:
        """Whether it continues kept answers whose items are still missing."""
        return self._recalled is None and (
            self.previous_response_id is not None
            or any(isinstance(item, ItemReference) for item in self.input)
        )

    def with_recalled(self, earlier: Sequence[Item], own: Sequence[Item]) -> Self:
        """Return a copy with the items of kept answers before its own."""
        added = [
            tool for one in earlier if isinstance(one, AdditionalToolsItem) for tool in one.tools
        ]
        tools = [*(self.tools or ()), *(one for one in added if one not in (self.tools or ()))]
        copy = self.model_copy(update={"input": [*earlier, *own], "tools": tools})
        copy._recalled = len(earlier)  # noqa: SLF001 - its own
        return copy

    def without_turns(self) -> Self:
        """Return a copy without its items; their JSON stays if the answer is to be kept."""
        copy = self.model_copy(update={"input": []})
        copy._sent = self.sent_items() if self.store is not False else ()  # noqa: SLF001
        return copy

    def sent_items(self) -> tuple[str, ...]:
        """Return the items that were sent, each as JSON."""
        if self._sent is not None:
            return self._sent
        return tuple(
            item.model_dump_json(by_alias=True, exclude_none=True)
            for item in self.input[self.recalled :]
        )


class CompactParams(ResponseParams):
    """``POST /v1/responses/compact``: a conversation, or an earlier response that ends one."""

    input: Annotated[list[Item], TextOr(_as_items)] = Field(default_factory=list)

    def without_turns(self) -> Self:
        """Return a copy without its items; their JSON stays, because the answer repeats some."""
        copy = self.model_copy(update={"input": []})
        copy._sent = self.sent_items()  # noqa: SLF001 - its own
        return copy

    def messages_of_user(self) -> list[dict[str, Any]]:
        """Return the user's messages, those of earlier responses first."""
        earlier = (
            item.model_dump(by_alias=True, exclude_none=True)
            for item in self.input[: self.recalled]
        )
        items = [*earlier, *map(json.loads, self.sent_items())]
        return [one for one in items if one["type"] == "message" and one["role"] == "user"]

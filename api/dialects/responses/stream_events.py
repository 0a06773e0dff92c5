"""The events of a stream of the Responses API, spelled as in OpenAI's reference.

https://platform.openai.com/docs/api-reference/responses-streaming. ``stream`` and ``text_items``
make them, and documents describe them. Any thread.
"""

from typing import Annotated, Literal

from pydantic import Field
from typing_extensions import TypedDict

from api.dialects.openai.answers import TokenLogprob
from api.dialects.responses.answers import AnyItem, ContentPart, ResponseAnswer, SummaryText


class _Numbered(TypedDict):
    sequence_number: int


StateName = Literal[
    "response.created",
    "response.in_progress",
    "response.completed",
    "response.incomplete",
    "response.failed",
]
ItemEventName = Literal["response.output_item.added", "response.output_item.done"]
PartEventName = Literal["response.content_part.added", "response.content_part.done"]
SummaryPartEventName = Literal[
    "response.reasoning_summary_part.added", "response.reasoning_summary_part.done"
]


class StateEvent(_Numbered):
    """The state of the response has changed. The last event of a stream is one of these."""

    type: StateName
    response: ResponseAnswer


class ItemEvent(_Numbered):
    """An item begins or is complete."""

    type: ItemEventName
    output_index: int
    item: AnyItem


class PartEvent(_Numbered):
    """A part of an item's content begins or is complete."""

    type: PartEventName
    item_id: str
    output_index: int
    content_index: int
    part: Annotated[ContentPart, Field(discriminator="type")]


class _Summary(_Numbered):
    item_id: str
    output_index: int
    summary_index: int


class SummaryPartEvent(_Summary):
    """The summary of reasoning begins or is complete."""

    type: SummaryPartEventName
    part: SummaryText


class SummaryDelta(_Summary):
    """More reasoning, as a summary."""

    type: Literal["response.reasoning_summary_text.delta"]
    delta: str


class SummaryDone(_Summary):
    """The whole reasoning, as a summary."""

    type: Literal["response.reasoning_summary_text.done"]
    text: str


class _Text(_Numbered):
    item_id: str
    output_index: int
    content_index: int


class OutputTextDelta(_Text):
    """More text."""

    type: Literal["response.output_text.delta"]
    delta: str
    logprobs: list[TokenLogprob]


class OutputTextDone(_Text):
    """The whole text."""

    type: Literal["response.output_text.done"]
    text: str
    logprobs: list[TokenLogprob]


class ReasoningDelta(_Text):
    """More reasoning."""

    type: Literal["response.reasoning_text.delta"]
    delta: str


class ReasoningDone(_Text):
    """The whole reasoning."""

    type: Literal["response.reasoning_text.done"]
    text: str


class ArgumentsDelta(_Numbered):
    """More of a call's arguments."""

    type: Literal["response.function_call_arguments.delta"]
    item_id: str
    output_index: int
    delta: str


class ArgumentsDone(_Numbered):
    """All arguments of a call."""

    type: Literal["response.function_call_arguments.done"]
    item_id: str
    output_index: int
    name: str
    arguments: str


class CustomInputDelta(_Numbered):
    """More of the input of a custom tool."""

    type: Literal["response.custom_tool_call_input.delta"]
    item_id: str
    output_index: int
    delta: str


class CustomInputDone(_Numbered):
    """The whole input of a custom tool."""

    type: Literal["response.custom_tool_call_input.done"]
    item_id: str
    output_index: int
    input: str


# One event of a stream; its ``event:`` line repeats the type.
ResponseEvent = Annotated[
    StateEvent
    | ItemEvent
    | PartEvent
    | OutputTextDelta
    | OutputTextDone
    | ReasoningDelta
    | ReasoningDone
    | SummaryPartEvent
    | SummaryDelta
    | SummaryDone
    | ArgumentsDelta
    | ArgumentsDone
    | CustomInputDelta
    | CustomInputDone,
    Field(discriminator="type"),
]

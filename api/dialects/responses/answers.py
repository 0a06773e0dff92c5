"""The Responses API's answers, spelled as in OpenAI's reference.

https://platform.openai.com/docs/api-reference/responses. ``write`` makes them, and documents
describe them. Any thread.
"""

from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from api.dialects.openai.answers import TokenLogprob
from api.dialects.shared.answers.report import FullstopReport

ResponseStatus = Literal["in_progress", "completed", "incomplete", "failed"]
ItemStatus = Literal["in_progress", "completed", "incomplete"]


class OutputText(TypedDict):
    """Text of a message."""

    type: Literal["output_text"]
    text: str
    annotations: list[Any]
    logprobs: list[TokenLogprob]


class ReasoningText(TypedDict):
    """Text of a reasoning item."""

    type: Literal["reasoning_text"]
    text: str


class SummaryText(TypedDict):
    """Text of a reasoning item whose request asked for a summary: the reasoning itself."""

    type: Literal["summary_text"]
    text: str


ContentPart = OutputText | ReasoningText
OutputPart = ContentPart | SummaryText


class OutputMessage(TypedDict):
    """Text of the answer."""

    id: str
    type: Literal["message"]
    status: ItemStatus
    role: Literal["assistant"]
    content: list[OutputText]


class OutputReasoning(TypedDict):
    """The model's reasoning."""

    id: str
    type: Literal["reasoning"]
    status: ItemStatus
    summary: list[SummaryText]
    content: list[ReasoningText]
    encrypted_content: None


class OutputCall(TypedDict):
    """A call for the client to make."""

    id: str
    type: Literal["function_call"]
    status: ItemStatus
    call_id: str
    name: str
    namespace: NotRequired[str]
    arguments: str


class OutputCustomCall(TypedDict):
    """A call of a custom tool for the client to make."""

    id: str
    type: Literal["custom_tool_call"]
    status: ItemStatus
    call_id: str
    name: str
    namespace: NotRequired[str]
    input: str


OutputItem = OutputMessage | OutputReasoning | OutputCall | OutputCustomCall
AnyItem = Annotated[OutputItem, Field(discriminator="type")]


class InputDetails(TypedDict):
    """How many of the input's tokens came from the cache."""

    cached_tokens: int
    cache_write_tokens: int


class OutputDetails(TypedDict):
    """How many of the output tokens are reasoning."""

    reasoning_tokens: int


class ResponseUsage(TypedDict):
    """Tokens."""

    input_tokens: int
    input_tokens_details: InputDetails
    output_tokens: int
    output_tokens_details: OutputDetails
    total_tokens: int


class ResponseFailure(TypedDict):
    """Why the answer failed."""

    code: Literal["invalid_prompt", "server_error"]
    message: str


class IncompleteDetails(TypedDict):
    """Why the answer is incomplete."""

    reason: Literal["max_output_tokens"]


class ReasoningEcho(TypedDict):
    """The request's settings of reasoning, repeated."""

    effort: str | None
    summary: Annotated[
        Literal["detailed"] | None,
        Field(description="detailed if a summary was requested: it is the whole reasoning"),
    ]


class FormatEcho(TypedDict):
    """The request's output format, repeated."""

    type: str
    name: NotRequired[str]
    description: NotRequired[str]
    schema: NotRequired[dict[str, Any]]
    strict: NotRequired[bool]


class TextEcho(TypedDict):
    """The request's settings of text, repeated."""

    format: FormatEcho


class FunctionEcho(TypedDict):
    """An offered function, repeated."""

    type: Literal["function"]
    name: str
    description: str
    parameters: dict[str, Any]
    strict: bool


class CustomEcho(TypedDict):
    """An offered custom tool, repeated."""

    type: Literal["custom"]
    name: str
    description: str
    format: dict[str, Any]


class NamespaceEcho(TypedDict):
    """An offered namespace, repeated."""

    type: Literal["namespace"]
    name: str
    description: str
    tools: list[Annotated[FunctionEcho | CustomEcho, Field(discriminator="type")]]


ToolEcho = Annotated[FunctionEcho | CustomEcho | NamespaceEcho, Field(discriminator="type")]


class ResponseAnswer(TypedDict):
    """The answer of ``POST /v1/responses``, in each of its states."""

    id: str
    object: Literal["response"]
    created_at: int
    completed_at: Annotated[int | None, Field(description="when it ended, if it is completed")]
    status: ResponseStatus
    background: bool
    error: ResponseFailure | None
    incomplete_details: IncompleteDetails | None
    instructions: str | None
    max_output_tokens: int | None
    metadata: dict[str, Any]
    model: str
    output: list[AnyItem]
    parallel_tool_calls: bool
    previous_response_id: str | None
    prompt_cache_key: str | None
    reasoning: ReasoningEcho
    safety_identifier: str | None
    store: bool
    temperature: float | None
    text: TextEcho
    tool_choice: str | dict[str, Any]
    tools: list[ToolEcho]
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

"""The Messages API's answers and the events of its streams, spelled as in Anthropic's reference.

https://docs.claude.com/en/api/messages and https://docs.claude.com/en/docs/build-with-claude/streaming.
``write`` makes them, and documents describe them. Any thread.
"""

from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from api.dialects.shared.answers.report import FullstopReport

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


class OutputTokensDetails(TypedDict):
    """How many of the output tokens are reasoning."""

    thinking_tokens: int


class MessageUsage(TypedDict):
    """Token counts; ``input_tokens`` does not include cached tokens."""

    input_tokens: int
    cache_creation_input_tokens: int
    cache_read_input_tokens: int
    output_tokens: int
    output_tokens_details: OutputTokensDetails


class TextAnswer(TypedDict):
    """Text."""

    type: Literal["text"]
    text: str


class ThinkingAnswer(TypedDict):
    """The model's reasoning."""

    type: Literal["thinking"]
    thinking: str
    signature: str


class ToolUseAnswer(TypedDict):
    """A call that the client is to make."""

    type: Literal["tool_use"]
    id: str
    name: str
    input: dict[str, Any]


AnswerBlock = TextAnswer | ThinkingAnswer | ToolUseAnswer
_Block = Annotated[AnswerBlock, Field(discriminator="type")]


class MessageAnswer(TypedDict):
    """The answer of ``POST /v1/messages``; without its stop it begins a stream."""

    id: str
    type: Literal["message"]
    role: Literal["assistant"]
    model: str
    content: list[_Block]
    stop_reason: StopReason | None
    stop_sequence: Annotated[str | None, Field(description="the one that matched")]
    usage: MessageUsage
    fullstop: NotRequired[FullstopReport]


class TokenCount(TypedDict):
    """The answer of ``POST /v1/messages/count_tokens``."""

    input_tokens: int


# -- streams ----------------------------------------------------------------------------------


class MessageStart(TypedDict):
    """The first event."""

    type: Literal["message_start"]
    message: MessageAnswer


class Ping(TypedDict):
    """A keepalive."""

    type: Literal["ping"]


class BlockStart(TypedDict):
    """A block begins, empty."""

    type: Literal["content_block_start"]
    index: int
    content_block: _Block


class MessageTextDelta(TypedDict):
    """More text."""

    type: Literal["text_delta"]
    text: str


class MessageThinkingDelta(TypedDict):
    """More reasoning."""

    type: Literal["thinking_delta"]
    thinking: str


class SignatureDelta(TypedDict):
    """The end of a thinking block."""

    type: Literal["signature_delta"]
    signature: str


class InputJsonDelta(TypedDict):
    """More of a call's input, as JSON text."""

    type: Literal["input_json_delta"]
    partial_json: str


class BlockDelta(TypedDict):
    """A block grows."""

    type: Literal["content_block_delta"]
    index: int
    delta: Annotated[
        MessageTextDelta | MessageThinkingDelta | SignatureDelta | InputJsonDelta,
        Field(discriminator="type"),
    ]


class BlockStop(TypedDict):
    """A block is whole."""

    type: Literal["content_block_stop"]
    index: int


class StopDelta(TypedDict):
    """Why the answer ended."""

    stop_reason: StopReason
    stop_sequence: str | None


class MessageDelta(TypedDict):
    """The answer's end."""

    type: Literal["message_delta"]
    delta: StopDelta
    usage: MessageUsage
    fullstop: NotRequired[FullstopReport]


class MessageStop(TypedDict):
    """The last event."""

    type: Literal["message_stop"]


MessageEvent = Annotated[
    MessageStart
    | Ping
    | BlockStart
    | BlockDelta
    | BlockStop
    | MessageDelta
    | MessageStop
    | MessageErrorAnswer,
    Field(discriminator="type"),
]

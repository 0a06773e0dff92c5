"""The Messages API's answers and the events of its streams, spelled as in Anthropic's reference.

They describe what ``read`` and ``write`` make, for documents and their readers. Any thread.
"""

from typing import Annotated, Any, Literal

from pydantic import Field, RootModel

from api.dialects.shared.answers import DEFERRED, AnswerModel, FullstopReport

StopReason = Literal[
    "end_turn", "stop_sequence", "max_tokens", "model_context_window_exceeded", "tool_use"
]


class MessageError(AnswerModel):
    """What went wrong."""

    type: Literal[
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
    message: str
    details: dict[str, Any] | None = None


class MessageErrorAnswer(AnswerModel):
    """What every failure looks like, in a body and as an event."""

    type: Literal["error"]
    error: MessageError
    request_id: str


class OutputTokensDetails(AnswerModel):
    """Which of the output's tokens are not in the answer's text."""

    thinking_tokens: int


class MessageUsage(AnswerModel):
    """Tokens; those that the cache held are counted beside ``input_tokens``."""

    input_tokens: int
    cache_creation_input_tokens: int
    cache_read_input_tokens: int
    output_tokens: int
    output_tokens_details: OutputTokensDetails


class TextAnswer(AnswerModel):
    """Text."""

    type: Literal["text"]
    text: str


class ThinkingAnswer(AnswerModel):
    """What the model thought."""

    type: Literal["thinking"]
    thinking: str
    signature: str


class ToolUseAnswer(AnswerModel):
    """A call that the client is to make."""

    type: Literal["tool_use"]
    id: str
    name: str
    input: dict[str, Any]


AnswerBlock = Annotated[TextAnswer | ThinkingAnswer | ToolUseAnswer, Field(discriminator="type")]


class MessageAnswer(AnswerModel):
    """The answer of ``POST /v1/messages``; without its stop it begins a stream."""

    id: str
    type: Literal["message"]
    role: Literal["assistant"]
    model: str
    content: list[AnswerBlock]
    stop_reason: StopReason | None
    stop_sequence: str | None = Field(description="the one that matched")
    usage: MessageUsage
    fullstop: FullstopReport | None = None


class TokenCount(AnswerModel):
    """The answer of ``POST /v1/messages/count_tokens``."""

    input_tokens: int


# -- streams ----------------------------------------------------------------------------------


class MessageStart(AnswerModel):
    """The first event."""

    type: Literal["message_start"]
    message: MessageAnswer


class Ping(AnswerModel):
    """A sign of life."""

    type: Literal["ping"]


class BlockStart(AnswerModel):
    """A block begins, empty."""

    type: Literal["content_block_start"]
    index: int
    content_block: AnswerBlock


class MessageTextDelta(AnswerModel):
    """More text."""

    type: Literal["text_delta"]
    text: str


class MessageThinkingDelta(AnswerModel):
    """More of what the model thinks."""

    type: Literal["thinking_delta"]
    thinking: str


class SignatureDelta(AnswerModel):
    """The end of a thinking block."""

    type: Literal["signature_delta"]
    signature: str


class InputJsonDelta(AnswerModel):
    """More of a call's input, as JSON text."""

    type: Literal["input_json_delta"]
    partial_json: str


class BlockDelta(AnswerModel):
    """A block grows."""

    type: Literal["content_block_delta"]
    index: int
    delta: Annotated[
        MessageTextDelta | MessageThinkingDelta | SignatureDelta | InputJsonDelta,
        Field(discriminator="type"),
    ]


class BlockStop(AnswerModel):
    """A block is whole."""

    type: Literal["content_block_stop"]
    index: int


class StopDelta(AnswerModel):
    """Why the answer ended."""

    stop_reason: StopReason
    stop_sequence: str | None


class MessageDelta(AnswerModel):
    """The answer's end."""

    type: Literal["message_delta"]
    delta: StopDelta
    usage: MessageUsage
    fullstop: FullstopReport | None = None


class MessageStop(AnswerModel):
    """The last event."""

    type: Literal["message_stop"]


class MessageEvent(
    RootModel[
        Annotated[
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
    ]
):
    """One event of a stream; its ``event:`` line repeats the type."""

    model_config = DEFERRED

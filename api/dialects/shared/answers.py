"""What the types of answers have in common, and the object ``fullstop`` that any may hold.

They describe, for documents and their readers; what is sent is made elsewhere. Any thread.
"""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

# Built when the document is first asked for: a server that starts has no use for them.
DEFERRED = ConfigDict(defer_build=True)


class AnswerModel(BaseModel):
    """A part of an answer; fields with a default may be absent."""

    model_config = DEFERRED


class StopReport(AnswerModel):
    """Why the answer ended."""

    kind: Literal[
        "eos",
        "stop_string",
        "stop_token",
        "max_tokens",
        "context_full",
        "tool_call",
        "cancelled",
        "error",
    ]
    value: str | int | None = Field(description="the stop that matched: a string or a token id")
    token_id: int | None = Field(description="the token on which the answer ended")
    token_text: str | None
    channel: Literal["text", "thinking", "tool"]
    text_offset: int | None = Field(description="where the match began, in characters")
    token_index: int | None = Field(description="of the token that completed the match")
    held: str = Field(description="text that was held back and then released")
    dropped: str = Field(description="the stop and what followed it")


class TimingReport(AnswerModel):
    """How long it took, in seconds."""

    queued_s: float
    prefill_s: float
    first_token_s: float | None
    decode_s: float
    total_s: float
    tokens_per_s: float | None


class FullstopReport(AnswerModel):
    """The object ``fullstop`` of an answer whose request asked for it."""

    stop: StopReport
    unfinished_tool_call: str | None
    timing: TimingReport

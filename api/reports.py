"""The type of the object ``fullstop`` in answers, for documents. Pure; any thread."""

from typing import Literal

from pydantic import BaseModel, Field


class StopReport(BaseModel):
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


class TimingReport(BaseModel):
    """How long it took, in seconds."""

    queued_s: float
    prefill_s: float
    first_token_s: float | None
    decode_s: float
    total_s: float
    tokens_per_s: float | None


class FullstopReport(BaseModel):
    """The object ``fullstop`` of an answer whose request asked for it."""

    stop: StopReport
    unfinished_tool_call: str | None
    timing: TimingReport

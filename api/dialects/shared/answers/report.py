"""The object ``fullstop`` of answers whose request asked for it.

The types of all answers are TypedDicts: they cost nothing at run time, mypy checks the code that
builds the answers, and the OpenAPI document is generated from them. Pure; any thread.
"""

from typing import Annotated

from pydantic import Field
from typing_extensions import TypedDict

from engine import Channel, Finished, StopKind, tokens_per_s


class StopReport(TypedDict):
    """Why the answer ended."""

    kind: StopKind
    value: Annotated[
        str | int | None, Field(description="the stop that matched: a string or a token id")
    ]
    token_id: Annotated[int | None, Field(description="the token on which the answer ended")]
    token_text: str | None
    channel: Channel
    text_offset: Annotated[int | None, Field(description="where the match began, in characters")]
    token_index: Annotated[int | None, Field(description="of the token that completed the match")]
    held: Annotated[str, Field(description="text that was held back and then released")]
    dropped: Annotated[str, Field(description="the stop and what followed it")]


class TimingReport(TypedDict):
    """How long it took, in seconds."""

    queued_s: float
    prefill_s: float
    first_token_s: float | None
    decode_s: float
    total_s: float
    tokens_per_s: float | None


class BudgetEndReport(TypedDict):
    """Where the budget ended the reasoning."""

    token_index: Annotated[int, Field(description="of the first token that was forced")]
    forced: Annotated[int, Field(description="how many tokens end the reasoning")]
    budget: Annotated[int, Field(description="the most tokens of reasoning")]


class FullstopReport(TypedDict):
    """The object ``fullstop`` of an answer whose request asked for it."""

    stop: StopReport
    unfinished_tool_call: str | None
    thinking_budget_end: Annotated[
        BudgetEndReport | None, Field(description="present if the budget ended the reasoning")
    ]
    timing: TimingReport


def report_to_wire(finished: Finished) -> FullstopReport:
    """Return the object ``fullstop`` of an answer: the stop record, speeds and times (seconds)."""
    stop, timing, end = finished.stop, finished.timing, finished.budget_end
    return {
        "stop": {
            "kind": stop.kind,
            "value": stop.value,
            "token_id": stop.token_id,
            "token_text": stop.token_text,
            "channel": stop.channel,
            "text_offset": stop.text_offset,
            "token_index": stop.token_index,
            "held": stop.held,
            "dropped": stop.dropped,
        },
        "unfinished_tool_call": finished.unfinished_tool_call or None,
        "thinking_budget_end": None
        if end is None
        else {
            "token_index": end.token_index,
            "forced": end.forced,
            "budget": end.budget,
        },
        "timing": {
            "queued_s": timing.queued_s,
            "prefill_s": timing.prefill_s,
            "first_token_s": timing.first_token_s,
            "decode_s": timing.decode_s,
            "total_s": timing.total_s,
            "tokens_per_s": tokens_per_s(finished.usage, timing),
        },
    }

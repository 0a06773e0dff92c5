"""The product's own object ``fullstop`` in requests and answers, the same in every dialect.

A request's ``fullstop`` chooses where stops are looked for and asks for the whole stop record;
without it nothing of ours is in an answer. Pure; knows no vendor and no web framework.
"""

from typing import Literal

from api.body import WireModel
from engine.events import Finished, tokens_per_s
from engine.stopping.rules import StopScope


class FullstopOptions(WireModel):
    """The object ``fullstop`` of a request.

    Attributes:
        stop_scope: Where stop strings are looked for.
        report: Whether the answer carries the stop record.
    """

    stop_scope: Literal["text", "text+thinking", "all"] = "text"
    report: bool = False


def scope_of(options: FullstopOptions | None) -> StopScope:
    """Return the channels in which a request's stops count."""
    return StopScope(options.stop_scope) if options is not None else StopScope.TEXT


def is_report_wanted(options: FullstopOptions | None) -> bool:
    """Whether a request asks for the stop record."""
    return options is not None and options.report


def report_to_wire(finished: Finished) -> dict[str, object]:
    """Return the object ``fullstop`` of an answer: the stop record, speeds and times (seconds)."""
    stop, timing = finished.stop, finished.timing
    return {
        "stop": {
            "kind": stop.kind.value,
            "value": stop.value,
            "token_id": stop.token_id,
            "token_text": stop.token_text,
            "channel": stop.channel.value,
            "text_offset": stop.text_offset,
            "token_index": stop.token_index,
            "held": stop.held,
            "dropped": stop.dropped,
        },
        "unfinished_tool_call": finished.unfinished_tool_call or None,
        "timing": {
            "queued_s": timing.queued_s,
            "prefill_s": timing.prefill_s,
            "first_token_s": timing.first_token_s,
            "decode_s": timing.decode_s,
            "total_s": timing.total_s,
            "tokens_per_s": tokens_per_s(finished.usage, timing),
        },
    }

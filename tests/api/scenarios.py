"""The events of an engine for each kind of answer, in lists named after what they show."""

from dataclasses import dataclass
from typing import Any

from engine.stopping.record import Channel, StopInfo, StopKind
from engine.values.events import (
    Event,
    Finished,
    PromptProgress,
    TextDelta,
    ThinkingDelta,
    Timing,
    ToolCallCompleted,
    Usage,
)
from engine.values.request import ToolCall

TIMING = Timing(queued_s=0.0, prefill_s=0.125, first_token_s=0.125, decode_s=0.5, total_s=0.625)


def ended(stop: StopInfo, output_tokens: int, thinking_tokens: int = 0, **more: Any) -> Finished:
    usage = Usage(12, 4, output_tokens, thinking_tokens)
    return Finished(stop=stop, usage=usage, timing=TIMING, **more)


_START: list[list[Event]] = [[PromptProgress(4, 12, 4)], [PromptProgress(12, 12, 4)]]
_CALLS = (
    ToolCallCompleted(0, ToolCall("one", "get_weather", '{"city": "Oslo"}')),
    ToolCallCompleted(1, ToolCall("two", "get_time", "{}")),
)

# The batches of events of a generation; each dialect has a golden file for each list.
SCENARIOS: dict[str, list[list[Event]]] = {
    "text": [
        *_START,
        [TextDelta("Hello")],
        [TextDelta(', "you"\n'), TextDelta("数 👋\u2028")],
        [ended(StopInfo(StopKind.EOS, token_id=2), 7)],
    ],
    "thinking": [
        *_START,
        [ThinkingDelta("Let me "), ThinkingDelta("see.")],
        [TextDelta("4")],
        [ended(StopInfo(StopKind.EOS, token_id=2), 9, 5)],
    ],
    "tool_calls": [
        *_START,
        [TextDelta("I shall look.")],
        list(_CALLS),
        [ended(StopInfo(StopKind.TOOL_CALL, channel=Channel.TOOL), 30)],
    ],
    "stop_string": [
        *_START,
        [TextDelta("A B C ")],
        [ended(StopInfo(StopKind.STOP_STRING, "STOP", text_offset=6, dropped="STOP D"), 6)],
    ],
    "stop_at_the_first_character": [
        *_START,
        [ended(StopInfo(StopKind.STOP_STRING, "A", dropped="A B"), 1)],
    ],
    "stop_token": [*_START, [TextDelta("1")], [ended(StopInfo(StopKind.STOP_TOKEN, 21), 2)]],
    "token_limit": [*_START, [TextDelta("1\n2\n3"), ended(StopInfo(StopKind.MAX_TOKENS), 5)]],
    "limit_inside_thinking": [
        *_START,
        [ThinkingDelta("Hm")],
        [ended(StopInfo(StopKind.MAX_TOKENS, channel=Channel.THINKING), 1, 1)],
    ],
    "stop_inside_thinking": [
        *_START,
        [ThinkingDelta("Let me ")],
        [
            ended(
                StopInfo(
                    StopKind.STOP_STRING,
                    "see",
                    channel=Channel.THINKING,
                    text_offset=7,
                    dropped="see.",
                ),
                4,
                4,
            )
        ],
    ],
    "call_cut_by_the_limit": [
        *_START,
        [TextDelta("I shall look.")],
        [
            ended(
                StopInfo(StopKind.MAX_TOKENS, channel=Channel.TOOL),
                9,
                unfinished_tool_call='{"name": "get_we',
            )
        ],
    ],
    "full_context": [*_START, [TextDelta("1")], [ended(StopInfo(StopKind.CONTEXT_FULL), 1)]],
    "error_after_text": [
        *_START,
        [TextDelta("1")],
        [ended(StopInfo(StopKind.ERROR), 1, error="the device was lost")],
    ],
    "cancelled": [*_START, [TextDelta("1")], [ended(StopInfo(StopKind.CANCELLED), 1)]],
}


def is_raw(batches: list[list[Event]]) -> bool:
    events = [event for batch in batches for event in batch]
    if any(isinstance(event, ThinkingDelta | ToolCallCompleted) for event in events):
        return False
    return isinstance(events[-1], Finished) and events[-1].stop.channel is Channel.TEXT


@dataclass(frozen=True)
class Scenario:
    name: str
    batches: list[list[Event]]

    @property
    def finished(self) -> Finished:
        last = self.batches[-1][-1]
        assert isinstance(last, Finished)
        return last

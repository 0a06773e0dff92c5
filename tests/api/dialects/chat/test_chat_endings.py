"""How Chat Completions reports the end of an answer, and its usage."""

from typing import Any

import pytest

from api.dialects.chat.write import write_completion
from api.dialects.openai.write import stop_to_wire, usage_to_wire
from api.dialects.shared.dialect import Head
from api.transport.errors import ApiError
from engine.stopping.record import StopInfo, StopKind
from engine.values.chat import ToolCall
from engine.values.events import (
    Finished,
    Speculation,
    TextDelta,
    ThinkingDelta,
    Timing,
    ToolCallCompleted,
    Usage,
)
from tests.api.dialects.chat.asking_chat import params


def ended(usage: Usage, speculation: Speculation | None = None) -> Finished:
    stop = StopInfo(StopKind.EOS)
    return Finished(stop, usage, Timing(), speculation=speculation or Speculation())


@pytest.mark.parametrize(
    ("stop", "reason", "matched"),
    [
        (StopInfo(StopKind.EOS), "stop", None),
        (StopInfo(StopKind.STOP_STRING, "END"), "stop", "END"),
        (StopInfo(StopKind.STOP_TOKEN, 21), "stop", 21),
        (StopInfo(StopKind.MAX_TOKENS), "length", None),
        (StopInfo(StopKind.CONTEXT_FULL), "length", None),
        (StopInfo(StopKind.MEMORY_FULL), "length", None),
        (StopInfo(StopKind.TOOL_CALL), "tool_calls", None),
    ],
    ids=lambda value: value.kind.value if isinstance(value, StopInfo) else "",
)
def test_a_normal_end_has_its_reason_and_what_matched(
    stop: StopInfo, reason: str, matched: str | int | None
) -> None:
    assert stop_to_wire(stop) == (reason, matched)


@pytest.mark.parametrize("kind", [StopKind.ERROR, StopKind.CANCELLED])
def test_an_end_that_is_not_normal_has_no_reason(kind: StopKind) -> None:
    with pytest.raises(ApiError):
        stop_to_wire(StopInfo(kind))


def test_usage_counts_a_shared_prompt_once() -> None:
    usage = usage_to_wire([ended(Usage(100, 60, 7, 3)), ended(Usage(100, 99, 5, 0))])

    assert usage == {
        "prompt_tokens": 100,
        "completion_tokens": 12,
        "total_tokens": 112,
        "prompt_tokens_details": {"cached_tokens": 60},
        "completion_tokens_details": {
            "reasoning_tokens": 3,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }


def test_usage_adds_up_the_tokens_of_the_prediction_over_all_choices() -> None:
    one = Speculation(2, 9, 6, prediction_accepted=5, prediction_rejected=3)
    two = Speculation(1, 4, 1, prediction_accepted=1, prediction_rejected=2)
    usage = usage_to_wire([ended(Usage(9, 0, 8), one), ended(Usage(9, 0, 7), two)])

    assert usage["completion_tokens"] == 15
    assert usage["completion_tokens_details"] == {
        "reasoning_tokens": 0,
        "accepted_prediction_tokens": 6,
        "rejected_prediction_tokens": 5,
    }


def test_an_answer_separates_thinking_text_and_calls(scenario_named: Any) -> None:
    call = ToolCallCompleted(0, ToolCall("one", "weather", "{}"))
    finished = scenario_named("tool_calls").finished

    def message(*events: Any) -> Any:
        body = write_completion([(events, finished)], params(), Head("1", 1, "m"))
        return body["choices"][0]["message"]

    assert message(ThinkingDelta("Hm"), TextDelta("4")) == {
        "role": "assistant",
        "content": "4",
        "refusal": None,
        "reasoning_content": "Hm",
    }
    assert message(call)["content"] is None
    assert message()["content"] == ""
    assert message(call)["tool_calls"] == [
        {"id": "call_one", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
    ]

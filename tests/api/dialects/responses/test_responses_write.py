import json
from collections.abc import Callable, Iterable
from typing import Any

from api.dialects.responses.wire import ResponseParams
from api.dialects.responses.write import ResponseEncoder
from api.dialects.shared.body import parsed
from api.dialects.shared.dialect import Head
from api.transport.answer_text import SseEvent, json_text
from engine.values.events import Event
from tests.support.answers.encoding import written


def encoded(batches: Iterable[list[Event]], **fields: Any) -> list[SseEvent]:
    body = {"model": "m", "input": "Hi", **fields}
    params = parsed(json_text(body).encode(), ResponseParams)
    writer = ResponseEncoder(params, Head("1", 1_795_000_000, "demo-model"))
    return written(writer, batches)


def decoded(events: Iterable[SseEvent]) -> list[dict[str, Any]]:
    return [json.loads(event.data) for event in events]


def test_a_conversation_matches_its_golden_file(scenario: Any, check_golden: Any) -> None:
    check_golden("responses", scenario.name, encoded(scenario.batches))


def test_the_matched_stop_is_in_the_fullstop_object(
    scenario_named: Callable[..., Any], check_golden: Any
) -> None:
    events = encoded(scenario_named("stop_string").batches, stop="STOP")

    check_golden("responses", "stop_string_with_report", events)
    assert decoded(events)[-1]["response"]["fullstop"]["stop"]["value"] == "STOP"


def test_the_whole_reasoning_is_sent_as_the_summary(
    scenario_named: Callable[..., Any], check_golden: Any
) -> None:
    events = encoded(scenario_named("thinking").batches, reasoning={"summary": "auto"})

    check_golden("responses", "thinking_as_summary", events)
    last = decoded(events)[-1]["response"]
    assert last["reasoning"]["summary"] == "detailed"
    assert last["output"][0]["summary"] == [{"type": "summary_text", "text": "Let me see."}]
    assert last["output"][0]["content"] == []


def test_events_have_numbers_and_repeat_their_name(scenario: Any) -> None:
    events = encoded(scenario.batches)

    assert [data["sequence_number"] for data in decoded(events)] == list(range(len(events)))
    assert [data["type"] for data in decoded(events)] == [event.name for event in events]


def test_items_are_opened_once_and_closed_in_order(scenario: Any) -> None:
    is_open = False
    index = -1
    for data in decoded(encoded(scenario.batches)):
        match data["type"].removeprefix("response."):
            case "output_item.added":
                assert not is_open
                is_open = True
                index += 1
            case "output_item.done":
                assert is_open
                is_open = False
        assert data.get("output_index", index) == index
        assert is_open or "delta" not in data


def test_a_second_call_is_left_out_if_only_one_is_wanted(
    scenario_named: Callable[..., Any],
) -> None:
    events = encoded(scenario_named("tool_calls").batches, parallel_tool_calls=False)
    output = decoded(events)[-1]["response"]["output"]

    assert [item["type"] for item in output] == ["message", "function_call"]


def test_a_broken_answer_ends_with_its_failure(scenario_named: Callable[..., Any]) -> None:
    last = decoded(encoded(scenario_named("error_after_text").batches))[-1]

    assert last["type"] == "response.failed"
    assert last["response"]["status"] == "failed"
    assert last["response"]["error"] == {"code": "server_error", "message": "the device was lost"}


def test_an_answer_repeats_its_request(scenario_named: Callable[..., Any]) -> None:
    tool = {"type": "function", "name": "f", "parameters": {"type": "object"}}
    asked: dict[str, Any] = {
        "instructions": "Be brief",
        "max_output_tokens": 9,
        "metadata": {"a": "b"},
        "temperature": 0.5,
        "tool_choice": "auto",
        "text": {"format": {"type": "json_schema", "name": "n", "schema": {}}},
    }
    response = decoded(encoded(scenario_named("text").batches, **asked, tools=[tool]))[0][
        "response"
    ]

    assert {name: response[name] for name in asked} == asked
    assert response["tools"][0]["name"] == "f"
    assert response["store"] is True

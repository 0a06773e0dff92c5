import json
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from api.dialects.anthropic.wire import MessageCreateParams
from api.dialects.anthropic.write import MessageEncoder
from api.dialects.shared.dialect import Head
from api.transport.answer_text import SseEvent
from api.transport.errors import ApiError, ErrorKind
from engine.values.events import Event
from tests.support.answers.encoding import written

ASK = {"model": "m", "max_tokens": 64, "messages": [{"role": "user", "content": "Hi"}]}


def encoder(**fields: Any) -> MessageEncoder:
    params = MessageCreateParams.model_validate({**ASK, **fields})
    return MessageEncoder(params, Head("1", 0, "demo-model", "req_1"))


def encoded(batches: Iterable[list[Event]], **fields: Any) -> list[SseEvent]:
    return written(encoder(**fields), batches)


def test_a_conversation_matches_its_golden_file(scenario: Any, check_golden: Any) -> None:
    check_golden("messages", scenario.name, encoded(scenario.batches))


def test_every_event_name_is_the_type_in_its_data(scenario: Any) -> None:
    for name, data in encoded(scenario.batches):
        assert json.loads(data)["type"] == name


def test_blocks_have_consecutive_numbers_and_never_overlap(scenario: Any) -> None:
    open_index: int | None = None
    expected = 0
    for name, data in encoded(scenario.batches):
        index = json.loads(data).get("index")
        if name == "content_block_start":
            assert open_index is None
            assert index == expected
            open_index, expected = index, expected + 1
        elif name in ("content_block_delta", "content_block_stop"):
            assert index == open_index
            open_index = None if name == "content_block_stop" else open_index


def test_omitted_thinking_leaves_an_empty_signed_block(scenario_named: Callable[..., Any]) -> None:
    thinking = {"type": "adaptive", "display": "omitted"}
    events = encoded(scenario_named("thinking").batches, thinking=thinking)

    assert not any("thinking_delta" in data for _, data in events)
    assert sum("signature_delta" in data for _, data in events) == 1


def test_a_second_call_is_left_out_if_only_one_is_wanted(
    scenario_named: Callable[..., Any],
) -> None:
    choice = {"type": "auto", "disable_parallel_tool_use": True}
    events = encoded(scenario_named("tool_calls").batches, tool_choice=choice)

    assert sum("tool_use" in data and name == "content_block_start" for name, data in events) == 1


def test_the_stop_record_is_sent_on_request(scenario_named: Callable[..., Any]) -> None:
    events = encoded(scenario_named("stop_string").batches, fullstop={"report": True})

    (delta,) = [json.loads(data) for name, data in events if name == "message_delta"]
    assert delta["fullstop"]["stop"] == {
        "kind": "stop_string",
        "value": "STOP",
        "token_id": None,
        "token_text": None,
        "channel": "text",
        "text_offset": 6,
        "token_index": None,
        "held": "",
        "dropped": "STOP D",
    }


def test_lines_contain_no_separator_at_which_a_client_might_split(
    scenario_named: Callable[..., Any],
) -> None:
    for event in encoded(scenario_named("text").batches):
        assert event.frame().isascii()


def test_a_failure_is_one_error_event() -> None:
    (event,) = encoder().fail(ApiError(ErrorKind.INTERNAL, "the device was lost"))

    assert event.name == "error"
    assert json.loads(event.data) == {
        "type": "error",
        "error": {"type": "api_error", "message": "the device was lost"},
        "request_id": "req_1",
    }


@pytest.mark.parametrize("name", ["error_after_text", "cancelled"])
def test_a_broken_answer_has_no_normal_end(scenario_named: Callable[..., Any], name: str) -> None:
    names = [event.name for event in encoded(scenario_named(name).batches)]

    assert names[-1] == "error"
    assert "message_delta" not in names
    assert "message_stop" not in names

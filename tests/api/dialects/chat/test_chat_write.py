import itertools
from collections.abc import Callable, Iterable
from typing import Any

from api.dialects.chat.wire import ChatCompletionParams
from api.dialects.chat.write import ChatEncoder
from api.dialects.shared.dialect import Head
from api.transport.answer_text import SseEvent
from engine.values.events import Event
from tests.support.answers.encoding import chunks, written

ASK = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}


def encoder(**fields: Any) -> ChatEncoder:
    params = ChatCompletionParams.model_validate({**ASK, **fields})
    return ChatEncoder(params, Head("1", 1_795_000_000, "demo-model"))


def encoded(batches: Iterable[list[Event]], **fields: Any) -> list[SseEvent]:
    return written(encoder(**fields), batches)


def test_a_conversation_matches_its_golden_file(scenario: Any, check_golden: Any) -> None:
    check_golden("chat", scenario.name, encoded(scenario.batches))


def test_a_conversation_with_usage_matches_its_golden_file(
    scenario_named: Callable[..., Any], check_golden: Any
) -> None:
    events = encoded(scenario_named("text").batches, stream_options={"include_usage": True})

    check_golden("chat", "text_with_usage", events)


def test_every_chunk_names_the_answer(scenario_named: Callable[..., Any]) -> None:
    for chunk in chunks(encoded(scenario_named("tool_calls").batches)):
        assert {"id", "object", "created", "model", "choices"} <= chunk.keys()
        assert "usage" not in chunk


def test_a_second_call_is_left_out_if_only_one_is_wanted(
    scenario_named: Callable[..., Any],
) -> None:
    events = encoded(scenario_named("tool_calls").batches, parallel_tool_calls=False)

    deltas = [c["choices"][0]["delta"] for c in chunks(events)]
    assert {call["index"] for delta in deltas for call in delta.get("tool_calls", [])} == {0}


def test_choices_carry_their_index_and_end_with_one_done(
    scenario_named: Callable[..., Any],
) -> None:
    writer = encoder(n=2, stream_options={"include_usage": True})
    one, two = scenario_named("stop_string").batches, scenario_named("token_limit").batches
    events: list[SseEvent] = []
    for first, second in itertools.zip_longest(one, two, fillvalue=[]):
        events += [*writer.encode(first, 0), *writer.encode(second, 1)]

    ends = {
        choice["index"]: (choice["finish_reason"], choice["matched_stop"])
        for chunk in chunks(events)
        for choice in chunk["choices"]
        if choice["finish_reason"] is not None
    }
    assert ends == {0: ("stop", "STOP"), 1: ("length", None)}
    assert [event.data for event in events].count("[DONE]") == 1
    usage = chunks(events)[-1]["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"]) == (12, 6 + 5)


def test_the_stop_record_is_sent_on_request(scenario_named: Callable[..., Any]) -> None:
    events = encoded(scenario_named("token_limit").batches, fullstop={"report": True})

    assert chunks(events)[-1]["choices"][0]["fullstop"]["stop"]["kind"] == "max_tokens"


def test_a_broken_answer_ends_with_only_an_error_chunk(scenario_named: Callable[..., Any]) -> None:
    events = encoded(scenario_named("error_after_text").batches)

    assert chunks(events)[-1] == {
        "error": {
            "message": "the device was lost",
            "type": "server_error",
            "param": None,
            "code": None,
        }
    }
    assert "[DONE]" not in [event.data for event in events]

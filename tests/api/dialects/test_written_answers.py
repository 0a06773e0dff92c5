"""Answers as each API writes them, whole and streamed: golden conversations, ends, usage."""

import itertools
import json
from typing import Any

import pytest

from api.service.errors import ApiError
from engine.generation import merge_deltas
from engine.stopping.record import StopInfo, StopKind
from engine.values.events import (
    Finished,
    Speculation,
    TextDelta,
    ThinkingDelta,
    Timing,
    Usage,
)
from tests.api.dialects.asking import HI, ROUTES, data_of, encoder, event_of, events, request, whole
from tests.api.scenarios import SCENARIOS, is_raw

RAW = ("completions", "generate")
# A golden file of its own: the API, the scenario, the file, and the fields of the request.
VARIANTS: list[tuple[str, str, str, dict[str, Any]]] = [
    ("chat", "text", "text_with_usage", {"stream_options": {"include_usage": True}}),
    (
        "completions",
        "stop_string",
        "stop_string_with_usage_and_echo",
        {"echo": True, "stream_options": {"include_usage": True}},
    ),
    ("responses", "stop_string", "stop_string_with_report", {"stop": "STOP"}),
    ("responses", "thinking", "thinking_as_summary", {"reasoning": {"summary": "auto"}}),
]
GOLDEN = [
    *((api, name, name, {}) for api in ROUTES for name in SCENARIOS
      if api not in RAW or is_raw(SCENARIOS[name])),
    *VARIANTS,
]  # fmt: skip


def ended(
    stop: StopInfo, usage: Usage | None = None, speculation: Speculation | None = None
) -> Finished:
    return Finished(
        stop, usage or Usage(3, 0, 2, 0), Timing(), speculation=speculation or Speculation()
    )


@pytest.mark.parametrize(
    ("api", "scenario", "file", "fields"),
    GOLDEN,
    ids=[f"{api} {file}" for api, _, file, _ in GOLDEN],
)
def test_a_conversation_matches_its_golden_file(
    check_golden: Any, api: str, scenario: str, file: str, fields: dict[str, Any]
) -> None:
    sent = events(
        api,
        SCENARIOS[scenario],
        **({"prompt": "Once"} | fields if api == "completions" else fields),
    )

    check_golden(api, file, sent)


# -- ends --------------------------------------------------------------------------------------

COMPLETE, INCOMPLETE = ("completed", None), ("incomplete", None)
# For each normal end: the reason and what matched in Messages, in the OpenAI dialects, in
# Responses.
ENDS: dict[StopKind, tuple[StopInfo, Any, Any, Any]] = {
    stop.kind: (stop, *reasons)
    for stop, *reasons in (
        (StopInfo(StopKind.EOS), ("end_turn", None), ("stop", None), COMPLETE),
        (
            StopInfo(StopKind.STOP_STRING, "END"),
            ("stop_sequence", "END"),
            ("stop", "END"),
            COMPLETE,
        ),
        (StopInfo(StopKind.STOP_TOKEN, 21), ("end_turn", None), ("stop", 21), COMPLETE),
        (StopInfo(StopKind.MAX_TOKENS), ("max_tokens", None), ("length", None), INCOMPLETE),
        (
            StopInfo(StopKind.CONTEXT_FULL),
            ("model_context_window_exceeded", None),
            ("length", None),
            INCOMPLETE,
        ),
        (StopInfo(StopKind.MEMORY_FULL), ("max_tokens", None), ("length", None), INCOMPLETE),
        (StopInfo(StopKind.TOOL_CALL), ("tool_use", None), ("tool_calls", None), COMPLETE),
    )
}


def reason_of(body: Any) -> tuple[str, Any]:
    match body:
        case {"choices": [{"finish_reason": reason, "matched_stop": matched}]}:
            return reason, matched
        case {"stop_reason": reason, "stop_sequence": matched}:
            return reason, matched
    return body["status"], None


@pytest.mark.parametrize("kind", ENDS)
def test_a_normal_end_has_its_reason_and_what_matched(kind: StopKind) -> None:
    stop, *expected = ENDS[kind]
    for api, reason in zip(("messages", "chat", "responses"), expected, strict=True):
        assert reason_of(whole(api, ([TextDelta("Ho")], ended(stop)))) == reason


@pytest.mark.parametrize("api", ["messages", "chat", "completions", "responses"])
@pytest.mark.parametrize("kind", [StopKind.ERROR, StopKind.CANCELLED])
def test_an_end_that_is_not_normal_has_no_reason(api: str, kind: StopKind) -> None:
    with pytest.raises(ApiError):
        whole(api, ([], ended(StopInfo(kind))))


BROKEN = {
    "messages": {
        "type": "error",
        "error": {"type": "api_error", "message": "the device was lost"},
        "request_id": "req_1",
    },
    "chat": {
        "error": {
            "message": "the device was lost",
            "type": "server_error",
            "param": None,
            "code": None,
        }
    },
}


@pytest.mark.parametrize("name", ["error_after_text", "cancelled"])
@pytest.mark.parametrize("api", ROUTES)
def test_a_broken_answer_ends_with_only_its_error(api: str, name: str) -> None:
    sent = events(api, SCENARIOS[name])
    last = data_of(sent)[-1]

    assert not {"message_delta", "message_stop", "response.completed"} & {one.name for one in sent}
    if api == "responses":
        assert (last["type"], last["response"]["status"]) == ("response.failed", "failed")
        last = last["response"]
    elif api == "generate":
        assert last["meta_info"]["finish_reason"]["type"] == "abort"
    else:
        assert "[DONE]" not in [one.data for one in sent]
    if name == "error_after_text":
        assert "the device was lost" in json.dumps(last["error"])
        assert last == BROKEN.get(api, last)


# -- what a request asks for -------------------------------------------------------------------


@pytest.mark.parametrize("api", ["messages", "chat", "generate", "ollama_chat"])
def test_the_stop_record_is_sent_on_request(api: str) -> None:
    def reports(wanted: bool) -> list[Any]:
        sent = data_of(events(api, SCENARIOS["stop_string"], fullstop={"report": wanted}))
        parts = [part for one in sent for part in (one, *one.get("choices", ()))]
        return [part["fullstop"]["stop"] for part in parts if "fullstop" in part]

    assert reports(False) == []
    assert reports(True) == [
        {
            "kind": "stop_string",
            "value": "STOP",
            "token_id": None,
            "token_text": None,
            "channel": "text",
            "text_offset": 6,
            "token_index": None,
            "held": "",
            "dropped": "STOP D",
            "source": None,
        }
    ]


@pytest.mark.parametrize(
    ("api", "fields", "mark"),
    [
        (
            "messages",
            {"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}},
            '"type": "tool_use"',
        ),
        ("chat", {"parallel_tool_calls": False}, '"type": "function"'),
        ("responses", {"parallel_tool_calls": False}, '"type": "response.output_item.done"'),
    ],
)
def test_a_second_call_is_left_out_if_only_one_is_wanted(
    api: str, fields: dict[str, Any], mark: str
) -> None:
    def marked(**asked: Any) -> int:
        sent = data_of(events(api, SCENARIOS["tool_calls"], **asked))
        return sum(mark in json.dumps(one) for one in sent)

    *parts, end = merge_deltas(list(itertools.chain.from_iterable(SCENARIOS["tool_calls"])))
    assert isinstance(end, Finished)
    finished = end

    def called(**asked: Any) -> int:
        answer = json.dumps(whole(api, (parts, finished), **asked))
        return answer.count('"input": {' if api == "messages" else '"arguments": ')

    assert marked(**fields) == marked() - 1
    assert called(**fields) == called() - 1


def test_omitted_thinking_comes_back_by_its_signature() -> None:
    *parts, end = merge_deltas(list(itertools.chain.from_iterable(SCENARIOS["thinking"])))
    assert isinstance(end, Finished)
    thought = "".join(part.text for part in parts if isinstance(part, ThinkingDelta))
    omitted = {"thinking": {"type": "adaptive", "display": "omitted"}}
    message: Any = whole("messages", (parts, end), **omitted)
    streamed = data_of(events("messages", SCENARIOS["thinking"], **omitted))
    [signed] = [one["delta"] for one in streamed if "signature_delta" in json.dumps(one)]
    block = message["content"][0]

    assert thought
    assert (block["thinking"], block["signature"]) == ("", signed["signature"])
    history = [*HI, {"role": "assistant", "content": [block]}, *HI]
    assert request("messages", messages=history).messages[1].thinking == thought


def test_chat_leaves_reasoning_out_of_the_answer_on_request() -> None:
    *parts, end = merge_deltas(list(itertools.chain.from_iterable(SCENARIOS["thinking"])))
    assert isinstance(end, Finished)
    for excluded in (False, True):
        asked = {"reasoning": {"exclude": excluded}}
        streamed = [one.data for one in events("chat", SCENARIOS["thinking"], **asked)]

        assert (
            "reasoning_content" in json.dumps(whole("chat", (parts, end), **asked))
        ) is not excluded
        assert any("reasoning_content" in data for data in streamed) is not excluded
        assert any('"content":"4"' in data for data in streamed)


def test_choices_carry_their_index_and_end_with_one_done() -> None:
    writer = encoder("chat", n=2, stream_options={"include_usage": True})
    one, two = SCENARIOS["stop_string"], SCENARIOS["token_limit"]
    sent: list[Any] = []
    for first, second in itertools.zip_longest(one, two, fillvalue=[]):
        sent += map(event_of, [*writer.encode(first, 0), *writer.encode(second, 1)])
    *chunks, last = data_of(sent)
    ends = {
        choice["index"]: (choice["finish_reason"], choice["matched_stop"])
        for chunk in chunks
        for choice in chunk["choices"]
        if choice["finish_reason"] is not None
    }

    assert ends == {0: ("stop", "STOP"), 1: ("length", None)}
    assert [event.data for event in sent].count("[DONE]") == 1
    assert (last["usage"]["prompt_tokens"], last["usage"]["completion_tokens"]) == (12, 6 + 5)

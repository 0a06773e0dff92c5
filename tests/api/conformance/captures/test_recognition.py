"""Answers of any server are read, whatever surrounds them."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from api.conformance.captures.diagnosis import diagnose
from api.conformance.captures.recognition import parse
from api.conformance.captures.values import CapturedEnding, WireDialect
from tests.support.random_cases import cases

MESSAGE = {
    "type": "message",
    "model": "m",
    "content": [{"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": "A B "}],
    "stop_reason": "stop_sequence",
    "stop_sequence": "STOP",
    "usage": {"input_tokens": 5, "output_tokens": 3, "cache_read_input_tokens": 2},
}
MESSAGE_EVENTS = [
    {"type": "message_start", "message": {"model": "m", "usage": {"input_tokens": 5}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {
        "type": "content_block_delta",
        "index": 0,
        "delta": {"type": "text_delta", "text": "A\u2028 "},
    },
    {"type": "ping"},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "B"}},
    {"type": "content_block_stop", "index": 0},
    {
        "type": "message_delta",
        "delta": {"stop_reason": "end_turn", "stop_sequence": None},
        "usage": {"output_tokens": 7},
    },
    {"type": "message_stop"},
]


def sse(events: list[dict[str, Any]], *, end: str = "\n") -> str:
    # Not ASCII: a line separator inside JSON must not end a line.
    return "".join(
        f"event: {event['type']}{end}data: {json.dumps(event, ensure_ascii=False)}{end}{end}"
        for event in events
    )


def chunks(*choices: dict[str, Any], **last: Any) -> str:
    body = [{"object": "chat.completion.chunk", "choices": [choice]} for choice in choices]
    lines = [f"data: {json.dumps(chunk)}\n\n" for chunk in [*body, *([last] if last else [])]]
    return "".join(lines) + "data: [DONE]\n\n"


def test_a_message_is_read() -> None:
    capture = parse(json.dumps(MESSAGE, indent=2))
    assert capture.dialect is WireDialect.MESSAGES
    assert (capture.text, capture.thinking, capture.model) == ("A B ", "Hm.", "m")
    assert (capture.reason, capture.ending) == ("stop_sequence", CapturedEnding.STOP)
    assert capture.matched == "STOP"
    assert capture.usage is not None
    assert (capture.usage.input_tokens, capture.usage.output_tokens) == (5, 3)
    assert capture.usage.cached_tokens == 2
    assert capture.findings == ()
    assert not capture.is_streamed


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_stream_of_messages_is_read_event_by_event(end: str) -> None:
    capture = parse(": still here\n\n" + sse(MESSAGE_EVENTS, end=end))
    assert capture.is_streamed
    assert capture.text == "A\u2028 B"
    assert (capture.ending, capture.matched) == (CapturedEnding.NATURAL, None)
    assert [event.text for event in capture.events if event.text] == ["A\u2028 ", "B"]
    assert capture.usage is not None
    assert (capture.usage.input_tokens, capture.usage.output_tokens) == (5, 7)
    assert capture.findings == ()


def test_chat_is_read_whole_and_streamed() -> None:
    message = {"role": "assistant", "content": "A B ", "reasoning_content": "Hm."}
    choice = {"index": 0, "message": message, "finish_reason": "stop", "matched_stop": "STOP"}
    usage = {"prompt_tokens": 5, "completion_tokens": 3}
    whole = parse(json.dumps({"model": "m", "choices": [choice], "usage": usage}))
    assert (whole.dialect, whole.text, whole.thinking) == (WireDialect.CHAT, "A B ", "Hm.")
    assert (whole.ending, whole.matched, whole.reports_match) == (CapturedEnding.STOP, "STOP", True)
    streamed = parse(
        chunks(
            {"index": 0, "delta": {"role": "assistant", "reasoning": "Hm."}},
            {"index": 0, "delta": {"content": "A B "}},
            {"index": 0, "delta": {}, "finish_reason": "stop"},
            choices=[],
            usage=usage,
        )
    )
    assert (streamed.text, streamed.thinking) == ("A B ", "Hm.")
    assert (streamed.ending, streamed.reports_match) == (CapturedEnding.NATURAL_OR_STOP, False)
    assert streamed.usage is not None
    assert streamed.usage.output_tokens == 3
    assert streamed.findings == ()


def test_the_parts_of_a_tool_call_are_put_together() -> None:
    first = {"index": 0, "function": {"name": "look", "arguments": '{"a"'}}
    second = {"index": 0, "function": {"arguments": ": 1}"}}
    capture = parse(
        chunks(
            {"index": 0, "delta": {"tool_calls": [first]}},
            {"index": 0, "delta": {"tool_calls": [second]}},
            {"index": 0, "delta": {}, "finish_reason": "tool_calls"},
        )
    )
    [call] = capture.tool_calls
    assert (call.name, call.arguments) == ("look", '{"a": 1}')
    assert capture.ending is CapturedEnding.TOOL


@pytest.mark.parametrize("kinds", [("delta", "done"), ("done",), ()], ids="+".join)
def test_the_arguments_of_a_streamed_call_are_read_once_wherever_they_come(
    kinds: tuple[str, ...],
) -> None:
    arguments = '{"place": "Oslo"}'
    call = {"type": "function_call", "name": "look", "call_id": "c", "id": "f"}
    named = {"delta": "delta", "done": "arguments"}
    body = {"object": "response", "status": "completed", "model": "m", "output": []}
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": body | {"status": "in_progress"}},
        {"type": "response.output_item.added", "item": call | {"arguments": ""}},
        *(
            {"type": f"response.function_call_arguments.{kind}", named[kind]: arguments}
            for kind in kinds
        ),
        {"type": "response.output_item.done", "item": call | {"arguments": arguments}},
        {"type": "response.completed", "response": body},
    ]
    capture = parse(sse([event | {"output_index": 0} for event in events]))
    assert [(one.name, one.arguments) for one in capture.tool_calls] == [("look", arguments)]


def test_a_custom_call_of_a_response_is_read_with_its_name() -> None:
    call = {"type": "custom_tool_call", "name": "apply_patch", "call_id": "c", "id": "f"}
    body = {"object": "response", "status": "completed", "model": "m", "output": []}
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": body | {"status": "in_progress"}},
        {"type": "response.output_item.added", "item": call | {"input": ""}},
        {"type": "response.custom_tool_call_input.delta", "delta": "*** Begin"},
        {"type": "response.custom_tool_call_input.done", "input": "*** Begin"},
        {"type": "response.output_item.done", "item": call | {"input": "*** Begin"}},
        {"type": "response.completed", "response": body},
    ]
    whole = json.dumps(body | {"output": [call | {"input": "*** Begin"}]})
    for text in (whole, sse([event | {"output_index": 0} for event in events])):
        assert [one.name for one in parse(text).tool_calls] == ["apply_patch"]


def test_completions_are_distinguished_from_chat() -> None:
    choice = {"index": 0, "text": "A", "finish_reason": "length"}
    capture = parse(json.dumps({"choices": [choice], "usage": {"completion_tokens": 1}}))
    assert (capture.dialect, capture.text) == (WireDialect.COMPLETIONS, "A")
    assert capture.ending is CapturedEnding.LIMIT


def test_frames_of_cumulative_text_add_up() -> None:
    frames = [
        {"text": "A", "meta_info": {"finish_reason": None}},
        {
            "text": "A B ",
            "output_ids": [1, 2],
            "meta_info": {
                "finish_reason": {"type": "stop", "matched": "STOP"},
                "prompt_tokens": 4,
                "completion_tokens": 3,
            },
        },
    ]
    text = "".join(f"data: {json.dumps(frame)}\n\n" for frame in frames) + "data: [DONE]\n\n"
    capture = parse(text)
    assert (capture.dialect, capture.text) == (WireDialect.GENERATE, "A B ")
    assert [event.text for event in capture.events] == ["A", " B ", ""]
    assert (capture.matched, capture.output_ids) == ("STOP", (1, 2))
    assert capture.findings == ()


def test_lines_of_ollama_are_read() -> None:
    lines = [
        {"model": "m", "message": {"role": "assistant", "content": "A "}, "done": False},
        {"model": "m", "message": {"content": "B", "thinking": "Hm."}, "done": False},
        {
            "model": "m",
            "message": {"content": ""},
            "done": True,
            "done_reason": "length",
            "prompt_eval_count": 5,
            "eval_count": 2,
        },
    ]
    capture = parse("\n".join(map(json.dumps, lines)))
    assert (capture.dialect, capture.text) == (WireDialect.OLLAMA, "A B")
    assert (capture.thinking, capture.ending) == ("Hm.", CapturedEnding.LIMIT)
    assert capture.is_streamed
    assert capture.findings == ()
    single = parse(json.dumps({"response": "A", "done": True, "done_reason": "stop"}))
    assert (single.text, single.is_streamed) == ("A", False)


CURL = (
    "$ curl -sS http://127.0.0.1/v1/messages \\\n"
    "  -H 'content-type: application/json' \\\n"
    '  -d \'{"model": "m", "stop_sequences": ["STOP", "it\'"\'"\'s"]}\'\n'
)


def test_the_output_of_curl_i_is_read_with_its_headers_and_its_command() -> None:
    text = f"{CURL}HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n{json.dumps(MESSAGE)}"
    capture = parse(text)
    assert (capture.status, capture.headers["content-type"]) == (200, "application/json")
    assert capture.request_stops == ("STOP", "it's")
    assert capture.text == "A B "


def test_the_output_of_curl_v_is_read() -> None:
    text = (
        "*   Trying 127.0.0.1:8080...\n> POST /v1/messages HTTP/1.1\n> host: x\n>\n"
        "} [20 bytes data]\n< HTTP/1.1 100 Continue\n<\n< HTTP/1.1 429 Too Many\n"
        f"< retry-after: 3\n<\n{json.dumps({'type': 'error', 'error': {'message': 'busy'}})}\n"
        "* Connection #0 to host left intact\n"
    )
    capture = parse(text)
    assert (capture.status, capture.headers) == (429, {"retry-after": "3"})
    assert (capture.dialect, capture.error) == (WireDialect.MESSAGES, "busy")


def test_chunks_collected_in_an_array_are_a_stream() -> None:
    capture = parse(json.dumps(MESSAGE_EVENTS))
    assert capture.is_streamed
    assert capture.text == "A\u2028 B"


@pytest.mark.parametrize("text", ["", "   \n", "hello", "[1, 2]", '"text"', "{}", "<html></html>"])
def test_text_that_is_not_an_answer_is_reported_as_such(text: str) -> None:
    capture = parse(text)
    assert capture.dialect is None
    assert [finding.code for finding in capture.findings] == ["unknown_dialect"]


# fmt: off
WORDS = [
    "type", "message", "content", "text", "usage", "stop_reason", "stop_sequence", "index",
    "delta", "content_block", "choices", "finish_reason", "tool_calls", "function", "arguments",
    "object", "response", "output", "item", "item_id", "status", "error", "output_index",
    "content_index", "sequence_number", "meta_info", "output_ids", "done", "done_reason", "name",
    "data", "message_start", "content_block_start", "content_block_delta", "content_block_stop",
    "message_delta", "message_stop", "response.created", "response.output_item.added",
    "response.content_part.added", "response.output_text.delta", "response.output_text.done",
    "response.completed", "function_call", "reasoning", "tool_use", "thinking", "stop",
    "matched", "fullstop", "completed", "failed", "incomplete",
]
# fmt: on
ANY_JSON = st.recursive(
    st.sampled_from(WORDS) | st.none() | st.booleans() | st.integers(-1, 3) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=4)
    ),
    max_leaves=12,
)


@settings(max_examples=cases(120), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(ANY_JSON, max_size=4), st.sampled_from([None, *WireDialect]))
def test_random_values_in_an_answer_are_read_without_a_failure(
    bodies: list[Any], dialect: WireDialect | None
) -> None:
    for form in ("{}", "data: {}\n\n", "event: message_start\ndata: {}\n\n", "data: {}\n"):
        text = "\n".join(form.format(json.dumps(body)) for body in bodies)
        assert isinstance(diagnose(parse(text, dialect), ["stop"]), list)

"""Answers of APIs that Fullstop does not serve are read, and reported in their own words."""

import json
from typing import Any

import pytest

from api.conformance.captures.diagnosis import diagnose
from api.conformance.captures.recognition import parse
from api.conformance.captures.values import Capture, CapturedEnding, CapturedUsage, WireDialect


def sse(*events: dict[str, Any]) -> str:
    return "".join(f"data: {json.dumps(event)}\n\n" for event in events)


def read(captured: str) -> tuple[Capture, set[str]]:
    capture = parse(captured)
    return capture, {one.code for one in diagnose(capture, ["END"])}


# -- llama.cpp --------------------------------------------------------------------------------

LLAMA = {
    "index": 0, "content": "", "stop": True, "model": "m", "tokens_predicted": 3,
    "tokens_evaluated": 5, "stop_type": "word", "stopping_word": "END",
}  # fmt: skip


def test_an_answer_of_llama_cpp_names_the_stop_that_matched() -> None:
    capture, findings = read(json.dumps(LLAMA | {"content": "A B "}))
    assert (capture.dialect, capture.text) == (WireDialect.LLAMA_CPP, "A B ")
    assert (capture.ending, capture.matched) == (CapturedEnding.STOP, "END")
    assert capture.usage == CapturedUsage(5, 3)
    assert findings == set()


def test_a_stream_of_llama_cpp_ends_at_its_stop_field() -> None:
    piece = {"index": 0, "content": "A B ", "tokens": [1, 2], "stop": False}
    capture, findings = read(sse(piece, LLAMA))
    assert (capture.text, capture.is_streamed, capture.output_ids) == ("A B ", True, (1, 2))
    assert findings == set()
    assert read(sse(piece))[1] == {"end_marker_missing", "reason_missing"}


@pytest.mark.parametrize(
    ("more", "ending"),
    [
        ({"stop_type": "eos", "stopping_word": ""}, CapturedEnding.NATURAL),
        ({"stop_type": "limit", "stopping_word": ""}, CapturedEnding.LIMIT),
        ({"stop_type": None, "stopped_limit": True, "stopping_word": ""}, CapturedEnding.LIMIT),
    ],
)
def test_the_old_and_the_new_reasons_of_llama_cpp_are_read(
    more: dict[str, Any], ending: CapturedEnding
) -> None:
    capture, findings = read(json.dumps(LLAMA | more))
    assert (capture.ending, capture.matched, findings) == (ending, None, set())


# -- TGI --------------------------------------------------------------------------------------

DETAILS = {"finish_reason": "stop_sequence", "generated_tokens": 2, "input_length": 5}


def token(number: int, text: str, whole: str | None = None) -> dict[str, Any]:
    details = None if whole is None else DETAILS
    one = {"id": number, "text": text, "special": False}
    return {"index": number, "token": one, "generated_text": whole, "details": details}


def test_an_answer_of_tgi_is_read_with_its_details() -> None:
    capture, findings = read(json.dumps({"generated_text": "A B ", "details": DETAILS}))
    assert (capture.dialect, capture.text) == (WireDialect.TGI, "A B ")
    assert (capture.reason, capture.ending) == ("stop_sequence", CapturedEnding.STOP)
    assert capture.usage == CapturedUsage(5, 2)
    assert findings == set()


def test_a_stream_of_tgi_ends_with_the_whole_text() -> None:
    capture, findings = read(sse(token(1, "A"), token(2, " B", "A B")))
    assert (capture.text, capture.output_ids, findings) == ("A B", (1, 2), set())
    assert read(sse(token(1, "A"), token(2, " B", "A  B")))[1] == {"text_differs"}
    assert read(sse(token(1, "A")))[1] == {"end_marker_missing", "reason_missing"}


def test_an_answer_of_tgi_without_details_has_no_finding() -> None:
    assert read(json.dumps({"generated_text": "A"}))[1] == {"details_missing"}


# -- Gemini -----------------------------------------------------------------------------------


def candidate(text: str, reason: str | None = None, **more: Any) -> dict[str, Any]:
    parts = [{"text": text}] if text else []
    one = {"index": 0, "content": {"parts": parts, "role": "model"}}
    if reason:
        one["finishReason"] = reason
    return {"candidates": [one], "responseId": "r", "modelVersion": "m"} | more


COUNTED = {
    "usageMetadata": {
        "promptTokenCount": 5,
        "candidatesTokenCount": 2,
        "thoughtsTokenCount": 4,
        "totalTokenCount": 11,
    }
}


@pytest.mark.parametrize("is_array", [True, False])
def test_a_stream_of_gemini_is_read_from_events_and_from_an_array(is_array: bool) -> None:
    pieces = [candidate("A "), candidate("B ", "STOP", **COUNTED)]
    capture, findings = read(json.dumps(pieces) if is_array else sse(*pieces))
    assert (capture.dialect, capture.text) == (WireDialect.GEMINI, "A B ")
    assert (capture.reason, capture.ending) == ("STOP", CapturedEnding.NATURAL_OR_STOP)
    assert findings == set()


def test_the_thinking_and_the_calls_of_gemini_are_not_part_of_the_text() -> None:
    parts = [
        {"text": "Hm.", "thought": True},
        {"functionCall": {"name": "look", "args": {"a": 1}}},
    ]
    one = {"content": {"parts": parts}, "finishReason": "STOP"}
    capture, findings = read(json.dumps({"candidates": [one], **COUNTED}))
    assert (capture.text, capture.thinking, capture.ending) == ("", "Hm.", CapturedEnding.TOOL)
    assert capture.tool_calls[0].arguments == '{"a": 1}'
    assert findings == set()


def test_a_prompt_that_gemini_blocks_is_an_error() -> None:
    capture, findings = read(json.dumps({"promptFeedback": {"blockReason": "SAFETY"}} | COUNTED))
    assert (capture.error, findings) == ("the prompt was blocked: SAFETY", {"error"})


# -- Converse ---------------------------------------------------------------------------------


def test_an_answer_of_converse_is_read() -> None:
    body = {
        "output": {
            "message": {
                "role": "assistant",
                "content": [
                    {"reasoningContent": {"reasoningText": {"text": "Hm."}}},
                    {"text": "A B "},
                    {"toolUse": {"toolUseId": "t", "name": "look", "input": {"a": 1}}},
                ],
            }
        },
        "stopReason": "tool_use",
        "usage": {"inputTokens": 5, "outputTokens": 3, "totalTokens": 8},
    }
    capture, findings = read(json.dumps(body))
    assert (capture.dialect, capture.text) == (WireDialect.CONVERSE, "A B ")
    assert (capture.thinking, capture.ending) == ("Hm.", CapturedEnding.TOOL)
    assert findings == set()


def test_a_stream_of_converse_names_the_stop_if_the_model_does() -> None:
    events = [
        {"messageStart": {"role": "assistant"}},
        {"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"text": "A B "}}},
        {"contentBlockStop": {"contentBlockIndex": 0}},
        {
            "messageStop": {
                "stopReason": "stop_sequence",
                "additionalModelResponseFields": {"stop_sequence": "END"},
            }
        },
        {"metadata": {"usage": {"inputTokens": 5, "outputTokens": 3, "totalTokens": 8}}},
    ]
    capture, findings = read(sse(*events))
    assert (capture.text, capture.matched, findings) == ("A B ", "END", set())
    assert read(sse(*events[:3]))[1] == {"end_marker_missing", "reason_missing"}
    assert read(sse(events[1], events[0], *events[2:]))[1] == {"event_order"}


def test_an_exception_in_a_stream_of_converse_is_an_error() -> None:
    events = [{"messageStart": {"role": "assistant"}}, {"throttlingException": {"message": "slow"}}]
    capture, findings = read(sse(*events))
    assert (capture.error, findings) == ("slow", {"error_in_stream"})

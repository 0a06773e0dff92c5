"""Impossible statements of an answer are found: reasons, counts, calls, in each choice."""

import json
from typing import Any

import pytest

from api.conformance.captures.diagnosis import diagnose
from api.conformance.captures.recognition import parse
from api.conformance.captures.values import Severity


def answer(
    choices: list[dict[str, Any]] | None = None, usage: dict[str, Any] | None = None, **choice: Any
) -> str:
    message = {"role": "assistant", "content": "A"}
    first = {"index": 0, "message": message, "finish_reason": "stop"} | choice
    counts = {"prompt_tokens": 5, "completion_tokens": 1, "total_tokens": 6}
    return json.dumps({"choices": choices or [first], "usage": counts | (usage or {})})


def calling(arguments: str, reason: str = "tool_calls", name: str = "look") -> str:
    call = {"id": "c", "type": "function", "function": {"name": name, "arguments": arguments}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    return answer(message=message, finish_reason=reason)


def found(captured: str, *stops: str) -> dict[str, Severity]:
    return {one.code: one.severity for one in diagnose(parse(captured), stops)}


@pytest.mark.parametrize(
    ("usage", "code"),
    [
        ({"completion_tokens": -1, "total_tokens": 4}, "usage_negative"),
        ({"completion_tokens": 0, "total_tokens": 5}, "usage_zero"),
        ({"completion_tokens": "1"}, "usage_invalid"),
        ({"total_tokens": 7}, "usage_total"),
        ({"completion_tokens_details": {"reasoning_tokens": 2}}, "usage_reasoning"),
    ],
)
def test_impossible_counts_are_found(usage: dict[str, Any], code: str) -> None:
    assert found(answer()) == {}
    assert set(found(answer(usage=usage))) == {code}


def test_reasoning_without_tokens_is_found() -> None:
    message = {"role": "assistant", "content": "A", "reasoning_content": "The first letter. " * 3}
    usage = {"completion_tokens_details": {"reasoning_tokens": 0}}
    assert set(found(answer(message=message))) == set()
    assert set(found(answer(message=message, usage=usage))) == {"usage_reasoning"}


@pytest.mark.parametrize(
    ("captured", "known"),
    [
        (answer(finish_reason="banana"),
         "content_filter, function_call, length, repetition, stop, tool_calls"),
        (json.dumps({"type": "message", "content": [], "stop_reason": "stop", "usage": {}}),
         "end_turn"),
        (json.dumps({"response": "", "done": True, "done_reason": "eos", "eval_count": 1}), "load"),
    ],
)  # fmt: skip
def test_a_reason_that_the_api_does_not_have_is_found(captured: str, known: str) -> None:
    [finding] = [one for one in diagnose(parse(captured)) if one.code == "unknown_reason"]
    assert finding.severity is Severity.ERROR
    assert known in finding.sentence


@pytest.mark.parametrize("arguments", ["", "{", '{"a": }', "[1]", "null", '"text"'])
def test_arguments_that_are_not_an_object_are_found(arguments: str) -> None:
    assert found(calling('{"a": 1}')) == {}
    assert found(calling(arguments)) == {"arguments_broken": Severity.ERROR}


def test_arguments_that_the_limit_cut_off_have_no_finding() -> None:
    assert found(calling('{"a": ', "length")) == {"arguments_cut": Severity.NOTE}


def test_calls_without_a_name_and_reasons_without_a_call_are_found() -> None:
    assert found(calling("{}", name="")) == {"call_name_missing": Severity.ERROR}
    assert found(answer(finish_reason="tool_calls")) == {"call_missing": Severity.ERROR}


@pytest.mark.parametrize(
    ("reason", "part"),
    [
        ("function_call", {"function_call": {"name": "look", "arguments": "{}"}}),
        ("tool_calls", {"tool_calls": [{"type": "custom", "custom": {"name": "c", "input": "x"}}]}),
    ],
)
def test_function_calls_of_the_old_form_and_custom_tools_are_calls(
    reason: str, part: dict[str, Any]
) -> None:
    message = {"role": "assistant", "content": None, **part}
    assert found(answer(message=message, finish_reason=reason)) == {}


def choice(index: int, text: str, reason: str | None = "stop") -> dict[str, Any]:
    return {"index": index, "message": {"content": text}, "finish_reason": reason}


def test_every_choice_is_judged_and_named() -> None:
    choices = [choice(0, "A "), choice(1, "A END B"), choice(2, "A ", None), choice(3, "A ", "eh")]
    capture = parse(answer(choices))
    assert [(one.index, one.text) for one in capture.choices] == [
        (1, "A END B"), (2, "A "), (3, "A "),
    ]  # fmt: skip
    said = {one.code: one.sentence for one in diagnose(capture, ["END"])}
    assert set(said) == {"stop_in_text", "text_after_stop", "reason_missing", "unknown_reason"}
    assert said["stop_in_text"].startswith("Choice 1: ")
    assert said["reason_missing"].startswith("Choice 2: ")
    assert said["unknown_reason"].startswith("Choice 3: ")


def test_each_choice_of_a_stream_is_put_together_separately() -> None:
    pieces = [(0, "A"), (1, "X"), (0, "B"), (1, "END")]
    chunks = [{"index": at, "delta": {"content": text}} for at, text in pieces]
    chunks += [{"index": at, "delta": {}, "finish_reason": "stop"} for at in (0, 1)]
    lines = [f"data: {json.dumps({'choices': [one]})}\n\n" for one in chunks]
    capture = parse("".join(lines) + "data: [DONE]\n\n")
    assert (capture.text, capture.choices[0].text) == ("AB", "XEND")
    [finding] = [one for one in diagnose(capture, ["END"]) if one.code == "stop_in_text"]
    assert finding.event_index == 3


@pytest.mark.parametrize(
    ("head", "body", "code", "words"),
    [
        ("HTTP/1.1 400 Bad Request", '{"error": {"message": "no", "type": "x"}}',
         "error_status", "HTTP 400 Bad Request: no."),
        ("HTTP/1.1 429 Slow\nretry-after: 7", '{"error": {"message": "busy"}}',
         "error_status", "429 Too Many Requests: busy. The server asks to wait (retry-after: 7"),
        ("HTTP/1.1 502 X", "<html><head><title>Bad Gateway</title></head></html>",
         "error_status", "HTTP 502 Bad Gateway, an HTML page: Bad Gateway"),
        ("HTTP/1.1 200 OK", '{"error": {"message": "no"}}',
         "error", "an error, after HTTP 200 OK: no"),
        ("HTTP/1.1 200 OK",
         'data: {"choices": [{"delta": {"content": "A"}}]}\n\ndata: {"error": {"message": "gone"}}',
         "error_in_stream", "breaks off with an error, after HTTP 200 OK: gone"),
    ],
)  # fmt: skip
def test_errors_are_findings_with_their_status(head: str, body: str, code: str, words: str) -> None:
    [finding] = diagnose(parse(f"{head}\ncontent-type: x\n\n{body}"))
    assert (finding.code, finding.severity) == (code, Severity.ERROR)
    assert words in finding.sentence


@pytest.mark.parametrize(
    ("captured", "code"),
    [
        ({"text": "A", "meta_info": {"id": "g", "prompt_tokens": 5, "completion_tokens": 1,
          "finish_reason": "stop"}}, "field_form"),
        ({"type": "message", "content": [{"type": "text", "text": "A"}], "usage": {},
          "stop_reason": "end_turn", "stop_sequence": "B"}, "sequence_without_reason"),
    ],
)  # fmt: skip
def test_what_contradicts_itself_is_found(captured: dict[str, Any], code: str) -> None:
    assert code in found(json.dumps(captured))

"""Saved answers are read in every form that is supported, and each is judged by itself."""

import base64
import gzip
import json
from typing import Any

import pytest

from api.conformance.captures.diagnosis import diagnose
from api.conformance.captures.sources import captures_of
from api.conformance.captures.values import Capture, Severity, WireDialect
from tests.api.conformance.captures.saved import BODY, STOP, chunk, har, stream, whole

ANSWER = json.dumps(
    {
        "object": "chat.completion",
        "choices": [
            {"index": 0, "message": {"content": "1 2 3 "}, "finish_reason": "stop"},
        ],
    }
)

TEXT = "A é👋 B"
# No answer here has usage, as in streams whose request did not ask for it.
HARMLESS = {"usage_missing"}


def read(content: str | bytes) -> list[Capture]:
    return list(captures_of(content))


def faults(capture: Capture) -> set[str]:
    return {one.code for one in diagnose(capture)} - HARMLESS


PRETTY = json.dumps(whole(), indent=2)
FORMS: dict[str, str | bytes] = {
    "server-sent events": stream(),
    "server-sent events with carriage returns": stream().replace("\n", "\r\n").encode(),
    "a JSON body": json.dumps(whole()).encode(),
    "NDJSON": "\n".join(line[6:] for line in stream().split("\n") if line.startswith("data: {")),
    "curl -i": f"HTTP/1.1 200 OK\r\nserver: x\r\n\r\n{json.dumps(whole())}",
    "curl -v": f"*   Trying ::1...\n> POST / HTTP/1.1\n>\n< HTTP/1.1 200 OK\n<\n{stream()}",
    "a command, its answer, the prompt": f"$ curl -s http://x -d '{BODY}' | jq\n{PRETTY}\n$ \n",
}


@pytest.mark.parametrize("form", FORMS)
def test_an_answer_is_read_in_every_form(form: str) -> None:
    [capture] = read(FORMS[form])
    assert (capture.dialect, capture.text, capture.reason) == (WireDialect.CHAT, TEXT, "stop")
    assert faults(capture) == set()


def test_a_tool_that_the_vendor_runs_is_no_fault_of_a_message() -> None:
    query = {"type": "input_json_delta", "partial_json": '{"query": "x"}'}
    result = {"type": "web_search_tool_result", "tool_use_id": "s", "content": []}
    blocks: list[tuple[dict[str, Any], list[dict[str, Any]]]] = [
        ({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}, [query]),
        (result, []),
        ({"type": "text", "text": ""}, [{"type": "text_delta", "text": TEXT}]),
    ]
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {"usage": {"input_tokens": 5, "output_tokens": 1}}}
    ]
    for index, (block, deltas) in enumerate(blocks):
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        events += [{"type": "content_block_delta", "index": index, "delta": one} for one in deltas]
        events.append({"type": "content_block_stop", "index": index})
    end = {"stop_reason": "end_turn", "stop_sequence": None}
    events += [
        {"type": "message_delta", "delta": end, "usage": {"output_tokens": 3}},
        {"type": "message_stop"},
    ]
    text = "".join(f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in events)
    [capture] = read(text)
    assert (capture.text, diagnose(capture, ["END"])) == (TEXT, [])


UNSUPPORTED = {
    "quoted": "".join(f"> {line}\n" for line in stream().split("\n")),
    "a trace of curl": "<= Recv data, 9 bytes (0x9)\n0000: data: {}\n",
    "Gemini": json.dumps({"candidates": [{"content": {"parts": [{"text": TEXT}]}}]}),
    "a recording of asciinema": '{"version": 2, "width": 80}\n[0.1, "o", "data: {}"]\n',
}


@pytest.mark.parametrize("form", UNSUPPORTED)
def test_an_unsupported_form_is_refused_with_the_forms_that_are_read(form: str) -> None:
    [capture] = read(UNSUPPORTED[form])
    assert capture.dialect is None
    [finding] = diagnose(capture)
    assert finding.code == "unknown_dialect"
    assert (
        "NDJSON, the output of curl -i or -v, and HAR, with answers of Messages" in finding.sentence
    )


@pytest.mark.parametrize(
    "content",
    [gzip.compress(stream().encode()), stream().encode("utf-16"), stream().encode("utf-16-be")],
)
def test_a_file_that_is_not_utf8_text_is_refused_with_the_forms_that_are_read(
    content: bytes,
) -> None:
    with pytest.raises(
        ValueError, match=r"not UTF-8 text, but compressed or binary\. Supported are a JSON body"
    ):
        read(content)


# -- several answers --------------------------------------------------------------------------


def test_consecutive_streams_are_separate_answers() -> None:
    first, second = read(stream(name="a") + stream("other", name="b"))
    assert (first.text, second.text) == (TEXT, "other")
    assert faults(first) == faults(second) == set()


def test_answers_with_headers_are_separated_and_each_has_its_status() -> None:
    head = "HTTP/1.1 {} X\r\ncontent-type: application/json\r\n\r\n"
    busy = json.dumps({"error": {"message": "busy"}})
    text = head.format(200) + json.dumps(whole()) + "\n" + head.format(429) + busy
    fine, refused = read(text)
    assert (fine.status, fine.text) == (200, TEXT)
    assert (refused.status, refused.error) == (429, "busy")


def test_each_answer_is_judged_with_the_stops_of_the_request_before_it() -> None:
    command = "me@box:~$ curl -sS http://x -d '{}'\n"
    answers = [
        command.format(json.dumps({"stop": [stop]})) + json.dumps(whole("A B")) + "\n"
        for stop in ("B", "Z")
    ]
    leaking, fine = read("".join(answers))
    assert (leaking.request_stops, fine.request_stops) == (("B",), ("Z",))
    assert "stop_in_text" in faults(leaking)
    assert faults(fine) == set()


LISTS = {
    "JSON lines": lambda answers: "\n".join(map(json.dumps, answers)),
    "an array": json.dumps,
    "an indented array": lambda answers: json.dumps(answers, indent=2),
}


@pytest.mark.parametrize("form", LISTS)
def test_dumped_answers_are_separate_answers(form: str) -> None:
    found = read(LISTS[form]([whole("1", name="a"), whole("2", name="b"), whole("3", name="c")]))
    assert [one.text for one in found] == ["1", "2", "3"]
    assert not any(map(faults, found))


@pytest.mark.parametrize("form", LISTS)
def test_dumped_events_are_one_stream_without_the_syntax_of_server_sent_events(form: str) -> None:
    events = [json.loads(line[6:]) for line in stream().split("\n") if line.startswith("data: {")]
    [capture] = read(LISTS[form](events))
    assert (capture.text, capture.is_streamed, faults(capture)) == (TEXT, True, set())


def test_events_added_by_the_messages_client_are_ignored() -> None:
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {"model": "m", "usage": {"input_tokens": 5}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "A"}},
        {"type": "text", "text": "A", "snapshot": "A"},
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn", "stop_sequence": None},
            "usage": {"output_tokens": 1},
        },
        {"type": "message_stop"},
    ]
    found = read("\n".join(map(json.dumps, events * 2)))
    assert [(one.text, faults(one)) for one in found] == [("A", set())] * 2


def test_data_after_the_end_of_a_stream_is_a_fault_and_not_another_answer() -> None:
    broken = chunk("A") + chunk("", "stop") + chunk("B") + chunk("", "stop") + "data: [DONE]\n\n"
    [capture] = read(broken)
    assert faults(capture) == {"text_after_reason", "reason_repeated"}


# -- archives ---------------------------------------------------------------------------------


@pytest.mark.parametrize("as_file", [str, str.encode])
def test_an_archive_of_a_browser_is_read_exchange_by_exchange(as_file: Any) -> None:
    packed = base64.b64encode(stream().encode()).decode()
    url = "http://localhost:8080/v1/chat/completions"
    archive = har(
        (200, {"text": packed, "encoding": "base64", "mimeType": "text/event-stream"}, url),
        (200, {"text": json.dumps(whole())}, url),
        (502, {"text": "<html><head><title>Bad Gateway</title></head></html>"}, url),
        (200, {"size": 900}, url),
    )
    streamed, fine, broken, lost = read(as_file(json.dumps(archive, indent=1, ensure_ascii=False)))
    assert (streamed.text, streamed.is_streamed, streamed.request_stops) == (TEXT, True, (STOP,))
    assert streamed.headers["content-type"] == "text/event-stream"
    assert (fine.text, fine.label) == (TEXT, f"2: {url}")
    [finding] = diagnose(broken)
    assert (finding.code, finding.severity) == ("error_status", Severity.ERROR)
    assert "HTTP 502 Bad Gateway, an HTML page: Bad Gateway" in finding.sentence
    assert faults(lost) == {"body_missing"}
    assert lost.is_truncated


def test_a_truncated_archive_is_read_as_far_as_it_goes() -> None:
    answer = (200, {"text": json.dumps(whole())}, "http://x/v1/chat/completions")
    text = json.dumps(har(answer, answer))
    fine, rest = read(text[: text.index('"more"') - 20])
    assert fine.text == TEXT
    assert (faults(rest), rest.is_truncated) == ({"archive_damaged"}, True)


def test_stops_of_raw_http_requests_are_read() -> None:
    def exchange(stop: str) -> str:
        request = json.dumps({"messages": [{"role": "user", "content": "Count"}], "stop": [stop]})
        return (
            f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n\r\n{request}\r\n\r\n"
            f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{ANSWER}\r\n"
        )

    answers = list(captures_of(exchange("4") + exchange("7")))
    assert [answer.request_stops for answer in answers] == [("4",), ("7",)]
    assert [answer.text for answer in answers] == ["1 2 3 "] * 2


def test_stops_of_request_body_before_answer_are_read() -> None:
    request = json.dumps({"prompt": "Count", "stop": "4"}, indent=2)
    (answer,) = captures_of(f"{request}\n\n{ANSWER}")
    assert answer.request_stops == ("4",)
    assert len(answer.events) == 1

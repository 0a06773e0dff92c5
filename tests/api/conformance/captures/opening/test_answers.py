"""Saved answers are read in every format, and each is judged by itself."""

import base64
import gzip
import json
from typing import Any

import pytest

from api.conformance.captures.diagnosis import diagnose
from api.conformance.captures.recordings import NotReadable
from api.conformance.captures.sources import captures_of
from api.conformance.captures.values import Capture, Severity, WireDialect
from tests.api.conformance.captures.opening.saved import (
    BODY,
    STOP,
    chunk,
    flow,
    har,
    netstring,
    stream,
    trace,
    whole,
)

TEXT = "A é👋 B"
# No answer here has usage, as in streams whose request did not ask for it.
HARMLESS = {"usage_missing", "lossy_capture"}


def read(content: str | bytes) -> list[Capture]:
    return list(captures_of(content))


def faults(capture: Capture) -> set[str]:
    return {one.code for one in diagnose(capture)} - HARMLESS


def lines_with(prefix: str) -> str:
    return "".join(f"{prefix}{line}\n" for line in stream().split("\n"))


FENCED = f"I see this:\n\n```\n{stream()}```\n\nIs it right?\n"
WRAPPED: dict[str, str | bytes] = {
    "as it came": stream(),
    "quoted": lines_with("> "),
    "quoted twice": lines_with("> > "),
    "quoted between words": f"He wrote:\n\n{lines_with('> ')}\nAnd I answered.\n",
    "indented": lines_with("    "),
    "indented by tabs": lines_with("\t"),
    "fenced": FENCED,
    "fenced and quoted": "".join(f"> {line}\n" for line in FENCED.split("\n")),
    "fenced without an end": f"Look:\n\n```text\n{stream()}",
    "behind ISO times": lines_with("2026-11-22T14:10:39.123Z "),
    "behind times in brackets": lines_with("[14:10:39] "),
    "behind times of syslog": lines_with("Nov 22 14:10:39 host server[123]: "),
    "behind seconds": lines_with("1763820639.123 "),
    "behind a logger": lines_with("2026-11-22 14:10:39,123 - httpcore.http11 - DEBUG - "),
    "behind a service of Docker": lines_with("server-1  | 2026-11-22T14:10:39.123456789Z "),
    "packed": gzip.compress(stream().encode()),
    "UTF-8 with a mark": b"\xef\xbb\xbf" + stream().encode(),
    "UTF-16 with a mark": stream().encode("utf-16"),
    "UTF-16 without a mark": stream().encode("utf-16-le"),
    "UTF-16, large end first": stream().encode("utf-16-be"),
    "bytes": stream().encode(),
    "carriage returns": stream().replace("\n", "\r\n").encode(),
}


@pytest.mark.parametrize("form", WRAPPED)
def test_the_text_around_an_answer_does_not_matter(form: str) -> None:
    [capture] = read(WRAPPED[form])
    assert (capture.dialect, capture.text, capture.reason) == (WireDialect.CHAT, TEXT, "stop")
    assert faults(capture) == set()


def test_a_quoted_json_answer_of_many_lines_is_read() -> None:
    text = json.dumps(whole(), indent=2)
    [capture] = read("".join(f"> {line}\n" for line in text.split("\n")))
    assert (capture.text, faults(capture)) == (TEXT, set())


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
    assert (leaking.asked_stops, fine.asked_stops) == (("B",), ("Z",))
    assert "stop_in_text" in faults(leaking)
    assert faults(fine) == set()


def test_a_saved_request_gives_its_stops() -> None:
    request = f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\n\r\n{BODY}\r\n"
    answer = f"HTTP/1.1 200 OK\r\n\r\n{json.dumps(whole())}"
    [capture] = read(request + answer)
    assert (capture.asked_stops, capture.text, capture.status) == ((STOP,), TEXT, 200)


def test_fenced_blocks_are_separate_answers_with_the_command_of_the_block_before() -> None:
    command = f"```sh\ncurl http://x -d '{BODY}'\n```\n"
    answers = [f"then\n```json\n{json.dumps(whole(str(n)), indent=1)}\n```\n" for n in (1, 2)]
    found = read(command + "".join(answers))
    assert [one.text for one in found] == ["1", "2"]
    assert [one.asked_stops for one in found] == [(STOP,), (STOP,)]


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


def test_the_events_that_the_messages_client_adds_do_not_disturb_a_dumped_stream() -> None:
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


RECORDS: dict[str, list[dict[str, Any]]] = {
    "request and response": [
        {"request": json.loads(BODY), "response": whole(text)} for text in "12"
    ],
    "results of a batch": [
        {"custom_id": text, "response": {"status_code": 200, "body": whole(text)}, "error": None}
        for text in "12"
    ],
}


@pytest.mark.parametrize("kind", RECORDS)
def test_records_of_requests_and_answers_are_read(kind: str) -> None:
    found = read("\n".join(map(json.dumps, RECORDS[kind])))
    assert [one.text for one in found] == ["1", "2"]
    if "request" in kind:
        assert {one.asked_stops for one in found} == {(STOP,)}


def test_data_after_the_end_of_a_stream_is_a_fault_and_not_another_answer() -> None:
    broken = chunk("A") + chunk("", "stop") + chunk("B") + chunk("", "stop") + "data: [DONE]\n\n"
    [capture] = read(broken)
    assert faults(capture) == {"text_after_reason", "reason_repeated"}


# -- files of other programs ------------------------------------------------------------------


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
    assert (streamed.text, streamed.is_streamed, streamed.asked_stops) == (TEXT, True, (STOP,))
    assert streamed.headers["content-type"] == "text/event-stream"
    assert (fine.text, fine.label) == (TEXT, f"2: {url}")
    [finding] = diagnose(broken)
    assert (finding.code, finding.severity) == ("error_status", Severity.ERROR)
    assert "HTTP 502 Bad Gateway, an HTML page: Bad Gateway" in finding.sentence
    assert faults(lost) == {"body_missing"}
    assert lost.is_cut


def test_a_truncated_archive_is_read_as_far_as_it_goes() -> None:
    answer = (200, {"text": json.dumps(whole())}, "http://x/v1/chat/completions")
    text = json.dumps(har(answer, answer))
    fine, rest = read(text[: text.index('"more"') - 20])
    assert fine.text == TEXT
    assert (faults(rest), rest.is_cut) == ({"archive_damaged"}, True)


def test_a_dump_of_mitmproxy_is_read_flow_by_flow() -> None:
    packed = flow(gzip.compress(stream().encode()), (b"Content-Encoding", b"gzip"))
    plain = flow(json.dumps(whole()).encode(), status=200)
    first, second = read(netstring(packed) + netstring(plain))
    assert (first.text, first.asked_stops, first.status) == (TEXT, (STOP,), 200)
    assert first.label == "1: http://localhost:8080/v1/chat/completions"
    assert second.text == TEXT


def test_a_body_with_an_unknown_compression_is_reported_as_missing() -> None:
    [capture] = read(netstring(flow(b"\x01\x02", (b"content-encoding", b"br"))))
    assert faults(capture) == {"body_missing"}
    assert "compressed (br)" in diagnose(capture)[0].sentence


def test_a_damaged_dump_is_refused_in_words() -> None:
    with pytest.raises(NotReadable, match="a damaged dump of mitmproxy: it breaks off at byte"):
        read(netstring(flow(b"x"))[:-20])


def chunked(body: bytes) -> bytes:
    return b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)


ASCII = stream("A ... 1.5 B")
HEAD = b"HTTP/1.1 200 OK\ncontent-type: text/event-stream"
TRACES = {
    "in chunks, which curl shows": trace(
        HEAD + b"\nTransfer-Encoding: chunked", [chunked(ASCII.encode())]
    ),
    "in pieces": trace(HEAD, [ASCII[:70].encode(), ASCII[70:].encode()]),
    "of JSON with line breaks": trace(HEAD, [json.dumps(whole("A ... 1.5 B"), indent=2).encode()]),
}


@pytest.mark.parametrize("kind", TRACES)
def test_the_pieces_of_a_trace_of_curl_are_put_together(kind: str) -> None:
    [capture] = read(TRACES[kind])
    assert (capture.text, capture.status, capture.asked_stops) == ("A ... 1.5 B", 200, (STOP,))
    assert faults(capture) == set()
    assert "lossy_capture" in {one.code for one in capture.findings}


def test_a_trace_in_hex_keeps_every_byte() -> None:
    [capture] = read(trace(HEAD, [stream().encode()], is_hex=True))
    assert (capture.text, capture.asked_stops) == (TEXT, (STOP,))
    assert "lossy_capture" not in {one.code for one in capture.findings}


def test_a_trace_of_two_requests_has_two_answers() -> None:
    found = read(TRACES["in pieces"] + TRACES["of JSON with line breaks"])
    assert [(one.text, faults(one)) for one in found] == [("A ... 1.5 B", set())] * 2


@pytest.mark.parametrize("is_sound", [False, True])
def test_a_body_that_cannot_be_decompressed_is_refused_in_words(is_sound: bool) -> None:
    content = gzip.compress(b"0" * (129 << 20)) if is_sound else b"\x1f\x8b\x08\x00damaged"
    with pytest.raises(NotReadable, match=r"damaged|larger than 128 MiB once it is decompressed"):
        read(content)

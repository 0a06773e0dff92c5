import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.api.questions import PATHS, question
from tests.support.outside.collector import Collector, plain

COUNT = "Count from 1 to 10, one number per line"
CHAT = [{"role": "user", "content": COUNT}]
RAW = f"<|im_start|>user\n{COUNT}<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
CHATS = ("/v1/messages", "/v1/chat/completions", "/v1/responses", "/api/chat")
Told = Callable[..., Any]


def test_every_dialect_makes_one_span_whether_streamed_or_not(
    told: Told, collector: Collector
) -> None:
    with told() as site:
        for path in PATHS:
            for is_stream in (False, True):
                asked = question(path, COUNT, 60, raw=RAW, stop=["4"], temperature=0)
                asked |= {"model": "a-name", "stream": is_stream}
                assert site.send("POST", path, asked).status == 200
        assert site.send("GET", "/v1/models").status == 200
    found = [plain(span.attributes) for span in collector.spans]
    assert [(one["http.route"], one["gen_ai.request.stream"]) for one in found] == [
        (path, is_stream) for path in PATHS for is_stream in (False, True)
    ]
    for one in found:
        kind = "chat" if one["http.route"] in CHATS else "text_completion"
        assert one["gen_ai.operation.name"] == kind
        assert one["gen_ai.response.finish_reasons"] == ["stop"]
        assert one["gen_ai.request.stop_sequences"] == ["4"]
        assert one["fullstop.stop.kind"] == ["stop_string"]
        assert one["fullstop.stop.sequence"] == ["4"]
        assert one["fullstop.stop.text_offset"] == [len("1\n2\n3\n")]
        assert one["fullstop.stop.dropped_characters"] == [1]
        assert "error.type" not in one


def test_a_span_contains_the_model_the_parameters_and_the_usage(
    told: Told, collector: Collector
) -> None:
    asked = {
        "model": "a-name",
        "messages": CHAT,
        "max_completion_tokens": 5,
        "temperature": 0.5,
        "top_p": 0.75,
        "seed": 7,
    }
    with told() as site:
        reply = site.send("POST", "/v1/chat/completions", asked)
    (span,) = collector.spans
    found = plain(span.attributes)
    usage = reply.json["usage"]
    assert span.name == "chat a-name"
    assert span.kind == span.SPAN_KIND_SERVER
    assert span.status.code == 0
    assert 0 < span.start_time_unix_nano < span.end_time_unix_nano
    assert found["gen_ai.provider.name"] == "fullstop"
    assert found["gen_ai.request.model"] == "a-name"
    assert found["gen_ai.response.model"] == "demo-model"
    assert found["gen_ai.request.max_tokens"] == 5
    assert found["gen_ai.request.temperature"] == 0.5
    assert found["gen_ai.request.top_p"] == 0.75
    assert found["gen_ai.request.seed"] == 7
    assert found["gen_ai.response.finish_reasons"] == ["length"]
    assert found["gen_ai.usage.input_tokens"] == usage["prompt_tokens"]
    assert found["gen_ai.usage.output_tokens"] == usage["completion_tokens"] == 5
    assert found["fullstop.request.id"] == reply.headers["x-request-id"]
    assert found["gen_ai.response.id"] == reply.json["id"]
    assert (found["server.address"], found["server.port"]) == ("127.0.0.1", site.address.port)
    assert found["http.response.status_code"] == 200
    resource = collector.resource
    assert (resource["service.name"], resource["service.version"]) == ("fullstop", "1.2.3")


def test_the_callers_span_is_the_parent(told: Told, collector: Collector) -> None:
    trace, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
    asked = {"model": "m", "messages": CHAT, "max_tokens": 1}
    with told() as site:
        for sampled in ("01", "00"):
            headers = {"Traceparent": f"00-{trace}-{parent}-{sampled}"}
            site.send("POST", "/v1/chat/completions", asked, headers)
    # The second caller's trace is not sampled, so our part of it is not sent either.
    (span,) = collector.spans
    assert (span.trace_id.hex(), span.parent_span_id.hex()) == (trace, parent)


def test_refused_requests_are_spans_with_the_kind_of_error_and_without_the_key(
    told: Told, collector: Collector
) -> None:
    good = {"max_tokens": 5, "messages": CHAT}
    key, wrong = "a-key-of-ours", "a-key-of-theirs"
    with told(api_key=key, strict=True) as site:
        for headers, body in (
            ({"X-Api-Key": wrong}, {**good, "model": "m"}),
            ({"X-Api-Key": key}, {"model": "m"}),
            ({"X-Api-Key": key}, {**good, "model": key}),
            ({"X-Api-Key": key}, {**good, "model": "demo-model", "stop_sequences": [key]}),
        ):
            site.send("POST", "/v1/messages", body, headers)
    spans = collector.spans
    found = [plain(span.attributes) for span in spans]
    assert [one.get("error.type") for one in found] == [
        "authentication",
        "invalid_request",
        "not_found",
        None,
    ]
    assert [one["http.response.status_code"] for one in found] == [401, 400, 404, 200]
    assert {span.status.code for span in spans} == {0}  # the server has not failed
    assert found[-1]["gen_ai.request.stop_sequences"] == ["[hidden]"]
    sent = b"".join(body for _, body in collector.bodies)
    assert key.encode() not in sent
    assert wrong.encode() not in sent


@pytest.mark.parametrize("is_stream", [True, False])
def test_the_span_of_a_client_that_hung_up_says_that_it_was_cancelled(
    told: Told, collector: Collector, staged: Callable[..., Any], is_stream: bool
) -> None:
    actor = staged()
    messages = [{"role": "user", "content": "Go on"}]
    asked = {"model": "m", "messages": messages, "stream": is_stream}
    with told(actor.engine) as site:
        exchange = site.open("POST", "/v1/chat/completions", asked, waits=is_stream)
        assert actor.wait_until(lambda engine: engine.status.running == 1)
        exchange.close()
        assert actor.wait_until_idle()
    (span,) = collector.spans
    found = plain(span.attributes)
    assert found["gen_ai.request.stream"] is is_stream
    assert found["gen_ai.response.finish_reasons"] == ["cancelled"]
    assert found["error.type"] == "cancelled"
    assert found.get("http.response.status_code") == (200 if is_stream else None)
    assert span.status.code == 0  # nothing has failed in the server


TOOL = {"name": "look", "description": "Looks", "parameters": {"type": "object", "properties": {}}}


@pytest.mark.parametrize("wanted", [None, "span_only", "true"])
def test_spans_contain_prompts_and_answers_only_if_the_variable_asks_for_them(
    told: Told, collector: Collector, monkeypatch: pytest.MonkeyPatch, wanted: str | None
) -> None:
    if wanted is not None:
        monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", wanted)
    asked = {
        "model": "m",
        "messages": [{"role": "system", "content": "Be exact."}, *CHAT],
        "tools": [{"type": "function", "function": TOOL}],
        "stop": ["3\n4"],
        "max_tokens": 20,
        "temperature": 0,
    }
    with told() as site:
        answer = site.send("POST", "/v1/chat/completions", asked).json
    text = answer["choices"][0]["message"]["content"]
    (span,) = collector.spans
    found = plain(span.attributes)
    if wanted is None:
        sent = b"".join(body for _, body in collector.bodies)
        for content in ("Be exact.", COUNT, text, "Looks"):
            assert content
            assert content.encode() not in sent
        assert "fullstop.stop.dropped" not in found
        return
    asked_messages = json.loads(found["gen_ai.input.messages"])
    assert [one["role"] for one in asked_messages] == ["system", "user"]
    assert asked_messages[1]["parts"] == [{"type": "text", "content": COUNT}]
    (said,) = json.loads(found["gen_ai.output.messages"])
    assert said["parts"] == [{"type": "text", "content": text}]
    assert said["finish_reason"] == "stop"
    assert found["fullstop.stop.dropped"][0].startswith("3\n4")
    (tool,) = json.loads(found["gen_ai.tool.definitions"])
    assert tool["name"] == "look"

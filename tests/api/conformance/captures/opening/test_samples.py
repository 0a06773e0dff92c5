"""Pastes, logs and exports of other programs are read, and nothing is called wrong."""

import json
import re
from typing import Any

import pytest

from api.conformance.captures.diagnosis import diagnose
from api.conformance.captures.sources import captures_of
from api.conformance.captures.values import Severity

TEXT = "one, two"
CHAT = {
    "id": "c1",
    "object": "chat.completion",
    "model": "m",
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": TEXT},
            "finish_reason": "stop",
        }
    ],
    "usage": {"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8},
}
ANSWER, PRETTY = json.dumps(CHAT), json.dumps(CHAT, indent=2)
ASKED = '{"messages": [], "stop": ["END"]}'


def chunk(delta: dict[str, Any], reason: str | None = None) -> str:
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    return f"data: {json.dumps({'id': 'c1', 'model': 'm', 'choices': [choice]})}\n\n"


STREAM = "".join(
    (
        chunk({"role": "assistant", "content": ""}),
        chunk({"content": "one, "}),
        chunk({"content": "two"}),
        chunk({}, "stop"),
        "data: [DONE]\n\n",
    )
)


def colored(text: str) -> str:
    """Return JSON as ``jq -C`` writes it."""
    text = re.sub(r'("(?:[^"\\]|\\.)*")(:)', "\x1b[34;1m\\1\x1b[0m\x1b[1;39m\\2", text)
    return f"\x1b[1;39m{text}\x1b[0m\n"


def log_line(message: str) -> str:
    return json.dumps({"message": message, "level": "DEBUG", "timestamp": "2026-03-01T10:00:00"})


def span(attributes: Any) -> dict[str, Any]:
    return {"traceId": "a", "spanId": "b", "name": "chat m", "attributes": attributes}


OTLP = [
    {
        "key": "gen_ai.request.stop_sequences",
        "value": {"arrayValue": {"values": [{"stringValue": "END"}]}},
    },
    {
        "key": "gen_ai.response.finish_reasons",
        "value": {"arrayValue": {"values": [{"stringValue": "stop"}]}},
    },
    {"key": "gen_ai.usage.output_tokens", "value": {"intValue": "3"}},
    {
        "key": "gen_ai.output.messages",
        "value": {
            "stringValue": json.dumps(
                [{"role": "assistant", "parts": [{"type": "text", "content": TEXT}]}]
            )
        },
    },
]
FLAT = {
    "gen_ai.response.finish_reasons": ["end_turn"],
    "gen_ai.completion.0.content": TEXT,
    "gen_ai.usage.output_tokens": 3,
}
GENERATION = {
    "id": "o1",
    "type": "GENERATION",
    "name": "chat",
    "modelParameters": {"stop": ["END"]},
    "output": {"role": "assistant", "content": TEXT},
    "usage": {"input": 5, "output": 3},
}
POSTMAN = {
    "info": {"schema": "https://schema.getpostman.com/json/collection/v2.1.0/collection.json"},
    "item": [
        {
            "name": "folder",
            "item": [
                {
                    "name": "chat",
                    "response": [
                        {
                            "originalRequest": {
                                "url": {"raw": "http://localhost/v1/chat/completions"},
                                "body": {"mode": "raw", "raw": ASKED},
                            },
                            "code": 200,
                            "header": [{"key": "Content-Type", "value": "application/json"}],
                            "body": PRETTY,
                        }
                    ],
                }
            ],
        }
    ],
}
MITMPROXY = f"""127.0.0.1:51234: POST http://127.0.0.1:8080/v1/chat/completions
    Host: 127.0.0.1:8080
    Content-Type: application/json

    {ASKED}

 << 200 OK 307b
    Content-Type: application/json

    {PRETTY.replace(chr(10), chr(10) + "    ")}
"""
LITELLM = f"""10:00:00 - LiteLLM:DEBUG: utils.py:300 -

\x1b[92m10:00:00 - LiteLLM:DEBUG\x1b[0m: litellm_logging.py:466 - \x1b[92m

POST Request Sent from LiteLLM:
curl -X POST \\
http://localhost:8080/v1/ \\
-d '{{'model': 'm', 'messages': [], 'stop': ['END']}}'
\x1b[0m

10:00:01 - LiteLLM:DEBUG: litellm_logging.py:500 - RAW RESPONSE:
{ANSWER}


10:00:01 - LiteLLM:DEBUG: cost_calculator.py:100 - completion_response response ms: None
"""


def with_server_tool() -> str:
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
    return "".join(f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in events)


SAMPLES: dict[str, str] = {
    "a paste of a terminal": f"$ curl -s http://localhost/v1/chat/completions -d '{ASKED}' | jq\n"
    f"{PRETTY}\n$ \n",
    "a paste with a name in the prompt": f"me@mac ~ % curl http://localhost -d '{ASKED}'\n"
    f"{ANSWER}\nme@mac ~ % ls\n",
    "lines of docker compose": "".join(f"llm-1  | {line}\n" for line in STREAM.splitlines()),
    "coloured lines of docker compose": "".join(
        f"\x1b[36mllm-1      |\x1b[0m {line}\n" for line in PRETTY.splitlines()
    ),
    "jq -C": colored(PRETTY),
    "a fence in one line": f"It said ```{ANSWER}``` and that was all.",
    "a span of OTLP": json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span(OTLP)]}]}]}),
    "a span with plain attributes": json.dumps(span(FLAT)),
    "spans, one a line": f"{json.dumps(span(FLAT))}\n{json.dumps(span({'http.method': 'GET'}))}\n",
    "a collection of Postman": json.dumps(POSTMAN, indent=1),
    "a generation of Langfuse": json.dumps(GENERATION),
    "a trace of Langfuse": json.dumps({"id": "t", "observations": [GENERATION]}, indent=2),
    "LiteLLM's log": LITELLM,
    "LiteLLM's log in JSON": "\n".join(
        log_line(text) for text in ("POST Request Sent", f"RAW RESPONSE:\n{ANSWER}\n\n", "done")
    ),
    "what mitmdump prints": MITMPROXY,
    "a tool that the vendor runs": with_server_tool(),
}


@pytest.mark.parametrize("name", SAMPLES)
def test_the_answer_is_read_and_nothing_is_said_to_be_wrong_with_it(name: str) -> None:
    [capture] = captures_of(SAMPLES[name].encode())
    assert capture.text == TEXT
    findings = diagnose(capture, ["END"])
    assert [one for one in findings if one.severity is not Severity.NOTE] == []


@pytest.mark.parametrize(
    "name",
    [
        "a paste of a terminal",
        "a span of OTLP",
        "a collection of Postman",
        "a generation of Langfuse",
        "LiteLLM's log",
        "what mitmdump prints",
    ],
)
def test_the_stops_of_the_request_are_read_with_it(name: str) -> None:
    [capture] = captures_of(SAMPLES[name].encode())
    assert capture.asked_stops == ("END",)
    found = SAMPLES[name].replace(TEXT, "oneENDtwo")
    [faulty] = captures_of(found.encode())
    assert {one.code for one in diagnose(faulty)} >= {"stop_in_text", "text_after_stop"}


def test_a_stop_with_a_dot_proves_nothing_in_a_trace_that_writes_dots_for_bytes() -> None:
    body = json.dumps(
        {**CHAT, "choices": [{"message": {"content": "Grüße."}, "finish_reason": "stop"}]},
        ensure_ascii=False,
    ).encode()
    rows = "".join(
        f"{at:04x}: {''.join(chr(one) if 32 <= one < 127 else '.' for one in body[at : at + 64])}\n"
        for at in range(0, len(body), 64)
    )
    trace = (
        "<= Recv header, 17 bytes (0x11)\n0000: HTTP/1.1 200 OK\n<= Recv header, 2 bytes (0x2)\n"
        f"0000: \n<= Recv data, {len(body)} bytes ({len(body):#x})\n{rows}== Info: Closing\n"
    )
    [capture] = captures_of(trace.encode())
    assert {one.code for one in diagnose(capture, ["r."])} == {"lossy_capture"}

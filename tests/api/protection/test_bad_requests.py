"""Every fault of a request is reported in the vendor's envelope, and the server goes on."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from engine.values.limits import Limits
from tests.api.conftest import LONG

ASK = {"model": "m", "max_tokens": 8, "messages": [{"role": "user", "content": "Hi"}]}
MESSAGES, CHAT = "/v1/messages", "/v1/chat/completions"
COMPLETIONS, RESPONSES = "/v1/completions", "/v1/responses"


# The fields of a correct request to these routes, beside ``ASK``.
MORE = {RESPONSES: {"input": "Hi", "prompt": None}}


def without(field: str) -> dict[str, Any]:
    return {key: value for key, value in ASK.items() if key != field}


def check_envelope(reply: Any, path: str) -> str:
    body = reply.json
    assert reply.headers["content-type"].startswith("application/json")
    assert reply.headers["request-id"] == reply.headers["x-request-id"]
    if path == MESSAGES:
        assert body.keys() == {"type", "error", "request_id"}
        assert body["type"] == "error"
        assert body["request_id"] == reply.headers["request-id"]
        assert {"type", "message"} <= body["error"].keys()
    else:
        assert body.keys() == {"error"}
        assert body["error"].keys() == {"message", "type", "param", "code"}
    return str(body["error"]["message"])


@pytest.mark.parametrize(
    ("path", "body", "named"),
    [
        (MESSAGES, b"{", "line 1 column 2"),
        (MESSAGES, b"", "empty"),
        (MESSAGES, b"\xff", "UTF-8"),
        (MESSAGES, without("max_tokens"), "max_tokens: "),
        (MESSAGES, ASK | {"max_tokens": 0, "stream": True}, "stream: "),
        (MESSAGES, ASK | {"messages": [{"role": "king", "content": ""}]}, "messages.0.role: "),
        (CHAT, ASK | {"messages": [{"role": "tool", "content": ""}]}, "messages[0].tool_call_id: "),
        (CHAT, ASK | {"stop": [1]}, "stop[0]: "),
        (CHAT, ASK | {"stop": "x" * 4097}, "stop: "),
        (CHAT, ASK | {"stop_token_ids": [10**9]}, "stop_token_ids[0]: "),
        (CHAT, ASK | {"logprobs": True, "top_logprobs": 21}, "top_logprobs: "),
        (CHAT, ASK | {"logit_bias": {"END": 1}}, "logit_bias.END: "),
        (COMPLETIONS, ASK | {"prompt": ["Hi", [1]]}, "prompt: must be a string"),
        (COMPLETIONS, ASK | {"prompt": [1, 10**9]}, "prompt[1]: "),
        (COMPLETIONS, ASK | {"prompt": ""}, "prompt: "),
        (RESPONSES, ASK | {"input": []}, "input: "),
        (RESPONSES, ASK | {"input": [{"role": "user", "content": 5}]}, "input[0].content: "),
        (RESPONSES, ASK | {"input": "Hi", "background": True}, "background: "),
        (RESPONSES, ASK | {"input": "Hi", "text": {"format": {"type": "xml"}}}, "text.format.type"),
    ],
)
def test_a_bad_body_is_refused_and_its_field_named(
    scripted_site: Any, path: str, body: Any, named: str
) -> None:
    reply = scripted_site.send("POST", path, body)

    assert reply.status == 400
    assert named in check_envelope(reply, path)


def test_the_named_field_is_also_the_param_and_the_server_goes_on(scripted_site: Any) -> None:
    refused = scripted_site.send("POST", CHAT, ASK | {"stop": [1]})
    assert refused.json["error"]["param"] == "stop[0]"
    for path in (MESSAGES, CHAT, COMPLETIONS, RESPONSES):
        right = ASK | {"prompt": "Hi"} | MORE.get(path, {})
        assert scripted_site.send("POST", path, right).status == 200


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"model": "m"}, "missing_required_parameter"),
        (ASK | {"audio": {"voice": "a"}, "modalities": ["audio"]}, "unsupported_parameter"),
    ],
)
def test_an_error_has_the_vendors_code(scripted_site: Any, body: dict[str, Any], code: str) -> None:
    assert scripted_site.send("POST", CHAT, body).json["error"]["code"] == code


@pytest.mark.parametrize(
    ("method", "path", "headers", "status", "envelope"),
    [
        ("POST", "/v1/nowhere", {}, 404, CHAT),
        ("POST", "/v1/nowhere", {"anthropic-version": "2023-06-01"}, 404, MESSAGES),
        ("POST", "/v1/messages/batches", {}, 404, MESSAGES),
        ("GET", "/v1/messages", {}, 405, MESSAGES),
        ("GET", "/v1/chat/completions", {}, 405, CHAT),
        ("DELETE", "/v1/models", {"anthropic-version": "2023-06-01"}, 405, MESSAGES),
        ("GET", "/v1/models/gpt-9", {}, 404, CHAT),
        ("GET", "/v1/models/claude-9", {"anthropic-version": "2023-06-01"}, 404, MESSAGES),
    ],
)
def test_an_unknown_route_is_reported_in_the_clients_envelope(
    site: Any, method: str, path: str, headers: dict[str, str], status: int, envelope: str
) -> None:
    reply = site.send(method, path, headers=headers)

    assert reply.status == status
    assert path.rsplit("/", 1)[-1] in check_envelope(reply, envelope)


@pytest.mark.parametrize(("path", "status"), [(MESSAGES, 529), (CHAT, 503)])
def test_without_a_model_the_server_says_so(
    serve: Callable[..., Any], staged: Callable[..., Any], path: str, status: int
) -> None:
    engine = staged().engine
    site = serve(engine)
    asyncio.run(engine.unload())
    reply = site.send("POST", path, ASK)

    assert reply.status == status
    assert "no model" in check_envelope(reply, path)
    assert site.send("GET", "/health").status == 503
    assert site.send("GET", "/v1/models").json["data"] == []


@pytest.mark.parametrize("path", [MESSAGES, CHAT])
def test_a_full_queue_says_when_to_try_again(staged: Callable[..., Any], path: str) -> None:
    stage = staged(Limits(max_rows=1, max_waiting=1))
    site = stage.site
    long = ASK | {"max_tokens": 2000, "messages": [{"role": "user", "content": LONG}]}
    # Two choices fill the only row and the only place behind it.
    reply = site.send("POST", CHAT, long | {"n": 3})
    assert reply.status == 400
    assert check_envelope(reply, CHAT).startswith("n: at most 2 answers")

    with site.open("POST", CHAT, long | {"n": 2, "stream": True}):
        assert stage.wait_until(lambda engine: engine.status.waiting == 1)
        reply = site.send("POST", path, long)
    assert reply.status == 429
    assert int(reply.headers["retry-after"]) >= 1
    assert "try again" in check_envelope(reply, path)


@pytest.mark.parametrize("field", ["messages", "tools", "tool_choice", "stop", "response_format"])
def test_error_quotes_at_most_200_characters(site: Any, field: str) -> None:
    long = "ǂ" * 600
    for value in (long, [long], {"type": long}, [{"type": long, "name": long}]):
        reply = site.send("POST", CHAT, ASK | {field: value})
        assert reply.status in (200, 400)
        assert str(reply.json).count("ǂ") <= 200 or reply.status == 200

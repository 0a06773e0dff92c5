"""Bodies that are too large in any way are refused early, with short errors."""

import json
import socket
import time
from collections.abc import Callable
from typing import Any

import pytest

from api.dialects.anthropic.wire import MessageCreateParams
from api.dialects.ollama.wire import ChatParams
from api.dialects.openai.chat_wire import ChatCompletionParams
from api.dialects.openai.completions import CompletionParams
from api.dialects.responses.read import requests_from_wire
from api.dialects.responses.wire import ResponseParams
from api.dialects.sglang.wire import GenerateParams
from api.dialects.shared.parameters import ReadContext
from api.dialects.shared.parsing import WireModel, parse_body
from api.service.errors import ApiError

ASK: dict[str, Any] = {
    "model": "m",
    "max_tokens": 4,
    "messages": [{"role": "user", "content": "Hi"}],
}
MODELS: list[tuple[type[WireModel], str]] = [
    (MessageCreateParams, "messages"),
    (ChatCompletionParams, "messages"),
    (CompletionParams, "prompt"),
    (ResponseParams, "input"),
    (GenerateParams, "input_ids"),
    (ChatParams, "messages"),
]


@pytest.mark.parametrize(
    ("model", "field"),
    [one for one in MODELS if one[1] in ("messages", "input")],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_too_many_items_are_refused_before_validation(model: type[WireModel], field: str) -> None:
    items = [{"role": "nobody", "content": "a"}] * 65_537
    with pytest.raises(ApiError, match="at most 65,536 items are possible"):
        parse_body(json.dumps({"model": "m", "max_tokens": 1, field: items}).encode(), model)


def test_a_body_with_more_values_than_any_prompt_is_refused_unread(site: Any) -> None:
    reply = site.send("POST", "/generate", b'{"prompt": [' + b"1," * 2_500_000 + b"1]}")

    assert reply.status == 413
    assert "more than 2,000,000 values" in str(reply.json["error"])


def test_unfinished_bodies_are_bounded(
    serve: Callable[..., Any],
) -> None:
    site = serve(max_body_bytes=1_000_000, body_timeout_s=30)
    head = b"POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: 999999\r\n\r\n"
    held: list[socket.socket] = []
    try:
        refused = False
        for _ in range(10):
            one = socket.create_connection((site.host, site.address.port), timeout=60)
            held.append(one)
            one.sendall(head + b" " * 900_000)
            assert site.send("POST", "/v1/messages", ASK).status == 200
            one.settimeout(
                0.2
            )  # the requests that are not refused wait for the rest of their bodies
            try:
                refused = refused or b" 429 " in one.recv(4096)
            except TimeoutError:
                continue
            except ConnectionError:
                refused = True
        assert refused
    finally:
        for one in held:
            one.close()
    ends = [site.send("POST", "/v1/messages", ASK).status for _ in range(3)]
    assert ends == [200] * 3


def test_thousands_of_tools_are_read_in_linear_time() -> None:
    tools = [{"type": "function", "name": f"t{number}"} for number in range(20_000)]
    body = {
        "model": "m",
        "input": [
            {"role": "user", "content": "Hi"},
            {"type": "additional_tools", "tools": tools[9_000:]},
        ],
        "tools": tools[:10_000],
        "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": tools},
    }
    params, _ = parse_body(json.dumps(body).encode(), ResponseParams)
    assert isinstance(params, ResponseParams)

    began_s = time.monotonic()
    [request] = requests_from_wire(params, ReadContext())
    assert [tool.name for tool in request.tools] == [tool["name"] for tool in tools]
    # Comparing each with each takes minutes.
    assert time.monotonic() - began_s < 10

"""Clients learn which errors are permanent, and after which errors they can try again."""

from collections.abc import Callable
from typing import Any

import pytest

from engine.engine import Engine
from engine.library.memory_need import Memory
from engine.scheduling import memory_plan
from tests.api.conftest import Site
from tests.api.questions import PATHS, question

KEY = "the-right-key"
ASK = {"model": "m", "max_tokens": 8, "messages": [{"role": "user", "content": "Hi"}]}
RIGHT = {"x-api-key": KEY}
PAGE = "https://page.example"


@pytest.fixture
def guarded(serve: Callable[..., Site]) -> Site:
    return serve(api_key=KEY, max_body_bytes=10_000)


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/chat/completions", "/api/chat", "/generate"])
@pytest.mark.parametrize(
    ("status", "method", "body", "headers"),
    [
        (400, "POST", b"{", RIGHT),
        (401, "POST", ASK, {"x-api-key": "wrong"}),
        (401, "POST", ASK, {}),
        (403, "POST", ASK, RIGHT | {"Host": "evil.example"}),
        (403, "POST", ASK, RIGHT | {"Origin": PAGE}),
        (405, "PUT", ASK, RIGHT),
        (413, "POST", b" " * 20_000, RIGHT),
    ],
)
def test_a_request_that_can_never_succeed_is_not_to_be_tried_again(
    guarded: Site, path: str, status: int, method: str, body: Any, headers: dict[str, str]
) -> None:
    reply = guarded.send(method, path, body, headers)

    assert reply.status == status
    assert reply.headers["x-should-retry"] == "false"


def test_a_temporary_error_does_not_forbid_another_try(serve: Callable[..., Site]) -> None:
    empty = Engine()
    try:
        reply = serve(empty).send("POST", "/v1/chat/completions", ASK)
    finally:
        empty.close()

    assert reply.status == 503
    assert "x-should-retry" not in reply.headers


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("is_streamed", [False, True])
def test_a_prompt_for_which_there_is_no_memory_now_can_be_sent_again_later(
    staged: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    path: str,
    is_streamed: bool,
) -> None:
    monkeypatch.setattr(memory_plan, "memory", lambda: Memory(1 << 30, 0))
    site = staged().site
    more = {"stream": is_streamed}
    reply = site.send("POST", path, question(path, "x" * 5000, 2000) | more)

    assert reply.status == (529 if path == "/v1/messages" else 503), reply.body
    assert int(reply.headers["retry-after"]) >= 1
    assert "x-should-retry" not in reply.headers
    assert b"is free now" in reply.body
    assert site.send("POST", path, question(path, "Hi", 2000) | more).status == 200

"""Tasks that clients set in the background without a limit are bounded, and named."""

import logging
from typing import Any

import pytest

from tests.support.answers.watched import watched

HEADER = "x-fullstop-task-max-tokens"
TASK = "### Task:\nGenerate 1-3 broad tags categorizing the main themes of the chat history."
ROUTES = {
    "/v1/chat/completions": "max_tokens",
    "/v1/messages": "max_tokens",
    "/v1/responses": "max_output_tokens",
    "/api/chat": "options",
}


def body_of(path: str, question: str, limit: int | None) -> dict[str, Any]:
    turns = [{"role": "user", "content": question}]
    name = ROUTES[path]
    limits: dict[str, Any] = {name: {"num_predict": limit} if name == "options" else limit}
    given = {} if limit is None and path != "/v1/messages" else limits
    if limit is None and path == "/v1/messages":
        given = {name: -1}  # it is required
    inputs = {"input": turns} if path == "/v1/responses" else {"messages": turns}
    return {"model": "m", "stream": False, **inputs, **given}


@pytest.mark.parametrize("path", ROUTES)
def test_a_background_task_without_a_limit_gets_the_servers(
    serve: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, path: str
) -> None:
    site = serve(task_max_tokens=7)
    asked = watched(site, monkeypatch)
    with caplog.at_level(logging.INFO, "api.server.answering"):
        reply = site.send("POST", path, body_of(path, TASK, None))
    assert (reply.status, reply.headers[HEADER], asked[-1].max_tokens) == (200, "7", 7)
    page = {"Origin": "http://localhost:3000"}
    readable = site.send("POST", path, body_of(path, TASK, None), page).headers
    assert HEADER in readable["access-control-expose-headers"].split(", ")
    assert reply.headers["x-request-id"] in caplog.text
    assert "--task-max-tokens" in caplog.text
    for question, limit, expected in (
        ("Count from 1 to 3", None, None),
        ("What does ### Task: mean?", None, None),
        (TASK, 5, 5),
        (TASK, 9, 9),
    ):
        reply = site.send("POST", path, body_of(path, question, limit))
        assert (HEADER in reply.headers, asked[-1].max_tokens) == (False, expected)

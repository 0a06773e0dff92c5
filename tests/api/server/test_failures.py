"""A generation that breaks off is an error in every dialect, never a normal end."""

import json
import threading
from collections.abc import Callable
from typing import Any

import pytest

from api.service.record import RequestRecord
from tests.api.conftest import LONG
from tests.api.questions import question

MESSAGES, CHAT = "/v1/messages", "/v1/chat/completions"
COMPLETIONS, RESPONSES = "/v1/completions", "/v1/responses"


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Set once a stream has written something: only then can it break off."""
    event = threading.Event()
    add_streamed = RequestRecord.add_streamed

    def add(record: RequestRecord, data: bytes) -> None:
        add_streamed(record, data)
        event.set()

    monkeypatch.setattr(RequestRecord, "add_streamed", add)
    return event


def breaks_at(stage: Any, step: int, after: threading.Event | None = None) -> None:
    """Let the scripted model fail once: at its ``step``-th pass from now, after an event."""
    due = len(stage.model.calls) + step

    def fault(number: int) -> None:
        if number >= due:
            stage.model.fault = lambda _: None
            assert after is None or after.wait(60)
            raise RuntimeError("the device was lost")

    stage.model.fault = fault


@pytest.mark.parametrize(
    ("path", "type_"),
    [
        (MESSAGES, "api_error"),
        (CHAT, "server_error"),
        (COMPLETIONS, "server_error"),
        (RESPONSES, "server_error"),
    ],
)
def test_a_whole_answer_that_breaks_off_is_an_error(
    staged: Callable[..., Any], path: str, type_: str
) -> None:
    stage = staged(step_s=0)
    site = stage.site
    breaks_at(stage.stage, 5)
    reply = site.send("POST", path, question(path, LONG, 50))

    assert reply.status == 500
    assert reply.json["error"]["type"] == type_
    assert "the device was lost" in reply.json["error"]["message"]
    assert site.send("POST", path, question(path, LONG, 5)).status == 200


@pytest.mark.parametrize(
    ("path", "name", "text", "end"),
    [
        (MESSAGES, "error", "content_block_delta", "message_stop"),
        (CHAT, None, "content", '"finish_reason":"'),
        (COMPLETIONS, None, "text", '"finish_reason":"'),
        (RESPONSES, "response.failed", "response.output_text.delta", "response.completed"),
    ],
)
def test_broken_stream_ends_with_its_error(
    staged: Callable[..., Any],
    begun: threading.Event,
    path: str,
    name: str | None,
    text: str,
    end: str,
) -> None:
    stage = staged(step_s=0)
    breaks_at(stage.stage, 5, begun)
    reply = stage.site.send("POST", path, question(path, LONG, 50) | {"stream": True})
    last = json.loads(reply.events[-1][1])
    whole = reply.body.decode()

    assert (reply.status, reply.events[-1][0]) == (200, name)
    assert text in whole
    assert end not in whole
    assert "[DONE]" not in whole
    error = last["response"]["error"] if path == RESPONSES else last["error"]
    assert "the device was lost" in error["message"]
    assert last.get("request_id") in (None, reply.headers["request-id"])
    assert (path == MESSAGES) == ("request_id" in last)


@pytest.mark.parametrize("path", [MESSAGES, CHAT, COMPLETIONS, RESPONSES])
def test_a_running_answer_ends_with_an_error_when_the_server_stops(
    staged: Callable[..., Any], path: str
) -> None:
    stage = staged(settings={"stop_grace_s": 0.05})
    site = stage.site
    body = question(path, LONG, 2000) | {"stream": True}
    with site.open("POST", path, body) as response:
        assert response.readline()
        site.thread.stop()
        rest = response.read().decode()

    assert '"error"' in rest
    assert "cancelled" in rest
    assert "message_stop" not in rest
    assert "response.completed" not in rest
    assert "[DONE]" not in rest

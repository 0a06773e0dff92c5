"""A client that hangs up ends its generation within a step, whatever it was doing."""

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from engine.scheduler import Limits
from tests.api.conftest import LONG

MESSAGES, CHAT, RESPONSES = "/v1/messages", "/v1/chat/completions", "/v1/responses"
ASK = {
    "model": "m",
    "max_tokens": 2000,
    "messages": [{"role": "user", "content": LONG}],
    "input": LONG,
}

STEP_S = 0.01
PATHS = pytest.mark.parametrize("path", [MESSAGES, CHAT, RESPONSES])
STREAMED = pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])


def steps_after(stage: Any, hang_up: Callable[[], None]) -> int:
    """Hang up; return how many steps the model took until nothing ran any longer."""
    before = len(stage.stage.model.calls)
    hang_up()
    assert stage.wait_until_idle()
    return len(stage.stage.model.calls) - before


@PATHS
@STREAMED
def test_while_decoding(
    serve: Callable[..., Any], staged: Callable[..., Any], path: str, is_streamed: bool
) -> None:
    stage = staged(step_s=STEP_S)
    site = serve(stage.engine)
    connection = site.open("POST", path, ASK | {"stream": is_streamed}, waits=is_streamed)
    assert stage.wait_until(lambda _: len(stage.stage.model.calls) > 5)

    # One step is under way, and the news needs a moment to arrive.
    assert steps_after(stage, connection.close) <= 4
    reply = site.send("POST", MESSAGES, ASK | {"messages": [{"role": "user", "content": "Hi"}]})
    assert reply.json["content"][0]["text"] == "Hello"


@PATHS
@STREAMED
def test_while_the_prompt_is_read(
    serve: Callable[..., Any], staged: Callable[..., Any], path: str, is_streamed: bool
) -> None:
    stage = staged(Limits(prefill_chunk=16), step_s=STEP_S)
    site = serve(stage.engine)
    long = "x" * 16 * 500
    prompt = {"messages": [{"role": "user", "content": long}], "input": long}
    connection = site.open("POST", path, ASK | prompt | {"stream": is_streamed}, waits=False)
    assert stage.wait_until(lambda _: len(stage.stage.model.calls) > 5)

    assert steps_after(stage, connection.close) <= 4


@PATHS
@STREAMED
def test_while_waiting_in_the_queue(
    serve: Callable[..., Any], staged: Callable[..., Any], path: str, is_streamed: bool
) -> None:
    stage = staged(Limits(max_rows=1), step_s=STEP_S)
    site = serve(stage.engine)
    with site.open("POST", MESSAGES, ASK | {"stream": True}):
        connection = site.open("POST", path, ASK | {"stream": is_streamed}, waits=False)
        assert stage.wait_until(lambda engine: engine.status.waiting == 1)
        connection.close()
        assert stage.wait_until(lambda engine: engine.status.waiting == 0, timeout_s=1)
        assert stage.engine.status.running == 1


def test_with_several_choices(serve: Callable[..., Any], staged: Callable[..., Any]) -> None:
    stage = staged(step_s=STEP_S)
    site = serve(stage.engine)
    connection = site.open("POST", CHAT, ASK | {"stream": True, "n": 4})
    assert stage.wait_until(lambda engine: engine.status.running == 4)

    assert steps_after(stage, connection.close) <= 8


@pytest.mark.parametrize(
    ("path", "sign"), [(MESSAGES, "event: ping\ndata: "), (CHAT, ": still here\n\n")]
)
def test_a_silent_stream_shows_signs_of_life(
    serve: Callable[..., Any], staged: Callable[..., Any], path: str, sign: str
) -> None:
    stage = staged(Limits(prefill_chunk=16), step_s=STEP_S)
    site = serve(stage.engine, keepalive_s=0.05)
    prompt = {"messages": [{"role": "user", "content": "x" * 16 * 40}], "stream": True}

    assert site.send("POST", path, ASK | prompt).body.decode().count(sign) >= 2


def test_headers_go_out_while_a_request_waits(
    serve: Callable[..., Any], staged: Callable[..., Any]
) -> None:
    stage = staged(Limits(max_rows=1), step_s=STEP_S)
    site = serve(stage.engine, keepalive_s=0.05)
    with (
        site.open("POST", MESSAGES, ASK | {"stream": True}),
        site.open("POST", MESSAGES, ASK | {"stream": True}) as response,
    ):
        assert response.readline() == b"event: ping\n"
        assert stage.engine.status.waiting == 1


def test_a_slow_reader_gets_every_word(
    serve: Callable[..., Any], staged: Callable[..., Any]
) -> None:
    stage = staged(step_s=0)
    site = serve(stage.engine, keepalive_s=0.05)
    with site.open("POST", CHAT, ASK | {"stream": True}) as response:
        text = ""
        for line in response:
            if line.startswith(b"data: {"):
                delta = json.loads(line[6:])["choices"][0]["delta"]
                text += delta.get("content", "")
            if len(text) < 200:
                time.sleep(0.01)

    assert text == "word " * 2000

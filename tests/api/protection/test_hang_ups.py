"""A client that hangs up ends its generation within three steps, in every state.

One step is running, one more is queued on the device, and one may have begun.
"""

import threading
from collections.abc import Callable
from typing import Any

import openai
import pytest

from engine import Generation
from engine.values.limits import Limits
from tests.api.conftest import LONG, Exchange
from tests.api.questions import PATHS, question

MESSAGES, CHAT, RESPONSES = "/v1/messages", "/v1/chat/completions", "/v1/responses"
ASK = {"model": "m", "max_tokens": 2000, "messages": [{"role": "user", "content": LONG}]}
STEP_S = 0.02
STEPS = 3
TOKENS = 2000

EACH = pytest.mark.parametrize("path", PATHS)
STREAMED = pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])


def turns(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


def body(path: str, text: str, *, is_streamed: bool) -> dict[str, Any]:
    return question(path, text, TOKENS) | {"stream": is_streamed}


def steps_after(stage: Any, connection: Exchange) -> int:
    """Hang up; return how many more steps the model took until it was idle.

    The model is held in a step until the server has noticed: the time that this takes on a busy
    machine says nothing about the program.
    """
    is_held, has_noticed = threading.Event(), threading.Event()
    steps: list[int] = []
    cancel = Generation.cancel

    def hold(number: int) -> None:
        if is_held.is_set():
            steps.append(number)
        is_held.set()
        assert has_noticed.wait(60)

    def cancelled(generation: Generation) -> None:
        cancel(generation)
        has_noticed.set()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Generation, "cancel", cancelled)
        stage.stage.model.fault = hold
        assert is_held.wait(60)
        connection.close()
        assert has_noticed.wait(60)
    assert stage.wait_until_idle()
    return len(steps)


@EACH
@STREAMED
def test_a_hang_up_during_decoding_ends_the_generation(
    staged: Callable[..., Any], path: str, is_streamed: bool
) -> None:
    stage = staged(step_s=STEP_S)
    site = stage.site
    sent = body(path, LONG, is_streamed=is_streamed)
    connection = site.open("POST", path, sent, waits=is_streamed)
    assert stage.wait_until(lambda _: len(stage.stage.model.calls) > 5)
    assert stage.stage.model.calls[-1] == (1, 1)

    assert steps_after(stage, connection) <= STEPS
    reply = site.send("POST", MESSAGES, question(MESSAGES, "Hi", TOKENS))
    assert reply.json["content"][0]["text"] == "Hello"


@EACH
@STREAMED
def test_a_hang_up_during_the_prompt_ends_the_generation(
    staged: Callable[..., Any], path: str, is_streamed: bool
) -> None:
    stage = staged(Limits(prefill_chunk=16), step_s=STEP_S)
    site = stage.site
    sent = body(path, "x" * 16 * 500, is_streamed=is_streamed)
    connection = site.open("POST", path, sent, waits=False)
    assert stage.wait_until(lambda _: len(stage.stage.model.calls) > 5)
    # The size of the next chunk depends on how long the last one took.
    assert stage.stage.model.calls[-1][1] > 1

    assert steps_after(stage, connection) <= STEPS


@pytest.mark.parametrize(
    ("path", "sign"),
    [
        (MESSAGES, "event: ping\ndata: "),
        (CHAT, ": still here\n\n"),
        # Codex ends a stream in which only comments arrive.
        (RESPONSES, "event: response.in_progress\ndata: "),
    ],
)
def test_a_silent_stream_gets_keepalives(staged: Callable[..., Any], path: str, sign: str) -> None:
    stage = staged(Limits(prefill_chunk=16), step_s=STEP_S, settings={"keepalive_s": 0.05})
    site = stage.site
    sent = body(path, "x" * 16 * 40, is_streamed=True)

    assert site.send("POST", path, sent).body.decode().count(sign) >= 3


def test_keepalives_of_responses_are_numbered_events_that_openais_client_reads(
    staged: Callable[..., Any],
) -> None:
    stage = staged(
        Limits(prefill_chunk=16, max_rows=1), step_s=STEP_S, settings={"keepalive_s": 0.01}
    )
    site = stage.site
    client = openai.OpenAI(base_url=f"{site.url}/v1", api_key="x", max_retries=0)
    said = [*turns("x" * 16 * 8), {"role": "assistant", "content": "So."}, *turns(LONG)]
    asked: dict[str, Any] = {"model": "m", "input": said, "max_output_tokens": 8}
    # It waits for its row first.
    with client, site.open("POST", MESSAGES, ASK | {"stream": True}) as running:
        assert running.readline()
        with client.responses.stream(**asked) as stream:
            events = []
            for event in stream:
                events.append(event)
                running.close()

    kinds = [event.type for event in events]
    assert kinds[:2] == ["response.created", "response.in_progress"]
    assert kinds.count("response.created") == 1
    assert kinds.count("response.in_progress") >= 3
    assert [event.sequence_number for event in events] == list(range(len(events)))
    response = events[-1].response
    assert response.status == "incomplete"
    assert response.output_text

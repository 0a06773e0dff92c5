"""A model that does not come back from a step: what clients are told, and that it is got over."""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from engine import Limits
from tests.api.conftest import LONG
from tests.api.protection.test_hang_ups import BODIES

ROUTES = sorted(BODIES)
PATIENCE_S = 60.0


@dataclass
class Blockade:
    """Keeps the model from coming back from its steps while it is closed."""

    opened: threading.Event = field(default_factory=threading.Event)

    def __call__(self, step: int) -> None:
        self.opened.wait(PATIENCE_S)

    def close(self) -> None:
        self.opened.clear()

    def open(self) -> None:
        self.opened.set()


@dataclass
class StuckSite:
    site: Any
    stage: Any
    blockade: Blockade

    def wait_for_health(self, status: int) -> Any:
        """Wait until /health answers with a status; return that answer."""
        ends_at = time.monotonic() + PATIENCE_S
        while (reply := self.site.send("GET", "/health")).status != status:
            assert time.monotonic() < ends_at, reply.body
            time.sleep(0.05)
        return reply


@pytest.fixture
def stuck(serve: Callable[..., Any], staged: Callable[..., Any]) -> Iterator[StuckSite]:
    """A server whose model can be kept from answering."""
    stage = staged(Limits(stuck_after_s=0.5), step_s=0.005)
    blockade = Blockade()
    blockade.open()
    stage.stage.model.fault = blockade
    try:
        yield StuckSite(serve(stage.engine), stage, blockade)
    finally:
        blockade.open()


def asked(path: str, text: str, *, is_streamed: bool) -> dict[str, Any]:
    return {"model": "m", "stream": is_streamed, **BODIES[path](text)}


def told(reply_body: bytes) -> str:
    return reply_body.decode()


@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("path", ROUTES)
def test_a_running_request_ends_with_an_error_in_its_dialect(
    stuck: StuckSite, path: str, is_streamed: bool
) -> None:
    exchange = stuck.site.open(
        "POST", path, asked(path, LONG, is_streamed=is_streamed), waits=is_streamed
    )
    try:
        assert stuck.stage.wait_until(lambda engine: engine.status.running == 1)
        stuck.blockade.close()
        answer = exchange.response or exchange.connection.getresponse()
        body = answer.read().decode()
    finally:
        exchange.close()
    assert "has not completed a step for 0.5 seconds" in body
    # Never a normal end.
    normal = ("message_stop", "end_turn", '"finish_reason":"stop"', "response.completed")
    for word in (*normal, '"done_reason":"stop"'):
        assert word not in body
    if not is_streamed:
        assert answer.status == 500


def test_health_fails_while_the_model_is_stuck_and_new_requests_are_refused_in_words(
    stuck: StuckSite,
) -> None:
    assert stuck.wait_for_health(200).json["status"] == "ok"
    stuck.blockade.close()
    running = stuck.site.open(
        "POST", ROUTES[0], asked(ROUTES[0], LONG, is_streamed=True), waits=False
    )
    health = stuck.wait_for_health(503)
    assert health.json == {"status": "failed", "running": 0, "waiting": 0}
    running.close()
    for path in ROUTES:
        for is_streamed in (False, True):
            reply = stuck.site.send("POST", path, asked(path, "Hi", is_streamed=is_streamed))
            assert reply.status == 503, (path, reply.body)
            assert "has not completed a step" in told(reply.body)
    # What needs no model is still told.
    assert stuck.site.send("GET", "/v1/models").status == 200
    assert stuck.site.send("GET", "/metrics").status == 200


@pytest.mark.parametrize("path", ROUTES)
def test_requests_are_answered_again_once_the_model_has_come_back(
    stuck: StuckSite, path: str
) -> None:
    right = stuck.site.send("POST", path, asked(path, "Hi", is_streamed=False))
    assert right.status == 200
    stuck.blockade.close()
    assert stuck.site.send("POST", path, asked(path, LONG, is_streamed=False)).status == 500
    stuck.wait_for_health(503)
    stuck.blockade.open()
    # Whoever looks at /health alone, and sends nothing until it is well, sees it get well.
    assert stuck.wait_for_health(200).json["status"] == "ok"
    again = stuck.site.send("POST", path, asked(path, "Hi", is_streamed=False))
    assert again.status == 200
    assert b"Hello" in right.body
    assert b"Hello" in again.body

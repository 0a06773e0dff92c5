"""A model that hangs in a step: what clients are told, and how the server recovers."""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from engine.values.limits import Limits
from tests.api.conftest import LONG
from tests.api.protection.test_hang_ups import body as asked
from tests.api.questions import PATHS

pytestmark = pytest.mark.long

PATIENCE_S = 120.0
# A step on a busy machine takes less.
STUCK_AFTER_S = 4.0


@dataclass
class Blockade:
    """Holds the model in its steps while it is closed."""

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
        ends_at = time.monotonic() + PATIENCE_S
        while (reply := self.site.send("GET", "/health")).status != status:
            assert time.monotonic() < ends_at, reply.body
            time.sleep(0.05)
        return reply


@pytest.fixture
def stuck(serve: Callable[..., Any], staged: Callable[..., Any]) -> Iterator[StuckSite]:
    stage = staged(Limits(stuck_after_s=STUCK_AFTER_S), step_s=0.005)
    blockade = Blockade()
    blockade.open()
    stage.stage.model.fault = blockade
    try:
        yield StuckSite(serve(stage.engine), stage, blockade)
    finally:
        blockade.open()


def test_running_requests_end_with_an_error_in_their_dialects(stuck: StuckSite) -> None:
    kinds = [(path, is_streamed) for path in PATHS for is_streamed in (False, True)]
    exchanges = [
        stuck.site.open("POST", path, asked(path, LONG, is_streamed=is_streamed), waits=False)
        for path, is_streamed in kinds
    ]
    assert stuck.stage.wait_until(
        lambda engine: engine.status.running + engine.status.waiting == len(kinds)
    )
    stuck.blockade.close()
    normal = ("message_stop", "end_turn", '"finish_reason":"stop"', "response.completed")
    for (path, is_streamed), exchange in zip(kinds, exchanges, strict=True):
        try:
            with exchange.connection.getresponse() as answer:
                body = answer.read().decode()
        finally:
            exchange.close()
        assert f"has not completed a step for {STUCK_AFTER_S:g} seconds" in body, path
        # Never a normal end.
        for word in (*normal, '"done_reason":"stop"'):
            assert word not in body
        # Some requests may still have been in the queue.
        assert is_streamed or answer.status in (500, 503)


def test_requests_are_answered_again_once_the_model_continues(stuck: StuckSite) -> None:
    hello = {path: asked(path, "Hi", is_streamed=False) for path in PATHS}
    for path, body in hello.items():
        assert b"Hello" in stuck.site.send("POST", path, body).body
    stuck.blockade.close()
    long = asked(PATHS[0], LONG, is_streamed=False)
    assert stuck.site.send("POST", PATHS[0], long).status == 500
    stuck.wait_for_health(503)
    stuck.blockade.open()
    # A client that only polls /health sees that the server has recovered.
    assert stuck.wait_for_health(200).json["status"] == "ok"
    for path, body in hello.items():
        again = stuck.site.send("POST", path, body)
        assert again.status == 200
        assert b"Hello" in again.body

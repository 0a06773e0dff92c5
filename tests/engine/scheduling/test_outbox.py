"""When the readers of answers are woken, by a made-up clock."""

import asyncio
from typing import Any, cast

import pytest

from engine.scheduling import outbox
from engine.scheduling.generation import Generation
from engine.scheduling.outbox import Outbox
from tests.engine.scheduling.readers import Clock, Reader


async def woken_after(
    monkeypatch: pytest.MonkeyPatch, readers: int, waited_s: float, *, is_urgent: bool = False
) -> int:
    """Return how many of some readers are woken so long after they were woken before."""
    clock, box = Clock(), Outbox()
    monkeypatch.setattr(outbox, "time", clock)
    all_of_them = [Reader(asyncio.get_running_loop(), clock) for _ in range(readers)]

    def put(*, is_urgent: bool = False) -> None:
        for one in all_of_them:
            box.put(cast(Generation, one), cast(Any, ["event"]), is_urgent=is_urgent)
        box.deliver()

    put()
    await asyncio.sleep(0)
    assert [one.woken for one in all_of_them] == [1] * readers
    clock.now += waited_s
    put(is_urgent=is_urgent)
    await asyncio.sleep(0)
    return sum(one.woken - 1 for one in all_of_them)


@pytest.mark.parametrize(
    ("readers", "waited_s", "woken"),
    [(1, 0.014, 0), (1, 0.016, 1), (16, 0.016, 0), (16, 0.031, 16), (200, 0.031, 200)],
)
def test_many_readers_are_woken_more_rarely_than_one(
    monkeypatch: pytest.MonkeyPatch, readers: int, waited_s: float, woken: int
) -> None:
    assert asyncio.run(woken_after(monkeypatch, readers, waited_s)) == woken


def test_an_urgent_event_wakes_all_waiting_readers(monkeypatch: pytest.MonkeyPatch) -> None:
    assert asyncio.run(woken_after(monkeypatch, 16, 0.001, is_urgent=True)) == 16

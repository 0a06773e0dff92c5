"""A generation's events between the engine thread and a reader who may be slow or gone."""

import asyncio
from collections.abc import Callable

import pytest

from engine import generation as generation_module
from engine.generation import Generation, merge_deltas
from engine.stopping.record import StopInfo, StopKind
from engine.values.events import Event, Finished, TextDelta, Timing, Usage
from tests.support.asking import request

END = Finished(StopInfo(StopKind.EOS), Usage(), Timing())


def unread(loop: asyncio.AbstractEventLoop) -> Generation:
    return Generation(request("x"), loop, lambda _: None)


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Return how many events have been looked at for merging since the last call."""
    looked: list[int] = []

    def counted(events: list[Event]) -> list[Event]:
        looked.append(len(events))
        return merge_deltas(events)

    monkeypatch.setattr(generation_module, "merge_deltas", counted)

    def since() -> int:
        total = sum(looked)
        looked.clear()
        return total

    return since


async def test_unread_text_is_merged_into_one_event(work: Callable[[], int]) -> None:
    generation = unread(asyncio.get_running_loop())
    for number in range(5000):
        generation.push([TextDelta(f"{number} ")])
        assert len(generation._pending) <= 70
    assert work() <= 2 * 5000
    generation.push([END])
    [batch] = [batch async for batch in generation.batches()]
    assert batch == [TextDelta("".join(f"{number} " for number in range(5000))), END]


async def test_nothing_comes_after_the_end(work: Callable[[], int]) -> None:
    generation = unread(asyncio.get_running_loop())
    generation.push([TextDelta("a"), END])
    assert not generation.push([TextDelta("b"), END])
    assert [event async for event in generation.events()] == [TextDelta("a"), END]


async def test_several_waiters_for_end_of_generation() -> None:
    generation = unread(asyncio.get_running_loop())
    waiting = [asyncio.ensure_future(generation.ended()) for _ in range(3)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    generation.push([END])
    assert [event async for event in generation.events()] == [END]
    assert await asyncio.gather(*waiting[1:]) == [END, END]
    assert await generation.ended() is END

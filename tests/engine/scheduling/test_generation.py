"""A generation's events between the engine thread and a reader who may be slow or gone."""

import asyncio
import gc
from collections.abc import Callable
from typing import Any

import pytest

from engine import generation as generation_module
from engine.engine import Engine
from engine.generation import Generation, merge_deltas
from engine.stopping.record import Channel, StopInfo, StopKind
from engine.values.events import Event, Finished, TextDelta, Timing, TokenTrace, Usage
from tests.support.asking import request

END = Finished(StopInfo(StopKind.EOS), Usage(), Timing())


def trace(number: int) -> TokenTrace:
    return TokenTrace(number, 1, "a", b"a", Channel.TEXT, 0.0, 1, "", ())


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


async def test_a_push_behind_unread_traces_costs_no_more_than_one_behind_none(
    work: Callable[[], int],
) -> None:
    generation = unread(asyncio.get_running_loop())
    costs = []
    for block in range(30):
        for number in range(200):
            generation.push([TextDelta("a"), trace(block * 200 + number)])
        costs.append(work())
    # Each event is looked at once or twice, however many lie before it.
    assert max(costs) <= 2 * 400
    batch = await anext(generation.batches())
    assert [event for event in batch if isinstance(event, TokenTrace)] == [
        trace(number) for number in range(6000)
    ]
    assert sum(isinstance(event, TextDelta) for event in batch) == 6000


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


async def test_any_number_may_wait_for_the_end_and_one_that_gives_up_disturbs_no_other() -> None:
    generation = unread(asyncio.get_running_loop())
    waiting = [asyncio.ensure_future(generation.ended()) for _ in range(3)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    generation.push([END])
    assert [event async for event in generation.events()] == [END]
    assert await asyncio.gather(*waiting[1:]) == [END, END]
    assert await generation.ended() is END


async def test_a_refusal_after_its_caller_has_left_is_not_logged_as_an_error() -> None:
    stray: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: stray.append(context))
    engine = Engine()
    task = asyncio.create_task(engine.generate(request("x")))
    await asyncio.sleep(0)  # now it is sent, and nobody waits for the answer yet
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await engine.aclose()
    assert task.cancelled()
    await asyncio.sleep(0)
    gc.collect()
    await asyncio.sleep(0)
    assert stray == []

"""When and how often the readers of answers are woken, by a made-up clock."""

import asyncio
import itertools
from typing import Any, cast

import pytest

from engine.inference.backend import Step
from engine.scheduling import outbox, scheduler
from engine.scheduling.call_queue import CallQueue
from engine.scheduling.context import EngineContext
from engine.scheduling.outbox import Outbox
from engine.scheduling.scheduler import Scheduler
from engine.values.limits import Limits

_STEP_S = 0.002
# The longest distance of two wake-ups, and one step.
_MOST_S = 0.03 + _STEP_S


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now

    perf_counter = monotonic


class Reader:
    """A generation that notes when it was woken, after its beginning; it reads at once."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock) -> None:
        self.loop = loop
        self._clock = clock
        self._is_woken = False
        self.woken_at = [clock.now]

    def push(self, events: Any) -> bool:
        is_first, self._is_woken = not self._is_woken, True
        return is_first

    def wake(self) -> None:
        self._is_woken = False
        self.woken_at.append(self._clock.now)

    @property
    def woken(self) -> int:
        return len(self.woken_at) - 1

    @property
    def longest_s(self) -> float:
        times = [*self.woken_at, self._clock.now]
        return max(after - before for before, after in itertools.pairwise(times))


class Builder:
    def __init__(self) -> None:
        self.count = 0
        self.events: list[str] = []


class Answer:
    """A sequence whose every token is a piece of text."""

    is_fully_traced = False
    is_prefill_only = False

    def __init__(self, generation: Reader) -> None:
        self.generation = generation
        self.builder = Builder()

    def take(self, token: int, now: float, origin: Any = None) -> None:
        self.builder.count += 1
        self.builder.events.append("text")

    def take_events(self) -> list[str]:
        found, self.builder.events = self.builder.events, []
        return found


class Batch:
    """The sequences of one model."""

    def __init__(self, box: Outbox, readers: list[Reader], decoding: int) -> None:
        sequences: Any = {number: Answer(one) for number, one in enumerate(readers)}
        unused: Any = None
        context = EngineContext(
            Limits(), unused, CallQueue(), box, unused, unused, unused, unused, unused
        )
        self._scheduler = Scheduler(unused, context)
        self._scheduler.running |= sequences
        self._step = Step(sampled=[(number, 7, None) for number in range(decoding)])

    def step(self) -> None:
        self._scheduler.take(self._step)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(outbox, "time", found)
    monkeypatch.setattr(scheduler, "time", found)
    return found


@pytest.mark.parametrize("is_urgent", [False, True])
@pytest.mark.parametrize("every_steps", [1, 3, 9, 14])
async def test_a_stream_gets_its_text_while_requests_arrive(
    clock: Clock, every_steps: int, is_urgent: bool
) -> None:
    loop = asyncio.get_running_loop()
    box = Outbox()
    reader = Reader(loop, clock)
    waiting = [Reader(loop, clock) for _ in range(20)]
    batch = Batch(box, [reader, *waiting], decoding=1)
    for number in range(200):
        clock.now += _STEP_S
        if number % every_steps == 0:
            box.put(cast(Any, waiting[number % 20]), cast(Any, ["event"]), is_urgent=is_urgent)
            box.deliver()
        batch.step()
        box.deliver()
        await asyncio.sleep(0)
    assert reader.longest_s <= _MOST_S


@pytest.mark.parametrize(("readers", "most"), [(1, 14), (16, 8)])
async def test_readers_are_not_woken_for_every_token(clock: Clock, readers: int, most: int) -> None:
    loop = asyncio.get_running_loop()
    box = Outbox()
    some = [Reader(loop, clock) for _ in range(readers)]
    batch = Batch(box, some, decoding=readers)
    for _ in range(100):
        clock.now += _STEP_S
        batch.step()
        box.deliver()
        await asyncio.sleep(0)
    assert 3 < len(some[0].woken_at) <= most

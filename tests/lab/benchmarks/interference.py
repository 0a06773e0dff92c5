"""Measures what one client's odd requests cost the others; prints ratios of this one run.

    python -m tests.lab.benchmarks.interference

A canary stream runs on the demo model, first alone, then while others send long stop lists or
leave traced streams unread. Nothing here passes or fails.
"""

import asyncio
import itertools
import statistics
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from engine.errors import InvalidRequest
from engine.scheduling.generation import Generation
from engine.scheduling.service import Engine
from engine.stopping.record import Channel
from engine.stopping.rules import StopRules, checked_strings
from engine.values.chat import Message
from engine.values.events import TextDelta, TokenTrace
from engine.values.request import GenerationRequest, Sampling

MODEL = Path(__file__).parents[3] / "assets" / "demo-model"
_TOKENS = 400


def _asking(text: str, stops: tuple[str, ...] = (), tokens: int = 8) -> GenerationRequest:
    return GenerationRequest(
        (Message("user", text),),
        sampling=Sampling(temperature=0),
        stops=StopRules.of(*stops, ignore_eos=True),
        max_tokens=tokens,
        thinking=False,
    )


def _letters(number: int, length: int) -> tuple[str, ...]:
    """Return 64 stops that no other call returns, as a client would send them."""
    return tuple(f"{number}.{n}.".ljust(length, "xyz"[n % 3]) for n in range(64))


async def _worst_gap_s(engine: Engine, beside: Callable[[], Awaitable[None]]) -> float:
    """Return the longest wait between two events of a stream while something runs beside it."""
    generation = await engine.generate(_asking("Count from 1 to 100", tokens=_TOKENS))
    arrivals: list[float] = []
    other: asyncio.Task[None] | None = None
    async for _ in generation.batches():
        arrivals.append(time.perf_counter())
        if len(arrivals) == 5:
            other = asyncio.ensure_future(beside())
    if other is not None:
        await other
    return max(b - a for a, b in itertools.pairwise(arrivals))


async def _nothing() -> None:
    return


async def stop_lists() -> None:
    """The canary's worst gap beside four requests of 64 long stops each."""
    engine = Engine()
    await engine.load(MODEL)
    numbers = iter(range(10_000))
    for length in (1024, 4096):

        async def four(length: int = length) -> None:
            async def one() -> None:
                try:
                    stops = checked_strings(_letters(next(numbers), length), "stop")
                    generation = await engine.generate(_asking("Say: yes", stops))
                except InvalidRequest:
                    return
                await generation.collect()

            await asyncio.gather(*(one() for _ in range(4)))

        quiet = [await _worst_gap_s(engine, _nothing) for _ in range(5)]
        beside = [await _worst_gap_s(engine, four) for _ in range(5)]
        ours, alone = statistics.median(beside), statistics.median(quiet)
        print(
            f"4 x 64 stops of {length}: worst gap / quiet  {ours / alone:8.2f}"
            f"   ({ours * 1e3:.1f} and {alone * 1e3:.1f} ms)"
        )
    await engine.aclose()


def unread_traces() -> None:
    """What a push costs behind 3,000 unread traces, against one behind none."""
    loop = asyncio.new_event_loop()
    trace = TokenTrace(0, 1, "a", b"a", Channel.TEXT, 0.0, 1, "", ())

    def push_us(unread: int) -> tuple[float, float]:
        generation = Generation(_asking("x"), loop, lambda _: None)
        for _ in range(unread):
            generation.push([TextDelta("a"), trace])
        costs = []
        for _ in range(200):
            begin = time.perf_counter()
            generation.push([TextDelta("a"), trace])
            costs.append((time.perf_counter() - begin) * 1e6)
        return statistics.median(costs), max(costs)

    for unread in (0, 3000):
        push_us(unread)
        median, worst = push_us(unread)
        print(f"push behind {unread:>5} unread traces: {median:10.2f} us, worst {worst:10.2f} us")
    loop.close()


if __name__ == "__main__":
    unread_traces()
    asyncio.run(stop_lists())

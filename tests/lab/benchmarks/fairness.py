"""Measures the cost of a long prompt for other answers; prints ratios of this one run.

    python -m tests.lab.benchmarks.fairness [--tokens 20000] [--seconds 150]

A stream of the demo model runs alone, then beside a long prompt, behind which short requests are
sent. That is done at the beginning, in the middle and at the end of the prompt, each for a part of
the time: what stands before the part is read first, with nothing else running, and then found in
the prompt cache. Nothing here passes or fails: read the figures beside their targets.
"""

import argparse
import asyncio
import itertools
import random
import time
from dataclasses import dataclass
from pathlib import Path

from engine.engine import Engine
from engine.generation import Generation
from engine.stopping.rules import StopRules
from engine.values.events import PromptProgress, TextDelta
from engine.values.request import GenerationRequest, Message, Sampling
from tests.lab.benchmarks.measuring import prepare, report

MODEL = Path(__file__).parents[3] / "assets" / "demo-model"
# Ids of ordinary tokens of the demo model.
IDS = range(10, 700)
PARTS = 3
# The share of the time for reading the text before the parts.
PREPARING = 0.5
BETWEEN_S = 2.0
ALONE_S = 1.5


def asking(text: str, tokens: int) -> GenerationRequest:
    """Return a request whose answer goes on to its limit."""
    return GenerationRequest(
        (Message("user", text),),
        sampling=Sampling(temperature=0),
        stops=StopRules(ignore_eos=True),
        max_tokens=tokens,
        thinking=False,
    )


def reading(ids: list[int]) -> GenerationRequest:
    """Return a request with a long prompt and a short answer."""
    return GenerationRequest(prompt=tuple(ids), max_tokens=1)


async def written(generation: Generation) -> list[tuple[float, int]]:
    """Return when the parts of an answer arrived, and how many characters each had."""
    found: list[tuple[float, int]] = []
    async for batch in generation.batches():
        length = sum(len(event.text) for event in batch if isinstance(event, TextDelta))
        found.append((time.perf_counter(), length))
    return found


def pace(parts: list[tuple[float, int]], begin: float, end: float) -> float:
    return sum(length for at, length in parts if begin <= at < end) / (end - begin)


@dataclass
class Progress:
    tokens: int = 0

    async def follow(self, generation: Generation) -> None:
        """Note the progress until the answer has ended."""
        async for batch in generation.batches():
            for event in batch:
                if isinstance(event, PromptProgress):
                    self.tokens = event.processed


async def first_tokens(engine: Engine, until_s: float, long: asyncio.Task[None]) -> list[float]:
    """Return after how long short requests, sent one after the other, had their first token."""
    found: list[float] = []
    for number in itertools.count():
        await asyncio.sleep(0.2 if not number else BETWEEN_S)
        if long.done() or time.perf_counter() > until_s:
            return found
        short = await engine.generate(asking(f"Say: {random.random()}", 4))
        found.append((await short.collect()).finished.timing.first_token_s)
    return found


async def beside(engine: Engine, ids: list[int], cached: int, seconds: float) -> None:
    """Measure a stream, a long prompt beside it, and short requests behind that."""
    stream = await engine.generate(asking("Count from 1 to 100", 30_000))
    writing = asyncio.ensure_future(written(stream))
    await asyncio.sleep(0.3)
    first = time.perf_counter()
    await asyncio.sleep(ALONE_S)
    begin = time.perf_counter()
    progress = Progress()
    generation = await engine.generate(reading(ids))
    long = asyncio.ensure_future(progress.follow(generation))
    firsts = await first_tokens(engine, begin + seconds - 2 * ALONE_S, long)
    generation.cancel()
    await long
    end = time.perf_counter()
    await asyncio.sleep(ALONE_S)
    last = time.perf_counter()
    stream.cancel()
    parts = await writing
    alone = (pace(parts, first, begin) + pace(parts, end, last)) / 2
    times = [at for at, _ in parts]
    gap = max(b - a for a, b in itertools.pairwise(times) if begin < b < end)
    where = f"tokens {cached:,} to {progress.tokens:,}"
    report(
        f"stream beside a prompt, {where} / alone",
        f"{pace(parts, begin, end) / alone:.2f}",
        f">= 0.5   ({end - begin:.1f} s, worst gap {gap * 1e3:.0f} ms)",
    )
    report(
        f"first token of {len(firsts)} short requests behind it, at most, s",
        f"{max(firsts, default=0.0):.2f}",
        "<= 1",
    )


async def read_up_to(engine: Engine, ids: list[int], until_s: float) -> int:
    """Have as much of a prompt read as fits into the time; return how many tokens."""
    progress = Progress()
    generation = await engine.generate(reading(ids))
    long = asyncio.ensure_future(progress.follow(generation))
    while not long.done() and time.perf_counter() < until_s:
        await asyncio.wait({long}, timeout=0.1)
    generation.cancel()
    await long
    return progress.tokens


async def measure(tokens: int, seconds: float) -> None:
    engine = Engine()
    await engine.load(MODEL)
    await (await engine.generate(asking("Hello", 200))).collect()
    draws = random.Random(0)
    ids = [draws.choice(IDS) for _ in range(tokens)]
    each_s = seconds * (1 - PREPARING) / PARTS
    for part in range(PARTS):
        # The last part ends with the prompt.
        begins = part * (tokens - tokens // 10) // (PARTS - 1)
        if begins:
            # Reading the second half takes longer than the first.
            prepares_s = seconds * PREPARING * (part / (PARTS - 1)) ** 2
            begins = await read_up_to(engine, ids[:begins], time.perf_counter() + prepares_s)
        await beside(engine, ids, begins, each_s)
    await engine.aclose()


if __name__ == "__main__":
    prepare()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=20_000)
    parser.add_argument("--seconds", type=float, default=150.0)
    options = parser.parse_args()
    asyncio.run(measure(options.tokens, options.seconds))

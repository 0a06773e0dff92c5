"""Measures what a long prompt costs the others; prints ratios of this one run.

    python -m tests.benchmarks.fairness [--words 5700]

A stream of the demo model runs alone, then beside a prompt of some 20,000 tokens, behind which a
short request is sent. Nothing here passes or fails: read the figures beside their targets.
"""

import argparse
import asyncio
import itertools
import time
from pathlib import Path

from engine.scheduling.generation import Generation
from engine.scheduling.service import Engine
from engine.stopping.rules import StopRules
from engine.values.chat import Message
from engine.values.events import TextDelta
from engine.values.request import GenerationRequest, Sampling
from tests.benchmarks.engine import pin, report

MODEL = Path(__file__).parents[2] / "assets" / "demo-model"


def asking(text: str, tokens: int) -> GenerationRequest:
    """Return a request whose answer goes on to its limit."""
    return GenerationRequest(
        (Message("user", text),),
        sampling=Sampling(temperature=0),
        stops=StopRules(ignore_eos=True),
        max_tokens=tokens,
        thinking=False,
    )


async def written(generation: Generation) -> list[tuple[float, int]]:
    """Return when the parts of an answer arrived, and how many characters each had."""
    found: list[tuple[float, int]] = []
    async for batch in generation.batches():
        length = sum(len(event.text) for event in batch if isinstance(event, TextDelta))
        found.append((time.perf_counter(), length))
    return found


def pace(parts: list[tuple[float, int]], begin: float, end: float) -> float:
    """Return the characters per second between two moments."""
    return sum(length for at, length in parts if begin <= at < end) / (end - begin)


async def beside(engine: Engine, words: int, number: int) -> None:
    """Measure a stream, a long prompt beside it, and a short request behind that."""
    stream = await engine.generate(asking("Count from 1 to 100", 30_000))
    reading = asyncio.ensure_future(written(stream))
    await asyncio.sleep(0.3)
    first = time.perf_counter()
    await asyncio.sleep(1)
    begin = time.perf_counter()
    long = await engine.generate(asking(f"{number} " + "lorem ipsum " * (words // 2), 1))
    await asyncio.sleep(0.2)
    short = await engine.generate(asking(f"Say: {number}", 4))
    first_s = (await short.collect()).finished.timing.first_token_s
    await long.collect()
    end = time.perf_counter()
    await asyncio.sleep(1)
    last = time.perf_counter()
    stream.cancel()
    parts = await reading
    alone = (pace(parts, first, begin) + pace(parts, end, last)) / 2
    times = [at for at, _ in parts]
    gap = max(b - a for a, b in itertools.pairwise(times) if begin < b < end)
    report(
        f"stream beside {long.prompt_tokens} tokens / alone",
        f"{pace(parts, begin, end) / alone:.2f}",
        f">= 0.5   ({end - begin:.1f} s, worst gap {gap * 1e3:.0f} ms)",
    )
    report("first token of a short request behind it, s", f"{first_s:.2f}", "<= 1")


async def measure(words: int) -> None:
    """Run the measurement three times."""
    engine = Engine()
    await engine.load(MODEL)
    await (await engine.generate(asking("Hello", 200))).collect()
    for number in range(3):
        await beside(engine, words, number)
    await engine.aclose()


if __name__ == "__main__":
    pin()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--words", type=int, default=5_700)
    asyncio.run(measure(parser.parse_args().words))

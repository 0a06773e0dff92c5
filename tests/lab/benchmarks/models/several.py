"""Measures what several models cost beside one; prints ratios of this one run.

    python -m tests.lab.benchmarks.models.several [--rounds 9] [--tokens 300]

Two copies of the demo model are in memory. Both together are compared with one of them that
answers twice at once, and with one that answers alone; a first token after a switch of model with
one without; and the longest pause of an answer while another model is loaded is told. Two models
need two passes where one needs a single pass over two rows: what that costs by itself is measured
with mlx-lm's bare loop. The sides alternate, because the machines are noisy. Nothing here passes or
fails: read the figures beside their targets.
"""

import argparse
import asyncio
import shutil
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from mlx_lm import load
from mlx_lm.generate import BatchGenerator

from engine.inference.sampling import greedy
from engine.scheduling.generation import Generation
from engine.scheduling.model_list import OfferedModel
from engine.scheduling.service import Engine
from engine.stopping.rules import StopRules
from engine.values.events import TextDelta
from engine.values.request import GenerationRequest, Message, Sampling
from tests.lab.benchmarks.measuring import MODEL, prepare, report


def asking(model: str, tokens: int) -> GenerationRequest:
    """Return a request whose answer goes on to its limit."""
    return GenerationRequest(
        (Message("user", "Write something."),),
        sampling=Sampling(temperature=0),
        stops=StopRules(ignore_eos=True),
        max_tokens=tokens,
        thinking=False,
        model=model,
    )


async def rate(engine: Engine, models: str, tokens: int) -> tuple[float, float]:
    """Return the tokens per second of answers at once, and their time on the processor (ms)."""
    begin_s, busy_s = time.perf_counter(), time.process_time()
    answers = [await engine.generate(asking(model, tokens)) for model in models]
    await asyncio.gather(*(one.collect() for one in answers))
    count = tokens * len(models)
    busy_ms = 1000 * (time.process_time() - busy_s) / count
    return count / (time.perf_counter() - begin_s), busy_ms


class BareLoops:
    """mlx-lm's own loop: two models that are stepped in turn, or one with two rows."""

    def __init__(self) -> None:
        self._models = [load(str(MODEL))[0] for _ in range(2)]
        self._prompt = list(range(5, 35))

    def rate(self, rows: Sequence[int], tokens: int) -> float:
        """Return the tokens per second of so many rows of each model."""
        batches = []
        for model, count in zip(self._models, rows, strict=False):
            batches.append(BatchGenerator(model, sampler=greedy))
            batches[-1].insert([self._prompt] * count, max_tokens=[1 << 40] * count)
        wanted, count = tokens * sum(rows), 0
        begin_s = time.perf_counter()
        while count < wanted:
            for batch in batches:
                count += len(batch.next()[1])
        took_s = time.perf_counter() - begin_s
        for batch in batches:
            batch.close()
        return count / took_s


async def first_token_s(engine: Engine, model: str) -> float:
    """Return how long an answer's first token took."""
    generation = await engine.generate(asking(model, 2))
    return (await generation.collect()).finished.timing.first_token_s or 0.0


async def longest_pause_s(generation: Generation) -> float:
    """Return the longest time between two parts of an answer."""
    longest, last = 0.0, None
    async for batch in generation.batches():
        if any(isinstance(event, TextDelta) for event in batch):
            now = time.perf_counter()
            longest, last = max(longest, now - (last or now)), now
    return longest


def told(what: str, ratios: list[float], target: str) -> None:
    report(what, f"{statistics.median(ratios):.2f}", target)


async def measure(rounds: int, tokens: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for model in "abc":
            shutil.copytree(MODEL, folder / model)
        engine = Engine()
        engine.offer([OfferedModel(model, folder / model) for model in "abc"])
        await engine.load(folder / "a")
        await engine.tokenize("", "b")
        for models in ("aa", "ab", "a"):
            await rate(engine, models, tokens)
        bare = BareLoops()
        beside, alone, busy = list[float](), list[float](), list[float]()
        allowed, reached = list[float](), list[float]()
        for _ in range(rounds):
            twice, twice_ms = await rate(engine, "aa", tokens)
            both, both_ms = await rate(engine, "ab", tokens)
            one, _ = await rate(engine, "a", tokens)
            beside.append(both / twice)
            alone.append(both / one)
            busy.append(twice_ms / both_ms)
            allowed.append(bare.rate([1, 1], tokens) / bare.rate([2], tokens))
            reached.append(beside[-1] / allowed[-1])
        told("two models at once: tokens/s against one with two rows", beside, "at least 0.9")
        told("the same: tokens per time on the processor", busy, "at least 0.9")
        told("the same ratio of mlx-lm's bare loops: two passes against one", allowed, "none")
        told("two models at once: what is reached of that", reached, "at least 0.9")
        told("two models at once: tokens/s against one with one row", alone, "none")
        switched = list[float]()
        for _ in range(rounds):
            await first_token_s(engine, "a")
            stayed_s = await first_token_s(engine, "a")
            switched.append(await first_token_s(engine, "b") / stayed_s)
        told("first token after a switch against staying", switched, "at most 1.1")
        pauses = list[float]()
        for _ in range(3):
            generation = await engine.generate(asking("a", tokens * 4))
            reading = asyncio.ensure_future(longest_pause_s(generation))
            await engine.tokenize("", "c")
            generation.cancel()
            pauses.append(1000 * await reading)
            await engine.unload("c")
        pause = f"{statistics.median(pauses):.0f} ms"
        report("longest pause of an answer while a model is loaded", pause, "none")
        await engine.aclose()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--tokens", type=int, default=300)
    given = parser.parse_args()
    prepare()
    asyncio.run(measure(given.rounds, given.tokens))


if __name__ == "__main__":
    main()

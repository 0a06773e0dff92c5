"""Measures the engine against a bare ``BatchGenerator`` loop; prints ratios of this one run.

    python -m tests.lab.benchmarks.engine [--rounds 5] [--only matcher,one,…]
    python -m tests.lab.benchmarks.engine --only constraint

The two sides alternate, a process pinned to two cores, because the machines are noisy. The ratio of
the processor's time says more than that of the speeds while other programs run. Nothing here
passes or fails: read the ratios beside their targets.
"""

import argparse
import asyncio
import gc
import os
import statistics
import time
from pathlib import Path
from typing import Any

from engine.engine import Engine
from engine.stopping.matcher import StopMatcher
from engine.stopping.rules import StopRules
from engine.values.events import Finished
from engine.values.request import GenerationRequest, Message, OutputConstraint, Sampling, TraceLevel
from tests.lab.benchmarks.measuring import (
    MODEL,
    PROMPT,
    alternate,
    bare_loop,
    compared,
    prepare,
    report,
)

NEVER = ("\n\nUser:", "</block>", "### Instruction", "<|never|>")


def median_us(stops: tuple[str, ...], texts: list[list[str]], count: int = 15) -> float:
    """Return the time of ``feed`` in µs a piece, with a fresh matcher for each text."""
    rounds = []
    for _ in range(count):
        begin = time.perf_counter()
        for pieces in texts:
            feed = StopMatcher(stops).feed
            for piece in pieces:
                feed(piece)
        rounds.append((time.perf_counter() - begin) / sum(map(len, texts)) * 1e6)
    return statistics.median(rounds)


def matcher() -> None:
    """The matcher alone, per token of four characters."""
    prose = "the quick brown fox jumps over the lazy dog and says hello. "
    text = (prose * 400)[:16_000]
    pieces = [text[i : i + 4] for i in range(0, len(text), 4)]
    many = tuple(f"{word}{n}!" for n, word in enumerate(["the q", "fox", "lazy", "hello"] * 16))
    report("matcher, no stops (µs a token)", f"{median_us((), [pieces]):.2f}", "< 0.3")
    report("matcher, 4 stops (µs a token)", f"{median_us(NEVER, [pieces]):.2f}", "< 1")
    report("matcher, 64 stops, prefixes occur (µs)", f"{median_us(many, [pieces]):.2f}", "< 20")
    short = median_us(many, [pieces[:400]] * 100, 5)
    long = median_us(many, [pieces[:400] * 100], 5)
    report("matcher, a text 100 times as long (ratio)", f"{long / short:.2f}", "about 1")


async def engine_rate(
    engine: Engine,
    rows: int,
    tokens: int,
    trace: TraceLevel = TraceLevel.OFF,
    constraint: OutputConstraint | None = None,
) -> float:
    """Return the engine's decoding speed over ``rows`` answers, in tokens per second."""

    begins: list[float] = []
    ends: list[float] = []

    async def timed(number: int) -> None:
        submitted = time.perf_counter()
        stops = tuple(f"{stop}{number}" for stop in NEVER)
        generation = await engine.generate(
            GenerationRequest(
                (Message("user", PROMPT),),
                sampling=Sampling(temperature=0),
                stops=StopRules.of(*stops, ignore_eos=True),
                max_tokens=tokens,
                thinking=False,
                trace=trace,
                constraint=constraint,
            )
        )
        async for batch in generation.batches():
            last = batch[-1]
            if isinstance(last, Finished):
                begins.append(submitted + (last.timing.first_token_s or 0.0))
                ends.append(submitted + (last.timing.first_token_s or 0.0) + last.timing.decode_s)

    await asyncio.gather(*(timed(number) for number in range(rows)))
    return rows * (tokens - 1) / (max(ends) - min(begins))


class Running:
    """An engine with the demo model and a loop of its own to ask it from."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.engine = Engine()
        self.loop.run_until_complete(self.engine.load(MODEL))

    def rate(self, rows: int, tokens: int, trace: TraceLevel = TraceLevel.OFF) -> float:
        return self.loop.run_until_complete(engine_rate(self.engine, rows, tokens, trace))

    def close(self) -> None:
        self.engine.close()
        self.loop.close()


def against_bare(running: Running, rows: int, tokens: int, rounds: int) -> None:
    from mlx_lm import load

    model, tokenizer = load(str(MODEL))[:2]
    prompt = tokenizer.apply_chat_template(
        [{"role": "user", "content": PROMPT}], add_generation_prompt=True, enable_thinking=False
    )
    ours, theirs = alternate(
        rounds,
        lambda: running.rate(rows, tokens),
        lambda: bare_loop(model, prompt, rows, tokens),
    )
    report(
        f"{rows} streams of {tokens}: engine / bare loop",
        f"{ours / theirs:.3f}",
        f">= 0.97   ({compared(ours, theirs)})",
    )


def second_turn(running: Running) -> None:
    """Time to first token of the second turn of a long conversation."""

    async def first_token_s(messages: tuple[Message, ...]) -> tuple[float, str, int]:
        generation = await running.engine.generate(
            GenerationRequest(messages, sampling=Sampling(temperature=0), max_tokens=8)
        )
        answer = await generation.collect()
        found = answer.finished.timing.first_token_s
        assert found is not None
        return found, answer.text, generation.prompt_tokens

    ratios = []
    for number in range(5):
        ask = Message("user", f"{number} " + "lorem ipsum dolor sit amet " * 99)
        first, text, size = running.loop.run_until_complete(first_token_s((ask,)))
        turns = (ask, Message("assistant", text), Message("user", "And now?"))
        second, _, _ = running.loop.run_until_complete(first_token_s(turns))
        ratios.append(second / first)
    report(
        f"second turn / first, first token, {size} tokens",
        f"{statistics.median(ratios):.4f}",
        "<= 0.03",
    )


def constraint(running: Running, rounds: int) -> None:
    """The cost of a schema per token of the answer."""
    numbers = {"type": "array", "items": {"type": "integer"}, "minItems": 10_000}
    held = OutputConstraint({"type": "object", "properties": {"n": numbers}, "required": ["n"]})
    for rows, tokens in ((1, 256), (16, 128)):
        ours, free = alternate(
            rounds,
            lambda rows=rows, tokens=tokens: running.loop.run_until_complete(
                engine_rate(running.engine, rows, tokens, constraint=held)
            ),
            lambda rows=rows, tokens=tokens: running.rate(rows, tokens),
        )
        report(
            f"{rows} streams of {tokens}: constrained / free",
            f"{ours / free:.3f}",
            f">= 0.8   ({ours:.0f} and {free:.0f} tok/s)",
        )


def rss_mb() -> float:
    """Return the resident memory of this process in MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def memory(running: Running, total: int = 2000) -> None:
    async def some(count: int, offset: int) -> None:
        for at in range(0, count, 16):

            async def one(number: int) -> None:
                message = Message("user", f"Say: {number}")
                generation = await running.engine.generate(
                    GenerationRequest((message,), max_tokens=6)
                )
                await generation.collect()

            await asyncio.gather(*(one(offset + at + n) for n in range(16)))

    running.loop.run_until_complete(some(200, 0))
    gc.collect()
    early = rss_mb()
    running.loop.run_until_complete(some(total - 200, 200))
    gc.collect()
    report(f"memory after {total} requests / after 200", f"{rss_mb() / early:.3f}", "<= 1.05")


def main() -> None:
    prepare()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="matcher,one,sixteen,turn,memory,trace")
    options = parser.parse_args()
    only = set(options.only.split(","))
    if "matcher" in only:
        matcher()
    if only == {"matcher"}:
        return
    running: Any = Running()
    if "one" in only:
        against_bare(running, 1, 256, options.rounds)
    if "sixteen" in only:
        against_bare(running, 16, 256, options.rounds)
    if "turn" in only:
        second_turn(running)
    if "trace" in only:
        on, off = alternate(
            options.rounds,
            lambda: running.rate(1, 256, TraceLevel.FULL),
            lambda: running.rate(1, 256),
        )
        report("full trace on / off, one stream", f"{on / off:.3f}", ">= 0.85")
    if "constraint" in only:
        constraint(running, options.rounds)
    if "memory" in only:
        memory(running)
    running.close()


if __name__ == "__main__":
    main()

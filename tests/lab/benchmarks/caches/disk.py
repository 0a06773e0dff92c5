"""Measures the caches on disk; prints ratios of this one run.

    python -m tests.lab.benchmarks.caches.disk [--rounds 5] [--tokens 5000]

First token of the next turn after a restart, against reading the conversation anew: a fresh engine
each time, the sides in turn, a process pinned to two cores. Then the pace of a stream while caches
are written beside it, against the same stream alone. The files are in the system's memory, as
they are after a restart of the program; after a restart of the machine, reading them takes longer.
"""

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from engine.inference.cache.folder import DiskCache
from engine.scheduling.service import Engine
from engine.values.events import Finished
from engine.values.request import CacheOwner, GenerationRequest, Message, Sampling
from tests.lab.benchmarks.measuring import MODEL, PROMPT, prepare, report

OWNER = CacheOwner("me", "benchmark")
WORDS = "lorem ipsum dolor sit amet "


def request(
    messages: Sequence[Message], most: int = 8, owner: CacheOwner = OWNER
) -> GenerationRequest:
    """Return a request at temperature 0."""
    return GenerationRequest(
        tuple(messages),
        sampling=Sampling(temperature=0),
        max_tokens=most,
        thinking=False,
        cache_owner=owner,
    )


async def once(folder: Path, messages: Sequence[Message]) -> tuple[float, str, Finished]:
    """Ask a fresh engine; return the time to the first token in seconds, the text and the end."""
    disk = DiskCache(folder, 1 << 32)
    engine = Engine(disk=disk)
    await engine.load(MODEL)
    # The first step of a fresh model takes longer than any other.
    await (
        await engine.generate(request([Message("user", "Hi")], owner=CacheOwner("me")))
    ).collect()
    answer = await (await engine.generate(request(messages))).collect()
    await engine.aclose()
    await asyncio.to_thread(disk.close)
    first_s = answer.finished.timing.first_token_s
    assert first_s is not None
    return first_s, answer.text, answer.finished


async def next_turn(rounds: int, tokens: int) -> None:
    """The next turn of a long conversation after a restart, compared with reading it again."""
    with_disk, anew = [], []
    size = 0
    for number in range(rounds):
        with tempfile.TemporaryDirectory() as kept, tempfile.TemporaryDirectory() as empty:
            ask = Message("user", f"{number} {WORDS * (tokens // 15)}")
            _, text, _ = await once(Path(kept), [ask])
            turns = [ask, Message("assistant", text), Message("user", "And now?")]
            # Both sides keep the same; the other side reads from an empty folder.
            first_s, said, end = await once(Path(kept), turns)
            read_s, read, other = await once(Path(empty), turns)
            assert said == read, "the cache on disk changed an answer"
            assert end.usage.disk_tokens > tokens // 2
            assert other.usage.cached_tokens < 100
            size = end.usage.prompt_tokens
            with_disk.append(first_s)
            anew.append(read_s)
    ours, theirs = statistics.median(with_disk), statistics.median(anew)
    report(
        f"restart, next turn of {size} tokens, first token / anew",
        f"{ours / theirs:.4f}",
        f"<= 0.05   ({ours * 1000:.0f} and {theirs * 1000:.0f} ms)",
    )


async def stream(engine: Engine) -> tuple[float, float]:
    """Return tokens per second of one stream, and its longest gap in seconds."""
    asked = request([Message("user", PROMPT)], 250, None)
    generation = await engine.generate(asked)
    gaps, last, rate = [], None, 0.0
    async for events in generation.batches():
        now = time.perf_counter()
        if last is not None:
            gaps.append(now - last)
        last = now
        if isinstance(events[-1], Finished):
            timing, usage = events[-1].timing, events[-1].usage
            rate = (usage.output_tokens - 1) / timing.decode_s
    return rate, max(gaps)


async def writing_beside(rounds: int, tokens: int) -> None:
    """The pace of a stream while a long cache is written again and again."""
    with tempfile.TemporaryDirectory() as folder:
        disk = DiskCache(Path(folder), 1 << 32)
        engine = Engine(disk=disk)
        await engine.load(MODEL)
        ask = Message("user", WORDS * (tokens // 15))
        await (await engine.generate(request([ask]))).collect()
        await asyncio.wrap_future(disk.measured())
        [file] = disk.folder.files()
        content = (disk.folder.path / file.name).read_bytes()
        is_over = False

        def write() -> None:
            if is_over:
                return
            with disk.folder.unfinished(len(content)) as copy:
                copy.write(content)
                copy.commit(disk.folder.prefix("none", "none"))
            disk.writer.do(write)

        alone, beside, gaps_alone, gaps_beside = [], [], [], []
        for _ in range(rounds):
            rate, gap = await stream(engine)
            alone.append(rate)
            gaps_alone.append(gap)
            is_over = False
            disk.writer.do(write)
            rate, gap = await stream(engine)
            is_over = True
            await asyncio.wrap_future(disk.measured())
            beside.append(rate)
            gaps_beside.append(gap)
        await engine.aclose()
        await asyncio.to_thread(disk.close)
    ratio = statistics.median(beside) / statistics.median(alone)
    report(
        f"stream while {len(content) / 1e6:.0f} MB are written without a pause / alone",
        f"{ratio:.3f}",
        f"none   (longest gap {statistics.median(gaps_beside) * 1000:.0f} and "
        f"{statistics.median(gaps_alone) * 1000:.0f} ms)",
    )


def main() -> None:
    prepare()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=5000)
    options = parser.parse_args()
    asyncio.run(next_turn(options.rounds, options.tokens))
    asyncio.run(writing_beside(options.rounds, options.tokens))


if __name__ == "__main__":
    main()

"""Measures the cost of prompts with a common beginning, compared with one of them alone.

    python -m tests.lab.benchmarks.caches.shared [--rounds 3] [--common 5000] [--own 30] …

The two sides alternate, a process pinned to two cores, because the machines are noisy. Each round
has a beginning of its own, so that no round finds the one before in the prompt cache.
"""

import argparse
import asyncio
import random
import statistics
import time
from typing import Any

from engine.engine import Engine
from engine.values.events import Finished
from engine.values.request import GenerationRequest, Sampling
from tests.lab.benchmarks.measuring import MODEL, prepare, report


class Asked:
    """An engine with the demo model, asked with prompts of random tokens."""

    def __init__(self, common: int, own: int) -> None:
        self._common = common
        self._own = own
        self._random = random.Random(1)
        self.loop = asyncio.new_event_loop()
        self.engine = Engine()

    def _tokens(self, count: int) -> list[int]:
        return [self._random.randrange(20, 700) for _ in range(count)]

    async def _together(self, requests: int) -> tuple[float, float, int]:
        """Ask at once; return the time to the last first token, all answers' time on the
        processor (both in seconds), and the bytes that are kept.
        """
        busy_s = time.process_time()
        begin = self._tokens(self._common)
        before = self.engine.status.cache_use.size_bytes

        async def first_token_s() -> float:
            generation = await self.engine.generate(
                GenerationRequest(
                    prompt=tuple(begin + self._tokens(self._own)),
                    sampling=Sampling(temperature=0),
                    max_tokens=4,
                )
            )
            last: Any = None
            async for batch in generation.batches():
                last = batch[-1]
            assert isinstance(last, Finished)
            found = last.timing.first_token_s
            assert found is not None, last
            return found

        slowest = max(await asyncio.gather(*(first_token_s() for _ in range(requests))))
        busy_s = time.process_time() - busy_s
        return slowest, busy_s, self.engine.status.cache_use.size_bytes - before

    def together(self, requests: int) -> tuple[float, float, int]:
        """Measure some requests at once, as ``_together`` does."""
        return self.loop.run_until_complete(self._together(requests))


def main() -> None:
    prepare()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--common", type=int, default=5000)
    parser.add_argument("--own", type=int, default=30)
    parser.add_argument("--requests", type=int, default=16)
    options = parser.parse_args()
    asked = Asked(options.common, options.own)
    asked.loop.run_until_complete(asked.engine.load(MODEL))
    asked.together(1)
    one, many = [], []
    for _ in range(options.rounds):
        one.append(asked.together(1))
        many.append(asked.together(options.requests))
    first_s, busy_s, kept = (statistics.median(column) for column in zip(*one, strict=True))
    all_first_s, all_busy_s, all_kept = (
        statistics.median(column) for column in zip(*many, strict=True)
    )
    what = f"{options.requests} requests, {options.common} + {options.own} tokens / one"
    report(
        f"{what}: last first token",
        f"{all_first_s / first_s:.2f}",
        f"<= 1.6   ({all_first_s:.2f} and {first_s:.2f} s)",
    )
    report(f"{what}: processor time", f"{all_busy_s / busy_s:.2f}", "say")
    report(
        f"{what}: memory kept",
        f"{all_kept / kept:.2f}",
        f"<= 2   ({all_kept / 1e6:.1f} and {kept / 1e6:.1f} MB)",
    )
    asked.engine.close()
    asked.loop.close()


if __name__ == "__main__":
    main()

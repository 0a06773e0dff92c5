"""What the measurements share: the model, a row of output, and sides that take turns."""

import atexit
import gc
import os
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx

MODEL = Path(__file__).parents[3] / "assets" / "demo-model"
PROMPT = "Count from 1 to 100, one number per line"


def report(what: str, value: str, target: str) -> None:
    print(f"{what:<58} {value:>12}   target {target}", flush=True)


class Rate(float):
    """Tokens per second, and the processor's time for it."""

    cpu_s = 0.0


def alternate(rounds: int, *sides: Callable[[], float]) -> list[Rate]:
    """Run the sides in turn and return the medians of each; the first of a round takes turns."""
    values: list[list[float]] = [[] for _ in sides]
    costs: list[list[float]] = [[] for _ in sides]
    numbered = list(enumerate(sides))
    for turn in range(rounds):
        for number, side in numbered if turn % 2 == 0 else reversed(numbered):
            gc.collect()
            began_s = time.process_time()
            values[number].append(side())
            costs[number].append(time.process_time() - began_s)
    found = [Rate(statistics.median(one)) for one in values]
    for rate, cost in zip(found, costs, strict=True):
        rate.cpu_s = statistics.median(cost)
    return found


def compared(ours: Rate, theirs: Rate) -> str:
    """Return both rates in words, and the ratio of the processor's time, which is steadier."""
    return f"{ours:.0f} and {theirs:.0f} tok/s, CPU time {ours.cpu_s / theirs.cpu_s:.2f}"


def prepare() -> None:
    """Keep to two cores where the system can: free to wander, one stream is bimodal by half.

    What mlx-lm compiles on this thread is freed as it ends, after Python has ended, and needs
    Python if another thread called it last. So it is freed before.
    """
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
    atexit.register(mx.clear_streams)


def bare_loop(model: Any, prompt: Sequence[int], rows: int, tokens: int) -> float:
    """Return the tokens per second of mlx-lm's batch alone, in the engine's own portions."""
    from mlx_lm.generate import BatchGenerator

    batch = BatchGenerator(
        model, completion_batch_size=32, prefill_batch_size=4, prefill_step_size=512
    )
    batch.insert([list(prompt)] * rows, max_tokens=[1 << 40] * rows)
    count = 0
    begin_s = 0.0
    while count < rows * tokens:
        _, sampled = batch.next()
        if sampled and not begin_s:
            begin_s = time.perf_counter()
        count += len(sampled)
    took_s = time.perf_counter() - begin_s
    batch.close()
    return (count - rows) / took_s

"""Measures the server against the engine without HTTP and against ``mlx_lm.server`` beside it.

    python -m tests.lab.benchmarks.serving [--rounds 5] [--only one,sixteen,first,burst,mixed]

All three run the demo model in processes pinned to one core and take turns; the client has
another core to itself. Only ratios of one run mean anything: the machines are noisy. Where other
work takes the core away, the processor time that a side used for each token says more than the
clock; both are told. Nothing here passes or fails: read the ratios beside their targets.
"""

import argparse
import statistics
from collections.abc import Callable
from contextlib import ExitStack, nullcontext

from tests.lab.benchmarks.sides import (
    Reading,
    Side,
    bare_engine,
    endless_answer,
    our_server,
    pin_one,
    their_server,
)

LONG = "Count from 1 to 100, one number per line"
STREAM_TOKENS, ROW_TOKENS = 256, 128
CONTEXT = "lorem ipsum dolor sit amet " * 800
"""About 12,000 tokens of the demo model."""


def report(what: str, value: str, target: str) -> None:
    print(f"{what:<62} {value:>9}   target {target}", flush=True)


def rate(readings: list[Reading]) -> float:
    """Return tokens a second, from the first text of all to the last."""
    took = max(one.last_s for one in readings) - min(one.first_s for one in readings)
    return (sum(one.tokens for one in readings) - len(readings)) / took


def alternate(
    sides: list[Side], rounds: int, measure: Callable[[Side, int], float]
) -> dict[str, float]:
    """Let the sides take turns; return the median of each."""
    found: dict[str, list[float]] = {side.name: [] for side in sides}
    for number in range(-1, rounds):
        for side in sides:
            value = measure(side, number)
            if number >= 0:  # the first round warms up
                found[side.name].append(value)
    return {name: statistics.median(values) for name, values in found.items()}


def streams(sides: list[Side], rounds: int, rows: int, tokens: int) -> None:
    """Tokens a second of one or several streams."""

    spent: dict[str, list[float]] = {side.name: [] for side in sides}

    def measure(side: Side, number: int) -> float:
        before = side.processor_s
        readings = side.ask([LONG] * rows, tokens)
        if number >= 0:
            used = side.processor_s - before
            spent[side.name].append(sum(one.tokens for one in readings) / used)
        return rate(readings)

    found = alternate(sides, rounds, measure)
    by_processor = {name: statistics.median(values) for name, values in spent.items()}
    numbers = ", ".join(f"{name} {value:.0f}" for name, value in found.items())
    what = f"{rows} stream{'s' if rows > 1 else ''} of {tokens} tokens"
    report(f"{what}: serve / engine", f"{found['serve'] / found['engine']:.3f}", ">= 0.95")
    report(
        f"{what}: serve / mlx_lm.server",
        f"{found['serve'] / found['mlx_lm.server']:.3f}",
        f"> 1   ({numbers} tok/s)",
    )
    numbers = ", ".join(f"{name} {value:.0f}" for name, value in by_processor.items())
    for other, target in (("engine", ">= 0.95"), ("mlx_lm.server", f"> 1   ({numbers} tok/s)")):
        ratio = by_processor["serve"] / by_processor[other]
        report(f"  by processor time: serve / {other}", f"{ratio:.3f}", target)


def first_token(sides: list[Side], rounds: int) -> None:
    """Time to first token of a short prompt, one at a time."""

    def measure(side: Side, number: int) -> float:
        prompts = [f"Say: {number} {index}" for index in range(8)]
        return statistics.median(side.ask([prompt], 4)[0].first_s for prompt in prompts) * 1000

    found = alternate(sides, rounds, measure)
    numbers = ", ".join(f"{name} {value:.1f}" for name, value in found.items())
    report(
        "first token of a short prompt: serve - engine (ms)",
        f"{found['serve'] - found['engine']:.2f}",
        f"<= 3   ({numbers} ms)",
    )


def burst(sides: list[Side], rounds: int, clients: int = 16) -> None:
    """Median time to first token of clients that arrive at once."""

    def measure(side: Side, number: int) -> float:
        prompts = [f"Repeat exactly: {number} {index} blue" for index in range(clients)]
        return statistics.median(one.first_s for one in side.ask(prompts, 16)) * 1000

    found = alternate(sides, rounds, measure)
    numbers = ", ".join(f"{name} {value:.1f}" for name, value in found.items())
    report(
        f"{clients} at once, median first token: serve / mlx_lm.server",
        f"{found['serve'] / found['mlx_lm.server']:.3f}",
        f"< 1   ({numbers} ms)",
    )


def mixed(sides: list[Side], rounds: int, rows: int = 31) -> None:
    """Processor time of short answers beside a long one, the long one's included, and alone."""
    for side in sides:
        costs: dict[bool, list[float]] = {False: [], True: []}
        for number in range(rounds):
            for is_beside in costs:
                with endless_answer(side.port, CONTEXT) if is_beside else nullcontext():
                    before = side.processor_s
                    side.ask([f"{LONG} {number} {row}" for row in range(rows)], ROW_TOKENS)
                    costs[is_beside].append(side.processor_s - before)
        ratio = statistics.median(
            beside / alone for alone, beside in zip(costs[False], costs[True], strict=True)
        )
        report(
            f"{rows} short answers beside a long one / alone: {side.name}", f"{ratio:.2f}", "1.5"
        )


def memory(sides: list[Side]) -> None:
    """Memory of the servers after their first answer."""
    for side in sides:
        side.ask(["Hello"], 2)
    found = {side.name: side.memory_mb for side in sides}
    numbers = ", ".join(f"{name} {value:.0f}" for name, value in found.items())
    report(
        "memory after start: serve - mlx_lm.server (MB)",
        f"{found['serve'] - found['mlx_lm.server']:.0f}",
        f"<= 10   ({numbers} MB)",
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="memory,one,sixteen,first,burst")
    options = parser.parse_args()
    only = set(options.only.split(","))
    with ExitStack() as stack:
        sides = [stack.enter_context(side()) for side in (bare_engine, our_server, their_server)]
        pin_one(1)  # only now: the sides would inherit it
        if "memory" in only:
            memory(sides)
        if "one" in only:
            streams(sides, options.rounds, 1, STREAM_TOKENS)
        if "sixteen" in only:
            streams(sides, options.rounds, 16, ROW_TOKENS)
        if "first" in only:
            first_token(sides, options.rounds)
        if "burst" in only:
            burst(sides, options.rounds)
        if "mixed" in only:
            mixed([side for side in sides if side.port], options.rounds)


if __name__ == "__main__":
    main()

"""Measures a real model: our server beside plain decoding, ``mlx_lm.server`` and llama.cpp.

    python -m tests.lab.benchmarks.real MODELS [--rounds 5] [--only talk,copy,…]
        [--llama-cpp FOLDER] [--by-processor]

``MODELS`` holds what ``tests.lab.real_models`` makes with ``--gguf``; ``FOLDER`` has node-llama-cpp
(``npm install --ignore-scripts node-llama-cpp``), a build of llama.cpp for the same weights.
Without it that side is left out. Each side has a process of its own on one core, the client
another; sides take turns in every round, the first of a round changing. Each value is the time of
a whole answer for each of its tokens, or the time to its first text; ratios are the other side's
median divided by ours, so more than 1 is faster than the other. ``cold`` starts our server and the
plain one for each round, so that what passes cost is learnt anew.
"""

import argparse
import statistics
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path

from tests.lab.benchmarks.reading import Reading
from tests.lab.benchmarks.sides import (
    Question,
    Side,
    llama_cpp,
    our_server,
    pin_one,
    their_server,
)
from tests.lab.real_models import NAME

_PARAGRAPH = (
    "The old harbour lies behind the new one. Fishing boats come in before sunrise, and the market "
    "opens when the last of them has tied up. By noon the stalls are empty again, and gulls walk "
    "where people stood. In winter the quay is quiet for weeks. "
)
_CODE = """def total(prices, tax):
    result = 0
    for price in prices:
        result = result + price
    return result * (1 + tax)

def average(prices):
    if not prices:
        return 0
    return total(prices, 0) / len(prices)

def report(prices, tax):
    print("total", total(prices, tax))
    print("average", average(prices))
"""
_ANSWER = "A harbour is a place where ships are safe from waves and wind."


def _ask(text: str) -> list[Question]:
    return [text]


@dataclass(frozen=True)
class Case:
    """What is asked at once, and how it is measured."""

    questions: Callable[[int], Sequence[Question]]
    tokens: int
    is_first: bool = False
    before: Callable[[int], Sequence[Question]] | None = None


def _second_turn(number: int) -> Sequence[Question]:
    first = f"{number}. What is a harbour? {_PARAGRAPH * 12}"
    return [
        [
            {"role": "user", "content": first},
            {"role": "assistant", "content": _ANSWER},
            {"role": "user", "content": "And a quay?"},
        ]
    ]


CASES: dict[str, Case] = {
    "talk": Case(lambda n: _ask(f"Tell me about day {n} of a journey by sea."), 96),
    "copy": Case(lambda n: _ask(f"Repeat this text exactly:\n{n}. {_PARAGRAPH}"), 96),
    "code edit": Case(
        lambda n: _ask(f"Rename price to cost{n} in this code, all else as it is:\n{_CODE}"), 128
    ),
    "JSON": Case(
        lambda n: _ask(
            f"Write a JSON list of {n % 3 + 4} people, each with name, age and city. Only JSON."
        ),
        96,
    ),
    "1500-token prompt": Case(lambda n: _ask(f"{n}. {_PARAGRAPH * 25} Sum up."), 8, is_first=True),
    "second turn": Case(
        _second_turn,
        8,
        is_first=True,
        before=lambda n: _ask(f"{n}. What is a harbour? {_PARAGRAPH * 12}"),
    ),
    "four at once": Case(
        lambda n: [f"Tell me about the {place} of city {n}." for place in _PLACES], 64
    ),
}
_PLACES = ("streets", "gardens", "bridges", "towers")


def value_of(case: Case, readings: Sequence[Reading]) -> float:
    """Return seconds for a token of all answers, or to the last first text."""
    if case.is_first:
        return max(reading.first_s for reading in readings)
    return max(reading.last_s for reading in readings) / sum(one.tokens for one in readings)


def measure(side: Side, case: Case, number: int, *, by_processor: bool) -> float:
    """Ask a side and return its value; by the processor's time where that is wanted."""
    if case.before is not None:
        side.ask(case.before(number), 4)
    before_s = side.processor_s
    readings = side.ask(case.questions(number), case.tokens)
    if not by_processor:
        return value_of(case, readings)
    used_s = side.processor_s - before_s
    return used_s if case.is_first else used_s / sum(one.tokens for one in readings)


def report(name: str, values: dict[str, list[float]], first: str = "serve") -> None:
    """Print the medians and the ratios of one case."""
    medians = {side: statistics.median(found) for side, found in values.items()}
    ratios = ", ".join(
        f"{other} {value / medians[first]:.3f}"
        for other, value in medians.items()
        if other != first
    )
    each = ", ".join(f"{side} {value * 1000:.1f}" for side, value in medians.items())
    print(f"{name:<20} times as fast as: {ratios}   ({each} ms)", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("models", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default=",".join((*CASES, "cold")))
    parser.add_argument("--llama-cpp", type=Path, help="folder with node-llama-cpp")
    parser.add_argument("--by-processor", action="store_true", help="processor time, not the clock")
    parser.add_argument("--tokens", type=int, help="the most tokens of an answer, for short tries")
    given = parser.parse_args()
    model, weights = given.models / NAME, given.models / f"{NAME}.gguf"
    only = given.only.split(",")
    cases = {name: case for name, case in CASES.items() if name in only}
    if given.tokens:
        cases = {
            name: Case(case.questions, given.tokens, case.is_first, case.before)
            for name, case in cases.items()
        }
    makers: list[Callable[[], AbstractContextManager[Side]]] = [
        lambda: our_server(model),
        lambda: our_server(model, "--plain-decoding", name="plain"),
    ]
    if cases:
        with ExitStack() as stack:
            others = [lambda: their_server(model)]
            if given.llama_cpp is not None and weights.exists():
                others.append(lambda: llama_cpp(given.llama_cpp, weights))
            sides = [stack.enter_context(make()) for make in (*makers, *others)]
            pin_one(1)  # only now: the sides would inherit it
            for name, case in cases.items():
                values: dict[str, list[float]] = {side.name: [] for side in sides}
                for number in range(given.rounds):
                    turn = sides[number % len(sides) :] + sides[: number % len(sides)]
                    for side in turn:
                        value = measure(side, case, number + 1, by_processor=given.by_processor)
                        values[side.name].append(value)
                report(name, values)
    if "cold" in only:
        for name in ("copy", "code edit"):
            case = CASES[name] if not given.tokens else Case(CASES[name].questions, given.tokens)
            values = {"serve": [], "plain": []}
            for number in range(given.rounds):
                for make in makers if number % 2 == 0 else reversed(makers):
                    with make() as side:
                        side.ask(["Hi"], 1)
                        value = measure(side, case, number + 1, by_processor=given.by_processor)
                        values[side.name].append(value)
            report(f"{name}, cold", values)


if __name__ == "__main__":
    main()

"""The stops and limits of a random case: cut from its text, or near its end."""

import random
from collections.abc import Callable
from dataclasses import replace
from enum import Enum
from typing import Any

from engine.stopping.repetition import RepetitionDetection
from engine.stopping.rules import OWN_STOP_OPTIONS, Stop, StopRules, StopScope
from tests.engine.contract.reference import expected
from tests.engine.contract.writing.case import Case, first_reading
from tests.engine.contract.writing.vocabularies import (
    EOS,
    LATE_EOS,
    ODD,
    texts_of_tags,
)


def random_stops(case: Case, rng: random.Random) -> StopRules:
    """Return stops that occur in a case, or almost do."""
    made = case.model
    reading = first_reading(case)
    for token in case.script:
        reading = reading.add(token)
    said = "".join(char.char for char in reading.flushed().chars)
    own = [*texts_of_tags(made), EOS, LATE_EOS, ODD, *made.family.special_tokens]

    def cut(text: str) -> str:
        start = rng.randrange(len(text))
        return text[start : start + rng.choice((1, 1, 2, 2, 3, 3, 4, 5, 8))]

    def miss(text: str) -> str:
        piece = cut(text)
        return rng.choice((piece + "z", piece[:-1] + "z", "z" + piece, piece.upper(), piece + " "))

    makers: list[Callable[[], str]] = [
        lambda: cut(said) if said else "END",
        lambda: cut(said) if said else "EN",
        lambda: miss(said) if said else "x",
        lambda: rng.choice(own),
        lambda: cut(rng.choice(own)),
        lambda: rng.choice(("END", "\n", "\n\n", "Observation:", "\ufffd", "<", "</", "a", "aa")),
    ]
    strings = [rng.choice(makers)() for _ in range(rng.choice((0, 1, 1, 1, 2, 2, 3, 5)))]
    strings = [string for string in dict.fromkeys(strings) if string]
    pool = [*case.script, made.ids[EOS], made.ids[ODD], rng.randrange(made.size)]
    ids = [rng.choice(pool) for _ in range(rng.choice((0, 0, 0, 1, 1, 2)))]
    scope = rng.choice((StopScope.TEXT, StopScope.TEXT, StopScope.TEXT_AND_THINKING, StopScope.ALL))
    return StopRules(
        tuple(Stop(string, **_own_options(rng)) for string in strings),
        token_ids=tuple(dict.fromkeys(ids)),
        scope=scope,
        include_stop=rng.random() < 0.15,
        ignore_eos=rng.random() < 0.1,
        min_tokens=rng.randint(1, len(case.script) + 2) if rng.random() < 0.12 else 0,
        repetition=random_detection(rng) if rng.random() < 0.4 else None,
    )


def random_detection(rng: random.Random) -> RepetitionDetection:
    """Return figures that short scripts fulfil."""
    last = rng.choice((1, 2, 3, 5, 8, 40))
    return RepetitionDetection(
        last,
        rng.choice((1, 1, 1, rng.randint(1, last))),
        min_count=rng.choice((2, 2, 3, 4)),
        min_tokens=rng.choice((0, 0, 4, 9)),
    )


def _own_options(rng: random.Random) -> dict[str, Any]:
    """Return options of one stop: mostly none."""
    return {
        option.name: rng.choice(list(option.kind) if issubclass(option.kind, Enum) else [True])
        for option in OWN_STOP_OPTIONS
        if rng.random() < 0.15
    }


def with_limits(case: Case, rng: random.Random) -> Case:
    """Return the case with limits, often exactly where it would end, or one beside it."""
    length = len(case.script)
    limits: dict[str, int] = {}
    chance = rng.random()
    if case.rules.ignore_eos:
        limits["max_tokens"] = rng.randint(1, length + 3)
        usual = length
    else:
        usual = expected(case).output_tokens
    near = max(1, usual + rng.choice((-2, -1, 0, 0, 0, 1, 1))) if usual else 1
    anywhere = rng.randint(1, length + 2)
    if chance < 0.2:
        limits["max_tokens"] = rng.choice((near, near, anywhere))
    elif chance < 0.28:
        limits["room"] = rng.choice((near, anywhere))
    elif chance < 0.31:
        limits["room"] = limits["max_tokens"] = near
    elif chance < 0.38:
        limits["cancel_after"] = rng.randint(0, max(usual - 1, 0))
    return replace(case, **limits)

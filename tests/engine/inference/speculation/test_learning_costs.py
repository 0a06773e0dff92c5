"""Learning what passes cost takes little of the first answer, on a clock that counts tokens."""

import random
import re
import time
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from engine.inference import batch as batch_module
from engine.inference import drafts as drafts_module
from engine.inference.backend import BatchLimits
from engine.inference.batch import RunningBatch
from engine.inference.sequence import Sequence
from engine.inference.speculation.sources import PromptLookup
from tests.support.scripted import ScriptedModel

_TOKENS = 400
# Shorter answers may lose more: two passes may be lost at first, whatever comes after them.
_SHORTEST = 100
_GO, _EOS, _SIZE = 1, 2, 1000
_draws = random.Random(1)
PAGE = [_draws.randrange(700, _SIZE) for _ in range(_TOKENS)]
_ids: dict[str, int] = {}


def _tokens(text: str) -> list[int]:
    return [_ids.setdefault(word, 10 + len(_ids)) for word in re.findall(r" ?\w+|\s+|\S", text)]


CODE = "".join(
    f"def {name}(prices):\n    best = {start}\n    for price in prices:\n"
    f"        if price {sign} best:\n            best = price {sign} 0\n    return best\n\n\n"
    for name, start, sign in (
        ("total", 0, "+"), ("dearest", 0, ">"), ("cheapest", 99, "<"), ("scaled", 1, "*"),
        ("shared", 1, "/"), ("rest", 7, "%"), ("left", 9, "-"), ("equal", 5, "=="),
        ("unequal", 3, "!="), ("all", 2, "&"), ("any", 4, "|"),
    )
)  # fmt: skip
# Few words come often, so that three of them come again by chance.
TALK = _draws.choices(range(10, 310), [1 / place for place in range(1, 301)], k=_TOKENS)
# Lines that begin alike and go on otherwise, so that what is looked up is wrong again and again.
LIST = "".join(f"- The house of {place} opens at {place % 12}.\n" for place in range(100, 140))
PHRASE = [500, 501, 502, 503, 504, 505]
TEXTS: dict[str, tuple[list[int], list[int]]] = {
    "copy": (PAGE, PAGE),
    "edited": (
        PAGE,
        [token - 1 if place % 40 == 39 else token for place, token in enumerate(PAGE)],
    ),
    "new words": (PAGE, [*PAGE[:150], 3, 4, 5, *PAGE[152:]]),
    "code edit": (_tokens(CODE), _tokens(CODE.replace("price", "cost"))),
    "talk": ([3, 4, 5], TALK),
    "list": (_tokens("List the sights."), _tokens(LIST)),
    "a phrase that goes on otherwise each time": (
        [3, 4, 5],
        [token for n in range(40) for token in (*PHRASE, *PAGE[6 * n : 6 * n + 6])],
    ),
}

# What a pass over n tokens takes, in passes over one.
COSTS: dict[str, Callable[[int], float]] = {
    "n": lambda n: n,
    "more than n": lambda n: n if n == 1 else 1.15 * n,
    "SmolLM2 on one core": lambda n: 1 + 0.86 * (n - 1),
    "a third": lambda n: 1 + 0.3 * (n - 1),
    "next to nothing": lambda n: 1 + 0.02 * (n - 1),
}


def shares_of_plain_decoding(
    monkeypatch: pytest.MonkeyPatch, text: str, cost: Callable[[int], float], rows: int = 1
) -> list[float]:
    """Return, after each pass, how many tokens came in the time in which plain decoding gives one.

    What comes before ``_SHORTEST`` tokens is left out. Several rows give the same answer.
    """
    given, script = TEXTS[text]
    script = script[:_TOKENS]
    now = [0.0]
    clock = SimpleNamespace(perf_counter=lambda: now[0], monotonic=time.monotonic)
    monkeypatch.setattr(drafts_module, "time", clock)
    monkeypatch.setattr(batch_module, "time", clock)
    model = ScriptedModel(_SIZE, _GO, _EOS, lambda _: script)

    def take_time(_: int) -> None:
        now[0] += cost(model.calls[-1][1])

    model.fault = take_time
    prompt = [*given, 7, 8, 9, _GO]
    batch = RunningBatch(model, BatchLimits(512, 0, rows, guesses=True))
    answers: dict[int, list[int]] = {}
    for _ in range(rows):
        answers[batch.insert(Sequence(prompt, sources=[PromptLookup(prompt)]))] = []
    shares = []
    began = 0.0
    while (least := min(map(len, answers.values()))) < len(script):
        if least >= _SHORTEST:
            shares.append((least - 1) / (now[0] - began))
        sampled = batch.step().sampled
        began = began or (now[0] if sampled else 0.0)
        for number, token, _ in sampled:
            answers[number].append(token)
    assert all(answer[: len(script)] == script for answer in answers.values())
    return [*shares, (least - 1) / (now[0] - began)]


@pytest.mark.parametrize("cost", COSTS)
@pytest.mark.parametrize("text", TEXTS)
def test_drafting_never_loses_more_than_two_percent_of_the_first_answer_after_a_start(
    monkeypatch: pytest.MonkeyPatch, text: str, cost: str
) -> None:
    least = 0.99 if text == "talk" else 0.98
    assert min(shares_of_plain_decoding(monkeypatch, text, COSTS[cost])) >= least


@pytest.mark.parametrize(("cost", "least"), [("a third", 2.0), ("next to nothing", 8.0)])
def test_cheap_passes_are_used_from_the_first_answer_on(
    monkeypatch: pytest.MonkeyPatch, cost: str, least: float
) -> None:
    assert shares_of_plain_decoding(monkeypatch, "copy", COSTS[cost])[-1] >= least


def test_answers_at_once_are_drafted_where_passes_are_long_and_a_wide_one_costs_little_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A pass takes a second here, as with a model that hardly fits the machine."""
    shares = shares_of_plain_decoding(monkeypatch, "copy", COSTS["next to nothing"], rows=4)
    assert shares[-1] >= 8.0

"""Learning what passes cost takes little of the first answer, on a clock that counts tokens."""

import random
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

_COPIED = 320
_GO, _EOS, _SIZE = 1, 2, 1000
_draws = random.Random(1)
PAGE = [_draws.randrange(10, _SIZE) for _ in range(_COPIED)]
EDITED = [token - 1 if place % 40 == 39 else token for place, token in enumerate(PAGE)]
NEW_WORDS = [*PAGE[:150], 3, 4, 5, *PAGE[152:]]

# What a pass over n tokens takes, in passes over one.
COSTS: dict[str, Callable[[int], float]] = {
    "n": lambda n: n,
    "more than n": lambda n: n if n == 1 else 1.15 * n,
    "SmolLM2 on one core": lambda n: 1 + 0.86 * (n - 1),
    "a third": lambda n: 1 + 0.3 * (n - 1),
    "next to nothing": lambda n: 1 + 0.02 * (n - 1),
}


def share_of_plain_decoding(
    monkeypatch: pytest.MonkeyPatch, script: list[int], cost: Callable[[int], float]
) -> float:
    """Return how many tokens came in the time in which plain decoding gives one."""
    now = [0.0]
    clock = SimpleNamespace(perf_counter=lambda: now[0], monotonic=time.monotonic)
    monkeypatch.setattr(drafts_module, "time", clock)
    monkeypatch.setattr(batch_module, "time", clock)
    model = ScriptedModel(_SIZE, _GO, _EOS, lambda _: script)

    def take_time(_: int) -> None:
        now[0] += cost(model.calls[-1][1])

    model.fault = take_time
    prompt = [*PAGE, 7, 8, 9, _GO]
    batch = RunningBatch(model, BatchLimits(512, 0, 1, guesses=True))
    batch.insert(Sequence(prompt, sources=[PromptLookup(prompt)]))
    answer: list[int] = []
    began = 0.0
    while len(answer) < len(script):
        sampled = batch.step().sampled
        began = began or (now[0] if sampled else 0.0)
        answer += [token for _, token, _ in sampled]
    assert answer[: len(script)] == script
    return (len(script) - 1) / (now[0] - began)


@pytest.mark.parametrize("cost", COSTS)
@pytest.mark.parametrize("script", [PAGE, EDITED, NEW_WORDS], ids=["copy", "edited", "new words"])
def test_the_first_answer_after_start_loses_next_to_nothing_by_trying_widths(
    monkeypatch: pytest.MonkeyPatch, script: list[int], cost: str
) -> None:
    assert share_of_plain_decoding(monkeypatch, script, COSTS[cost]) >= 0.98


@pytest.mark.parametrize(("cost", "least"), [("a third", 2.0), ("next to nothing", 8.0)])
def test_cheap_passes_are_used_from_the_first_answer_on(
    monkeypatch: pytest.MonkeyPatch, cost: str, least: float
) -> None:
    assert share_of_plain_decoding(monkeypatch, PAGE, COSTS[cost]) >= least

"""Guesses that a model or a constraint cannot take never reach an answer."""

import random
from collections.abc import Sequence
from typing import Any

import mlx.core as mx

from engine.inference.backend import BatchLimits
from engine.inference.batch import RunningBatch
from engine.inference.sequence import Sequence as BatchSequence
from engine.inference.speculation.sources import DraftSource
from tests.support.models.guessing import Eager, Foreseen
from tests.support.models.tiny_models import tiny_model

TOKENS = 40


def answers(
    model: Any,
    prompts: Sequence[list[int]],
    sources: Sequence[Sequence[DraftSource]] | None = None,
    width: int = 8,
) -> tuple[list[list[int]], int]:
    """Return the first tokens of each answer, and how many passes were over several tokens."""
    batch = RunningBatch(model, BatchLimits(64, 0, 8), Eager(width))
    rows = [
        batch.insert(BatchSequence(prompt, sources=() if sources is None else sources[n]))
        for n, prompt in enumerate(prompts)
    ]
    found: dict[int, list[int]] = {row: [] for row in rows}
    checks = 0
    while min(map(len, found.values())) < TOKENS:
        step = batch.step()
        checks += any(row.drafts is not None for row in step.values())
        for number, row in step.items():
            found[number] += [token for token, _ in row.sampled]
    batch.close()
    return [found[row][:TOKENS] for row in rows], checks


def prompts_of(count: int) -> list[list[int]]:
    draws = random.Random(3)
    return [[draws.randrange(64) for _ in range(5 + 9 * n)] for n in range(count)]


def foreseen(expected: Sequence[Sequence[int]], seed: int) -> list[list[DraftSource]]:
    """Guess each answer, wrong at some tokens; the last row has no guesses if there are several."""
    draws = random.Random(seed)
    found: list[list[DraftSource]] = [
        [Foreseen(answer, [n for n in range(TOKENS) if draws.random() < 0.15])]
        for answer in expected
    ]
    if len(found) > 1:
        found[-1] = []
    return found


class _Watched:
    """A model that notes the largest id that it was given."""

    def __init__(self, model: Any) -> None:
        self.model, self.layers = model, model.layers
        self.largest = 0

    def __call__(self, tokens: mx.array, cache: Any = None) -> Any:
        self.largest = max(self.largest, int(tokens.max().item()))  # type: ignore[arg-type]
        return self.model(tokens, cache=cache)


def test_a_guess_outside_the_vocabulary_never_reaches_the_model() -> None:
    # A draft model may have more rows than there are tokens, and MLX checks no bounds.
    model = _Watched(tiny_model("full"))
    prompts = prompts_of(2)
    expected, _ = answers(model, prompts)
    guesses: list[list[DraftSource]] = [
        [Foreseen([64 if n % 5 == 4 else token for n, token in enumerate(answer)])]
        for answer in expected
    ]
    found, checks = answers(model, prompts, guesses)
    assert found == expected
    assert checks
    assert model.largest < 64


class _Failing:
    """A constraint that fails after some tokens, and from then on allows only the end."""

    is_stateful = True
    only = None

    def __init__(self, tokens: int) -> None:
        self.has_failed = False
        self._tokens = tokens

    def __call__(self, context: mx.array, logits: mx.array) -> mx.array:
        if context.size < self._tokens:
            return logits
        self.has_failed = True
        return mx.where(mx.arange(logits.shape[-1]) == 1, logits, -mx.inf)


def test_no_guess_is_accepted_after_a_constraint_has_failed() -> None:
    model = tiny_model("full")
    [prompt] = prompts_of(1)

    def until_failure(sources: Sequence[DraftSource]) -> list[int]:
        batch = RunningBatch(model, BatchLimits(64, 0, 8), Eager(8))
        constraint = _Failing(len(prompt) + 20)
        batch.insert(BatchSequence(prompt, processors=[constraint], sources=sources))
        found: list[int] = []
        while not constraint.has_failed:
            found += [token for row in batch.step().values() for token, _ in row.sampled]
        batch.close()
        return found

    expected = until_failure([])
    assert until_failure([Foreseen([*expected, *[1] * 40])]) == expected

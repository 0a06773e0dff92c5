"""Where passes over several tokens round differently, the choice stays that of single passes."""

from typing import Any

import mlx.core as mx
import pytest

from engine.inference.speculation.verification import Rounding
from tests.engine.inference.speculation.test_unusable_guesses import (
    answers,
    foreseen,
    prompts_of,
)
from tests.support.models.tiny_models import tiny_model


class Noisy:
    """A model whose passes over several tokens differ from those over one in the last digits."""

    def __init__(self, model: Any, most: float) -> None:
        self._model = model
        self._most = most

    def __getattr__(self, name: str) -> Any:
        """Return other attributes of the model, such as its layers."""
        return getattr(self._model, name)

    def __call__(self, inputs: mx.array, cache: Any = None) -> Any:
        logits = self._model(inputs, cache=cache)
        if inputs.shape[1] == 1:
            return logits
        return logits + self._most * mx.sin(mx.arange(logits.size).reshape(logits.shape) * 7.0)


def close(logprobs: list[float], noise: float) -> list[bool] | None:
    rounding = Rounding()
    rounding.compare(mx.array([0.0, noise]), mx.array([0.0, 0.0]))
    found: Any = rounding.are_close(mx.array([logprobs]))
    return None if found is None else found.tolist()


def test_two_tokens_that_are_nearly_as_likely_are_undecided() -> None:
    assert close([-1.0, -1.001, -5.0], 0.01) == [True]
    assert close([-1.0, -1.0, -5.0], 0.01) == [True]
    assert close([-1.0, -2.0, -5.0], 0.01) == [False]


def test_the_only_token_that_is_allowed_is_never_undecided() -> None:
    assert close([0.0, -mx.inf, -mx.inf], 0.5) == [False]


def test_each_pass_that_is_wider_than_all_before_it_is_compared() -> None:
    rounding = Rounding()

    def is_compared(width: int) -> bool:
        if is_due := rounding.is_comparison_due(width):
            rounding.compare(mx.array([0.0]), mx.array([0.0]), width)
        return is_due

    assert [is_compared(width) for width in (2, 2, 2, 4, 4, 2, 32, 16)] == [
        True, False, False, True, False, False, True, False
    ]  # fmt: skip


def test_answers_are_those_of_single_passes_in_spite_of_rounding(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = tiny_model("full")
    prompts = prompts_of(5)
    expected, _ = answers(model, prompts)
    noisy = Noisy(model, 0.02)
    found, checks = answers(noisy, prompts, foreseen(expected, 0))
    assert found == expected
    assert checks > 0
    # Without that care the noise does change answers.
    monkeypatch.setattr(Rounding, "are_close", lambda *_: None)
    assert answers(noisy, prompts, foreseen(expected, 0))[0] != expected

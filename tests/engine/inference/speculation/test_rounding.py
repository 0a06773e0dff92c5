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

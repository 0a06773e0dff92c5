"""Penalties count all tokens of an answer; a penalty for repetition also those of the prompt."""

from typing import Any

import mlx.core as mx
import pytest

from engine.inference.sampling import processors
from engine.values.request import Sampling


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"frequency_penalty": 2.0}, [4.0, 0.0, 2.0, -46.0]),
        ({"presence_penalty": 2.0}, [4.0, 2.0, 2.0, 2.0]),
        ({"repetition_penalty": 2.0}, [2.0, 2.0, 2.0, 2.0]),
    ],
)
def test_penalties_count_tokens_of_the_whole_answer(
    settings: dict[str, Any], expected: list[float]
) -> None:
    prompt, answer = [0, 0], [1, 2, 1, *[3] * 25]
    [processor] = processors(Sampling(**settings), len(prompt))
    assert processor(mx.array(prompt + answer), mx.full((1, 4), 4.0)).tolist() == [expected]
    before = processor(mx.array(prompt), mx.full((1, 4), 4.0)).tolist()
    assert before == [[2.0 if "repetition_penalty" in settings else 4.0, 4.0, 4.0, 4.0]]

"""XTC: the likeliest tokens are excluded, apart from the least likely of them."""

from typing import Any

import mlx.core as mx
import pytest

from engine.inference.sampling import Sampler, sampler
from engine.values.request import Sampling

# Tokens of 40, 30, 20 and 10 %.
LOGPROBS = mx.log(mx.array([[0.4, 0.3, 0.2, 0.1]]))


def drawn(count: int = 200, exempt: tuple[int, ...] = (), **settings: Any) -> set[int]:
    draw = sampler(Sampling(temperature=1.0, **settings), 4, exempt=exempt)
    return {int(draw(LOGPROBS).item()) for _ in range(count)}


@pytest.mark.parametrize("seed", [None, 5])
def test_xtc_leaves_the_least_likely_of_the_likeliest_tokens(seed: int | None) -> None:
    mx.random.seed(0)
    assert drawn(xtc_probability=1.0, xtc_threshold=0.15, seed=seed) == {2, 3}
    assert drawn(xtc_probability=1.0, xtc_threshold=0.25, seed=seed) == {1, 2, 3}
    assert drawn(xtc_probability=1.0, seed=seed) == {2, 3}  # the default threshold is 0.1
    for off in ({}, {"xtc_probability": 0.0}, {"xtc_probability": 1.0, "xtc_threshold": 0.6}):
        assert drawn(**off, seed=seed) == {0, 1, 2, 3}


@pytest.mark.parametrize("seed", [None, 5])
def test_xtc_never_excludes_exempt_tokens(seed: int | None) -> None:
    mx.random.seed(0)
    settings: dict[str, Any] = {"xtc_probability": 1.0, "xtc_threshold": 0.15, "seed": seed}
    # An id beyond the logits is no index.
    assert drawn(**settings, exempt=(0, 4, 1_000_000)) == {0, 2, 3}


def test_a_seed_repeats_the_draws_of_xtc_and_its_probability_counts() -> None:
    def draws(probability: float) -> list[int]:
        draw = sampler(Sampling(temperature=1.0, seed=5, xtc_probability=probability), 4)
        assert draw.state is not None or probability == 0
        return [int(draw(LOGPROBS).item()) for _ in range(300)]

    half = draws(0.5)
    assert half == draws(0.5)
    excluded = [token for token in half if token in (2, 3)]
    # Where XTC is due 2 and 3 are certain; elsewhere they have 30 %.
    assert 0.5 < len(excluded) / len(half) < 0.8
    # Without XTC, the draws of a seed are what they were before there was XTC.
    assert draws(0.0) == [
        int(one.item())
        for draw in [Sampler(1.0, seed=5)]
        for one in (draw(LOGPROBS) for _ in range(300))
    ]

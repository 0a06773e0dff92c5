"""How often recent guesses were right."""

import pytest

from engine.inference.speculation.sources import HitRate


def test_hits_raise_the_rate_and_misses_lower_it() -> None:
    rate = HitRate(0.5)
    rate.note(True)
    assert rate.value > 0.5
    before = rate.value
    rate.note(False)
    assert rate.value < before


def test_the_first_guesses_count_more_where_the_expectation_has_little_weight() -> None:
    sure, open_minded = HitRate(0.4, 0.05), HitRate(0.4, 0.05, 3.0)
    for rate in (sure, open_minded):
        for _ in range(3):
            rate.note(True)
    assert open_minded.value == pytest.approx(0.7)
    assert sure.value < 0.5


def test_a_steady_rate_remembers_misses_longer() -> None:
    quick, steady = HitRate(0.9), HitRate(0.9, 0.02)
    for rate in (quick, steady):
        for _ in range(50):
            rate.note(False)
    assert quick.value < 0.1 < steady.value


def test_after_many_guesses_the_newest_has_the_weight_that_was_set() -> None:
    rate = HitRate(0.0, 0.1, 1.0)
    for _ in range(100):
        rate.note(False)
    rate.note(True)
    assert rate.value == pytest.approx(0.1)

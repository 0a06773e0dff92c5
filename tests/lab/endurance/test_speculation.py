"""A part of the proof that guesses change nothing; it shows that the long run works."""

from collections import Counter

import pytest

from tests.lab.endurance.speculation import compare, p_value
from tests.support.asking import run

pytestmark = pytest.mark.long


def test_answers_with_guesses_equal_those_without_and_have_the_same_distribution() -> None:
    found = run(compare(12, seed=7, draws_count=100), timeout_s=600)
    assert found.different == []
    assert found.accepted > 40
    assert found.guessed > found.accepted
    assert found.p_value > 0.001


def test_the_test_of_distributions_detects_a_biased_draw() -> None:
    fair = Counter({"a": 510, "b": 300, "c": 190})
    assert p_value(fair, Counter({"a": 490, "b": 315, "c": 195})) > 0.3
    assert p_value(fair, Counter({"a": 600, "b": 230, "c": 170})) < 0.001

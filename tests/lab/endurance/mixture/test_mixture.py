"""A few scenes of the mixture; they show that the long run works."""

import pytest

from tests.lab.endurance.mixture.scene import play
from tests.support.asking import run

pytestmark = pytest.mark.long


def test_answers_of_a_busy_engine_equal_those_of_the_plain_loop_and_leave_nothing() -> None:
    found = run(play(16, seed=3), timeout_s=600)
    assert found.faults == []
    # The number of right guesses before a scene ends its answers depends on the clock.
    assert found.answers >= 16

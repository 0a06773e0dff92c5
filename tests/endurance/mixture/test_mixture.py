"""A few scenes of the mixture, so that the whole can be started at any time."""

from tests.endurance.mixture.scene import play
from tests.support.asking import run


def test_answers_in_a_crowd_are_those_of_the_plain_loop_and_leave_nothing() -> None:
    found = run(play(16, seed=3), timeout_s=600)
    assert found.faults == []
    # How many guesses are right before a scene ends its answers is up to the clock.
    assert found.answers >= 16

"""A part of the proof for every architecture; it shows that the long run works."""

import pytest

from tests.lab.endurance.architectures import outcome_of

pytestmark = pytest.mark.long


def test_a_state_and_a_window_are_proved() -> None:
    for name in ("qwen3_next", "gpt_oss"):
        outcome = outcome_of(name, 30, seed=2)
        assert outcome.answers == 30
        assert outcome.faults == []
        assert outcome.accepted == outcome.foreseen > 0

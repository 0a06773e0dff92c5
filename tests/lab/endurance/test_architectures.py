"""Answers of every architecture of mlx-lm are those of the bare model, 500 of each."""

import pytest

from tests.lab.endurance.architectures import ANSWERS, NAMES, outcome_of

# Tokens cannot be taken back, or a pass over several is another one.
_WITHOUT_DRAFTS = {"deepseek_v41", "olmo", "phi3small", "plamo3"}
# It is compared with the bare model that reads its prompt in the same parts.
_WITHOUT_CACHES = {"plamo3"}


@pytest.mark.long
def test_a_state_and_a_window_are_proved() -> None:
    for name in ("qwen3_next", "gpt_oss"):
        outcome = outcome_of(name, 30, seed=2)
        assert outcome.answers == 30
        assert outcome.faults == []
        assert outcome.accepted == outcome.foreseen > 0
        assert outcome.cached > outcome.from_disk > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_every_architecture_is_proved(name: str) -> None:
    """One or two minutes each; ``-k`` chooses some."""
    outcome = outcome_of(name, ANSWERS, seed=5)
    assert outcome.faults == []
    assert outcome.answers == ANSWERS
    assert outcome.accepted == outcome.foreseen
    assert (outcome.accepted > 0) == (name not in _WITHOUT_DRAFTS)
    assert (outcome.cached > 0) == (name not in _WITHOUT_CACHES)

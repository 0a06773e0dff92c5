"""Fifty thousand random schemas, none of which ends the engine's process."""

import pytest

from tests.lab.endurance.schemas import outcome

COUNT = 50_000


@pytest.mark.slow
def test_no_random_schema_ends_the_engine() -> None:
    found = outcome(COUNT, seed=12)
    ends = found["ends"]
    assert sum(ends.values()) == COUNT
    # Refused in words, or answered; a grammar that cannot be followed to its end is an error of
    # that answer alone, and rare.
    assert ends["refused"] < 0.9 * COUNT
    assert ends["eos"] > 0.1 * COUNT
    assert ends.get("error", 0) < 0.01 * COUNT

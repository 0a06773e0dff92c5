"""How many cases a test tries: few in every run, many in the slow suite.

FULLSTOP_RANDOM_CASES multiplies them.
"""

import os
from collections.abc import Collection
from typing import Any

import pytest

TIMES = int(os.environ.get("FULLSTOP_RANDOM_CASES", "1"))


def cases(few: int) -> int:
    """Return how many cases a test tries that tries ``few`` of them in every run."""
    return few * TIMES


def few_of(values: Collection[Any], count: int) -> list[Any]:
    """Return parameters of a test, of which every run tries some and the slow suite all."""
    kept = {number * len(values) // count for number in range(count)}
    sets = [value if isinstance(value, tuple) else (value,) for value in values]
    return [
        pytest.param(*one, marks=() if number in kept else pytest.mark.slow)
        for number, one in enumerate(sets)
    ]

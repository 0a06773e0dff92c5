"""How many random cases a test tries: few in every run, many in the slow suite.

FULLSTOP_RANDOM_CASES multiplies them; ``tests/lab/endurance/test_random_cases.py`` sets it.
"""

import os

TIMES = int(os.environ.get("FULLSTOP_RANDOM_CASES", "1"))


def cases(few: int) -> int:
    """Return how many cases a test tries that tries ``few`` of them in every run."""
    return few * TIMES

"""How often recent guesses were right. Pure."""

# The default weight of the newest guess.
_NEWEST = 0.08


class HitRate:
    """A moving average of hits and misses.

    Args:
        expected: The average before the first guess.
        newest: The weight of the newest guess once many are known; a smaller weight gives a
            steadier average.
        expected_weight: How many guesses ``expected`` counts for. With a small number, the first
            guesses count more than later ones.

    Attributes:
        value: The share of right guesses, from 0 to 1.
    """

    __slots__ = ("_newest", "_weight", "value")

    def __init__(
        self, expected: float, newest: float = _NEWEST, expected_weight: float | None = None
    ) -> None:
        self.value = expected
        self._newest = newest
        self._weight = 1.0 / newest if expected_weight is None else expected_weight

    def note(self, is_hit: bool) -> None:
        """Note whether a guess was right."""
        self._weight += 1.0
        share = max(self._newest, 1.0 / self._weight)
        self.value += ((1.0 if is_hit else 0.0) - self.value) * share

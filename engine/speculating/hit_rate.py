"""How often guesses were right of late. Pure."""

# How much the newest guess counts, where nothing else is said.
_NEWEST = 0.08


class HitRate:
    """An average of hits and misses that forgets.

    Args:
        expected: What it is before anything is known.
        newest: How much the newest guess counts, once many are known: the less, the steadier.
        expected_weight: For how many guesses ``expected`` counts. Where it is few, the first
            guesses count more than later ones.

    Attributes:
        value: The share of guesses that were right, from 0 to 1.
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

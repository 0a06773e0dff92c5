"""How often guesses were right of late. Pure."""

# How much the newest guess counts.
_NEWEST = 0.08


class HitRate:
    """An average of hits and misses that forgets.

    Args:
        expected: What it is before anything is known.

    Attributes:
        value: The share of guesses that were right, from 0 to 1.
    """

    __slots__ = ("value",)

    def __init__(self, expected: float) -> None:
        self.value = expected

    def note(self, is_hit: bool) -> None:
        """Note whether a guess was right."""
        self.value += ((1.0 if is_hit else 0.0) - self.value) * _NEWEST

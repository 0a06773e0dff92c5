"""Which prompts are read next: short ones first, long ones at least every fourth time.

Prompts wait in lanes according to how many tokens they still have to read. Pure but for its own
state; knows no clock and no model.
"""

from collections.abc import Sequence

# The most tokens left to read for prompts in the first and in the second lane; longer ones are in
# the last.
LANE_TOKENS = (512, 4096)
LANES = len(LANE_TOKENS) + 1
# How often a lane with prompts may be passed over in a row.
_MOST_PASSED = 3


def lane_of(tokens: int) -> int:
    """Return the lane of a prompt that has this many tokens left to read."""
    return sum(tokens > most for most in LANE_TOKENS)


class ReadingTurns:
    """Gives turns to the lanes."""

    def __init__(self) -> None:
        self._passed = [0] * LANES

    def due(self, waiting: Sequence[int]) -> int:
        """Return the lane whose turn it is; the first where nothing waits."""
        busy = [lane for lane in range(LANES) if waiting[lane]]
        late = [lane for lane in busy if self._passed[lane] >= _MOST_PASSED]
        if late:
            return max(late, key=lambda lane: self._passed[lane])
        return busy[0] if busy else 0

    def note(self, taken: int, waiting: Sequence[int]) -> None:
        """Note that a lane had a turn."""
        for lane in range(LANES):
            is_passed = waiting[lane] > 0 and lane != taken
            self._passed[lane] = self._passed[lane] + 1 if is_passed else 0

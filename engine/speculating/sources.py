"""What a source of guesses offers. Types only.

One object serves one row of the batch, on the engine thread.
"""

from collections.abc import Sequence
from typing import Protocol

from engine.values.tokens import TokenOrigin


class GuessSource(Protocol):
    """Guesses the next tokens of one answer.

    It is told every token of the answer, in order, as soon as the token is known; the prompt is
    given to its constructor. What it proposes is always checked by the model: a wrong guess costs
    time and nothing else.

    Attributes:
        origin: What the tokens that it guesses are marked with.
    """

    origin: TokenOrigin

    def extend(self, tokens: Sequence[int]) -> None:
        """Take the next tokens of the answer: usually one, or those of an accepted run.

        What it proposed before may or may not be among them. The last one may be a token that the
        reader has not been given yet.
        """
        ...

    def likelihood(self) -> float:
        """Return how likely the next guess is right, from 0 to 1; 0 where there is none.

        Called before each token, so it must cost next to nothing. A source learns it from what it
        is told: how often it was, or would have been, right of late. Whether a pass over several
        tokens pays is decided by it.
        """
        ...

    def propose(self, most: int) -> Sequence[int]:
        """Return up to ``most`` tokens that may follow those it was told; none is fine.

        The time that it takes is measured, and counts against what its guesses save.
        """
        ...

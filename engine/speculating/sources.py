"""The interface of a source of guesses. Types only.

One object serves one row of the batch, on the engine thread.
"""

from collections.abc import Sequence
from typing import Protocol

from engine.values.tokens import TokenOrigin


class GuessSource(Protocol):
    """Guesses the next tokens of one answer.

    ``extend`` gives it every token of the answer, in order, as soon as the token is known; its
    constructor gets the prompt. The model checks every guess: a wrong guess costs time and nothing
    else.

    Attributes:
        origin: The origin of its guesses.
    """

    origin: TokenOrigin

    def extend(self, tokens: Sequence[int]) -> None:
        """Take the next tokens of the answer: usually one, or those of an accepted run.

        Its own guesses may or may not be among them. The last token may be one that was not sent to
        the reader yet.
        """
        ...

    def likelihood(self) -> float:
        """Return how likely the next guess is right, from 0 to 1; 0 where there is none.

        Called before each token, so it must cost next to nothing. A source learns it from the
        tokens of the answer: how often its recent guesses were right, or would have been. It
        decides whether a pass over several tokens pays.
        """
        ...

    def propose(self, most: int) -> Sequence[int]:
        """Return up to ``most`` tokens that may follow; the result may be empty.

        The time of this call is measured and counts against the time that the guesses save.
        """
        ...

"""Counts the checked and the accepted guesses of one answer. Pure."""

from dataclasses import dataclass

from engine.values.events import Speculation
from engine.values.tokens import TokenOrigin


@dataclass(frozen=True, slots=True)
class CheckedGuesses:
    """The result of one pass that checked the guesses for a row.

    The first token of the step was known before the pass; the accepted guesses follow it.

    Attributes:
        guesses: The origin of each guess that was checked, in order.
        origins: The origin of each token that the step gave the row.
    """

    guesses: tuple[TokenOrigin, ...]
    origins: tuple[TokenOrigin, ...]


def counted(before: Speculation, found: CheckedGuesses, taken: int | None = None) -> Speculation:
    """Return the counts after one more pass.

    Args:
        before: The counts up to now.
        found: The result of the pass.
        taken: How many tokens of the step belong to the answer, if the answer ended in it.
    """
    guesses = found.guesses if taken is None else found.guesses[: taken - 1]
    if not guesses:
        return before
    accepted = found.origins[1:taken]
    free = sum(origin is not TokenOrigin.FORCED for origin in guesses)
    predicted = sum(origin is TokenOrigin.PREDICTION for origin in guesses)
    right = sum(origin is TokenOrigin.PREDICTION for origin in accepted)
    forced = sum(origin is TokenOrigin.FORCED for origin in accepted)
    return Speculation(
        passes=before.passes + 1,
        guessed=before.guessed + free,
        accepted=before.accepted + len(accepted) - forced,
        prediction_accepted=before.prediction_accepted + right,
        prediction_rejected=before.prediction_rejected + predicted - right,
        forced=before.forced + forced,
    )

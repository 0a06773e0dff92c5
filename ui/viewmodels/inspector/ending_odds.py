"""How likely each token was to be the last: the EOS probability along a run. Pure; any thread."""

from collections.abc import Iterable
from dataclasses import dataclass

from engine.events import TokenTrace
from ui.viewmodels.inspector.tape import percent

LIKELY = 0.2
MAX_PLACES = 50


@dataclass(frozen=True, slots=True)
class EndingOdds:
    """The EOS probabilities of a run.

    Attributes:
        values: From 0 to 1, one a token, oldest first.
        first_index: The index of the first of these tokens.
        likely: Indexes of the tokens before which the answer might well have ended, but did not.
        sentence: The same in words.
    """

    values: tuple[float, ...]
    first_index: int
    likely: tuple[int, ...]
    sentence: str


def ending_odds(tokens: Iterable[TokenTrace], has_ended_itself: bool) -> EndingOdds | None:
    """Return a run's EOS probabilities; None where they were not recorded."""
    known = [(token, token.stats) for token in tokens if token.stats is not None]
    if not known:
        return None
    values = tuple(stats.eos_probability for _, stats in known)
    last = len(values) - 1
    likely = tuple(
        token.index
        for place, (token, stats) in enumerate(known)
        if stats.eos_probability >= LIKELY and not (has_ended_itself and place == last)
    )
    return EndingOdds(values, known[0][0].index, likely[:MAX_PLACES], _sentence(values, likely))


def _sentence(values: tuple[float, ...], likely: tuple[int, ...]) -> str:
    if likely:
        places = ", ".join(f"{index + 1:,}" for index in likely[:5])
        more = f" and {len(likely) - 5:,} more" if len(likely) > 5 else ""
        word = "token" if len(likely) == 1 else "tokens"
        return f"The model might have ended instead of writing {word} {places}{more}."
    highest = max(values)
    return f"The model never came near ending before its time: at most {percent(highest)}."

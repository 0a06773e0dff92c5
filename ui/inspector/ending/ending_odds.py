"""How likely each token was to be the last: the EOS probability along a run. Pure; any thread."""

from collections.abc import Sequence
from dataclasses import dataclass

from engine.recording.run_trace import RunTrace
from ui.inspector.tape.tape import percent

LIKELY = 0.2
MAX_PLACES = 50
_NAMED_PLACES = 5


@dataclass(frozen=True, slots=True)
class EndingOdds:
    """The EOS probabilities of a run."""

    values: tuple[float, ...]
    first_index: int
    likely: tuple[int, ...]
    sentence: str
    has_end: bool = False


def ending_odds(trace: RunTrace) -> EndingOdds | None:
    """Return a run's EOS probabilities; None if they were not recorded.

    "How near the model came to ending" leaves out the end itself, and end tokens that the model
    chose but that were ignored: neither is a near miss.
    """
    known = [(token, token.stats) for token in trace.tokens if token.stats is not None]
    if not known:
        return None
    last, eos = known[-1][0], frozenset(trace.setting.eos)
    stop = trace.stop
    has_end = (
        stop is not None
        and stop.token_index == last.index
        and last.token_id in eos
        and not trace.rules.ignore_eos
    )
    ends = [token.index for token, _ in known if token.token_id in eos]
    ignored = ends[:-1] if has_end else ends
    others = [(token.index, stats) for token, stats in known if token.token_id not in eos]
    likely = [index for index, stats in others if stats.eos_probability >= LIKELY]
    highest = max((stats.eos_probability for _, stats in others), default=None)
    return EndingOdds(
        tuple(stats.eos_probability for _, stats in known),
        known[0][0].index,
        tuple(likely[:MAX_PLACES]),
        _sentence(likely, ignored, highest),
        has_end,
    )


def _sentence(likely: Sequence[int], ignored: Sequence[int], highest: float | None) -> str:
    parts: list[str] = []
    if ignored:
        parts.append(f"The model chose an end token at {_places(ignored)}; it was ignored.")
    if likely:
        parts.append(f"The model might have ended instead of writing {_places(likely)}.")
    elif highest is not None:
        before = "before the end" if not ignored else "elsewhere"
        parts.append(f"Ending was never likely {before}: at most {percent(highest)}.")
    elif not ignored:
        parts.append("The model ended with its first token.")
    return " ".join(parts)


def _places(indexes: Sequence[int]) -> str:
    """Return tokens by their numbers: ``token 4``, ``tokens 4, 9 and 3 more``."""
    named = ", ".join(f"{index + 1:,}" for index in indexes[:_NAMED_PLACES])
    more = len(indexes) - _NAMED_PLACES
    word = "token" if len(indexes) == 1 else "tokens"
    return f"{word} {named} and {more:,} more" if more > 0 else f"{word} {named}"

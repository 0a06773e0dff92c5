"""The figures of a finished generation in short form. Pure; any thread."""

from engine.values.events import BudgetEnd, Finished, tokens_per_s
from engine.wording import counted, figure, seconds


def budget_words(end: BudgetEnd) -> str:
    """Return where a budget ended the reasoning."""
    return f"ended by its budget of {end.budget:,} at token {end.token_index + 1:,}"


def figures(finished: Finished) -> tuple[str, ...]:
    """Return the main figures of a generation, as far as they exist.

    For example ``("41 tok/s", "0.38 s to first token", "143 tokens, 62 guessed")``.
    """
    usage, timing = finished.usage, finished.timing
    found: list[str] = []
    speed = tokens_per_s(usage, timing)
    if speed is not None:
        found.append(f"{figure(speed)} tok/s")
    if timing.first_token_s is not None:
        found.append(f"{seconds(timing.first_token_s)} to first token")
    tokens = []
    if usage.output_tokens or not finished.stop.text_offset:  # otherwise nobody counted them
        tokens.append(counted(usage.output_tokens, "token"))
    if finished.speculation.accepted:
        tokens.append(f"{finished.speculation.accepted:,} guessed")
    if finished.speculation.forced:
        tokens.append(f"{finished.speculation.forced:,} forced")
    found += [", ".join(tokens)] if tokens else []
    if (end := finished.budget_end) is not None:
        found.append(f"thinking {budget_words(end)}")
    return tuple(found)

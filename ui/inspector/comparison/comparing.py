"""Two runs side by side, aligned at their first difference. Pure; any thread."""

from dataclasses import dataclass

from engine import TokenTrace, acceptance, counted, quoted
from ui.inspector.run.shown_run import ShownRun, ended_words

_AROUND_CHARS = 160


@dataclass(frozen=True, slots=True)
class Comparison:
    """What two runs have in common, and where they differ."""

    sentence: str
    common: str
    left: str
    right: str
    rows: tuple[tuple[str, str, str], ...]
    token_index: int | None = None


def compare(left: ShownRun, right: ShownRun) -> Comparison:
    """Compare the texts, tokens, settings and ends of two runs."""
    a, b = left.run.thinking + left.run.text, right.run.thinking + right.run.text
    place = _common_length(a, b)
    index = _first_token(left, right)
    if a == b:
        sentence = "Both answers are identical."
        if index is not None:
            sentence = f"Both texts are identical; the tokens differ from token {index + 1:,} on."
    elif place == len(a) or place == len(b):
        longer = "second" if len(b) > len(a) else "first"
        shared = counted(place, "character")
        sentence = f"Both are identical for {shared}; then only the {longer} continues."
    else:
        at = "" if index is None else f", at token {index + 1:,}"
        sentence = (
            f"They differ after {counted(place, 'character')}{at}: "
            f"{quoted(a[place : place + 12])} in the first, {quoted(b[place : place + 12])} in the "
            "second."
        )
    begin = max(0, place - _AROUND_CHARS)
    return Comparison(
        sentence,
        a[begin:place],
        a[place : place + _AROUND_CHARS],
        b[place : place + _AROUND_CHARS],
        _differing(left, right),
        index,
    )


def _differing(left: ShownRun, right: ShownRun) -> tuple[tuple[str, str, str], ...]:
    pairs = zip(_facts(left), _facts(right), strict=True)
    return tuple((name, one, other) for (name, one), (_, other) in pairs if one != other)


def _facts(shown: ShownRun) -> list[tuple[str, str]]:
    run, finished = shown.run, shown.run.finished
    usage = None if finished is None else finished.usage
    guesses = None if finished is None else finished.speculation
    return [
        ("Model", run.model_id),
        ("Stop list", "  ".join(map(quoted, run.stops)) or "none"),
        ("Limit", "none" if run.max_tokens is None else counted(run.max_tokens, "token")),
        ("Reason", ended_words(run)),
        ("Tokens", "" if usage is None else f"{usage.output_tokens:,}"),
        ("Guessed tokens confirmed", "" if guesses is None else acceptance(guesses) or "none"),
        ("Forced tokens", "" if guesses is None else f"{guesses.forced:,}"),
        ("Passes that checked guesses", "" if guesses is None else f"{guesses.passes:,}"),
        ("Prompt", "" if usage is None else counted(usage.prompt_tokens, "token")),
        ("Characters", f"{len(run.text) - run.continued_chars:,}"),
    ]


def _common_length(a: str, b: str) -> int:
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[:middle] == b[:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _first_token(left: ShownRun, right: ShownRun) -> int | None:
    if left.trace is None or right.trace is None:
        return None
    if left.run.model_id != right.run.model_id:
        return None  # another model's ids stand for other tokens
    if not (left.trace.is_whole and right.trace.is_whole):
        return None
    a: list[TokenTrace] = list(left.trace.tokens)
    b: list[TokenTrace] = list(right.trace.tokens)
    for one, other in zip(a, b, strict=False):
        if one.token_id != other.token_id:
            return one.index
    return None if len(a) == len(b) else min(len(a), len(b))

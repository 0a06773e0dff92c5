"""Where a list of stops cuts a finished text: the rule against which answers are judged.

Deliberately written without the engine's matcher: a judge should not share the fault that it is
looking for. Pure; any thread.
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Occurrence:
    """A stop found in a text: ``text[start:end] == stop``."""

    stop: str
    start: int
    end: int


def first_occurrence(text: str, stops: Sequence[str]) -> Occurrence | None:
    """Return the stop that completes first; of those that complete together the longest."""
    found = [
        Occurrence(stop, start, start + len(stop))
        for stop in stops
        if stop and (start := text.find(stop)) >= 0
    ]
    # min keeps the first of equals: that is list order.
    return min(found, key=lambda one: (one.end, one.start), default=None)


def unfinished_stop(text: str, stops: Sequence[str]) -> tuple[str, str] | None:
    """Return (the longest end of the text that begins a stop without being it, that stop)."""
    best: tuple[str, str] | None = None
    for stop in stops:
        for length in range(min(len(stop) - 1, len(text)), 0, -1):
            if text.endswith(stop[:length]):
                if best is None or length > len(best[0]):
                    best = (stop[:length], stop)
                break
    return best

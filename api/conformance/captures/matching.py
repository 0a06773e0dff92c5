"""Finds where a list of stops cuts a finished text: the rule by which answers are judged.

Deliberately does not use the engine's matcher, so that it does not share the matcher's faults.
Pure; any thread.
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
    """Return the stop that is complete first; if several are, the longest."""
    found = [
        Occurrence(stop, start, start + len(stop))
        for stop in stops
        if stop and (start := text.find(stop)) >= 0
    ]
    # min keeps the first of equals, which is the list's order.
    return min(found, key=lambda one: (one.end, one.start), default=None)


def unfinished_stop(text: str, stops: Sequence[str]) -> tuple[str, str] | None:
    """Return the longest end of the text that is the beginning of a stop, and that stop."""
    best: tuple[str, str] | None = None
    for stop in stops:
        for length in range(min(len(stop) - 1, len(text)), 0, -1):
            if text.endswith(stop[:length]):
                if best is None or length > len(best[0]):
                    best = (stop[:length], stop)
                break
    return best

"""Finds the offsets of an answer at which stops can be chosen. Pure; any thread."""

from collections.abc import Iterator, Sequence

from api.conformance.probe.baseline import Baseline

_FROM, _TO = 0.15, 0.6


def places(given: Baseline) -> range:
    """Return the offsets at which a stop may begin; some text must be before and after it."""
    size = len(given.stable)
    return range(max(1, int(size * _FROM)), max(2, int(size * _TO)))


def pieces(given: Baseline, ends: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield those pieces of a stream from which stops may be chosen."""
    allowed = places(given)
    begin = 0
    for end in ends:
        if begin in allowed and end <= len(given.stable):
            yield begin, end
        begin = end


def word_ends(text: str) -> tuple[int, ...]:
    """Return the ends of words; a word includes the space before it, as in most tokenizers."""
    return (*(at for at, char in enumerate(text) if char.isspace() and at), len(text))


def is_plain(char: str) -> bool:
    """Return whether a character is neither white space nor invisible."""
    return char.isprintable() and not char.isspace() and char != "\ufffd"


def is_solid(given: Baseline, start: int, end: int) -> bool:
    """Return whether a text has no white space at its ends and occurs here first.

    Args:
        given: The answer without stops.
        start: The index of the first character in its stable text.
        end: The index behind the last one; greater than ``start``.
    """
    chosen = given.stable[start:end]
    return (
        end <= len(given.stable)
        and is_plain(chosen[0])
        and is_plain(chosen[-1])
        and "\ufffd" not in chosen
        and is_first(given, start, end)
    )


def is_first(given: Baseline, start: int, end: int) -> bool:
    """Return whether this is the first occurrence of a text.

    Args:
        given: The answer without stops.
        start: The index of the first character in its stable text.
        end: The index behind the last one.
    """
    return given.stable.find(given.stable[start:end]) == start

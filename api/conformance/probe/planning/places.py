"""Where in an answer stops may be chosen. Pure; any thread."""

from collections.abc import Iterator, Sequence

from api.conformance.probe.baseline import Baseline

_FROM, _TO = 0.15, 0.6


def places(given: Baseline) -> range:
    """Return the offsets at which a stop may begin: it must cut something off, and leave some."""
    size = len(given.stable)
    return range(max(1, int(size * _FROM)), max(2, int(size * _TO)))


def pieces(given: Baseline, ends: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the pieces, told by their ends, that lie where stops may be chosen."""
    allowed = places(given)
    begin = 0
    for end in ends:
        if begin in allowed and end <= len(given.stable):
            yield begin, end
        begin = end


def word_ends(text: str) -> tuple[int, ...]:
    """Return where words end, the space before each counted to it, as tokenizers like to."""
    return (*(at for at, char in enumerate(text) if char.isspace() and at), len(text))


def is_plain(char: str) -> bool:
    """Return whether a character is neither white space nor invisible."""
    return char.isprintable() and not char.isspace() and char != "\ufffd"


def is_solid(given: Baseline, start: int, end: int) -> bool:
    """Return whether characters have no white space at their ends and occur here first.

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
    """Return whether these characters occur here first.

    Args:
        given: The answer without stops.
        start: The index of the first character in its stable text.
        end: The index behind the last one.
    """
    return given.stable.find(given.stable[start:end]) == start

"""The differing parts of two texts. Pure; any thread."""

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher

Span = tuple[int, int]
"""Begin and end in a text."""

# Special tokens as in most vocabularies, words, and single characters.
_PIECE = re.compile(r"<\|?[^<>|\s]+\|?>|\w+|\W")
# Longer parts are marked as a whole: comparing takes the square of their pieces.
_MAX_PIECES = 2_000


def differences(first: str, second: str) -> Iterator[tuple[Span, Span]]:
    """Yield the parts in which two texts differ, in order; one of two may be empty."""
    lines = first.splitlines(keepends=True), second.splitlines(keepends=True)
    for one, other in _changed(*lines):
        begins = one[0], other[0]
        parts = first[slice(*one)], second[slice(*other)]
        pieces = [_PIECE.findall(part) for part in parts]
        if not all(pieces) or max(map(len, pieces)) > _MAX_PIECES:
            yield one, other
            continue
        for inner, opposite in _changed(*pieces):
            yield _moved(inner, begins[0]), _moved(opposite, begins[1])


def without_spaces(text: str, spans: Iterable[Span]) -> list[Span]:
    """Return spans of a text without the white space around them, and without empty ones."""
    found = []
    for begin, end in spans:
        if part := text[begin:end].strip():
            start = text.index(part, begin)
            found.append((start, start + len(part)))
    return found


def _changed(first: Sequence[str], second: Sequence[str]) -> Iterator[tuple[Span, Span]]:
    """Yield the differing parts of two sequences, as spans of their joined texts."""
    offsets = [_offsets(first), _offsets(second)]
    matcher = SequenceMatcher(None, first, second)
    for kind, begin, end, other_begin, other_end in matcher.get_opcodes():
        if kind != "equal":
            one, other = offsets
            yield (one[begin], one[end]), (other[other_begin], other[other_end])


def _offsets(parts: Sequence[str]) -> list[int]:
    return [0, *itertools.accumulate(map(len, parts))]


def _moved(span: Span, by: int) -> Span:
    return span[0] + by, span[1] + by

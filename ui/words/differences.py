"""Finds where two texts differ, word by word. Pure; any thread."""

import re
from difflib import SequenceMatcher

Spans = list[tuple[int, int]]
"""Where something begins and ends, in characters."""

# If the parts that differ have more words than this, they are marked as a whole.
_MOST_WORDS = 1500
_WORDS = re.compile(r"\s+|\w+|[^\w\s]")


def differences(left: str, right: str) -> tuple[Spans, Spans]:
    """Return, for each of two texts, the places of the words that the other text does not have.

    The common beginning and end are left out first: then long texts with few differences are quick.
    """
    a, b = _words(left), _words(right)
    first = _common([one for one, _ in a], [one for one, _ in b])
    rest = min(len(a), len(b)) - first
    last = min(rest, _common([one for one, _ in reversed(a)], [one for one, _ in reversed(b)]))
    a, b = a[first : len(a) - last], b[first : len(b) - last]
    if max(len(a), len(b)) > _MOST_WORDS:
        return _whole(a), _whole(b)
    matcher = SequenceMatcher(None, [one for one, _ in a], [one for one, _ in b], autojunk=False)
    mine: Spans = []
    others: Spans = []
    for kind, a_from, a_to, b_from, b_to in matcher.get_opcodes():
        if kind != "equal":
            mine += _whole(a[a_from:a_to])
            others += _whole(b[b_from:b_to])
    return mine, others


def _words(text: str) -> list[tuple[str, int]]:
    return [(found[0], found.start()) for found in _WORDS.finditer(text)]


def _common(a: list[str], b: list[str]) -> int:
    pairs = zip(a, b, strict=False)
    return next((n for n, (one, two) in enumerate(pairs) if one != two), min(len(a), len(b)))


def _whole(words: list[tuple[str, int]]) -> Spans:
    """Return the span of neighbouring words; none for white space alone or nothing."""
    seen = [(word, at) for word, at in words if not word.isspace()]
    if not seen:
        return []
    word, at = seen[-1]
    return [(seen[0][1], at + len(word))]

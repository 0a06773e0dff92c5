"""Iterates over the lines of a very large text without a list of them. Pure; any thread."""

import re
from collections.abc import Iterator

_BREAK = re.compile(r"\r\n|\n|\r")
_SPACE = re.compile(r"\s*+")


def line_start(text: str, word: str, begin: int = 0) -> int | None:
    """Return the index of the next line that begins with a word; None if there is none.

    Args:
        text: The text.
        word: The beginning of the line; not empty.
        begin: The index at which the search begins.
    """
    at = text.find(word, begin)
    while at > 0 and text[at - 1] not in "\r\n":
        at = text.find(word, at + 1)
    return at if at >= 0 else None


def lines_of(text: str, begin: int = 0) -> Iterator[str]:
    """Yield the lines from an index on, without their line ends."""
    # U+2028 and similar characters are not line ends in a stream; splitlines would split JSON.
    for found in _BREAK.finditer(text, begin):
        yield text[begin : found.start()]
        begin = found.end()
    yield text[begin:]


def next_line(text: str, at: int) -> int:
    """Return the index of the line after the one at an index."""
    found = _BREAK.search(text, at)
    return len(text) if found is None else found.end()


def after_space(text: str, at: int) -> int:
    """Return the end of the white space at an index."""
    found = _SPACE.match(text, at)
    return at if found is None else found.end()

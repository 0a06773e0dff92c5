"""Lines of a text of tens of megabytes, without a list of them all. Pure; any thread."""

import re
from collections.abc import Iterator

_BREAK = re.compile(r"\r\n|\n|\r")
_SPACE = re.compile(r"\s*+")


def line_start(text: str, word: str, begin: int = 0) -> int | None:
    """Return where the next line that begins with a word begins; None where there is none.

    Args:
        text: The text.
        word: What the line begins with; not empty.
        begin: The index from which lines are looked for.
    """
    at = text.find(word, begin)
    while at > 0 and text[at - 1] not in "\r\n":
        at = text.find(word, at + 1)
    return at if at >= 0 else None


def lines_of(text: str, begin: int = 0) -> Iterator[str]:
    """Yield the lines from a place on, without their ends."""
    # U+2028 and its like are no line ends in a stream: splitlines would tear JSON apart.
    for found in _BREAK.finditer(text, begin):
        yield text[begin : found.start()]
        begin = found.end()
    yield text[begin:]


def next_line(text: str, at: int) -> int:
    """Return where the line after the one at a place begins."""
    found = _BREAK.search(text, at)
    return len(text) if found is None else found.end()


def after_space(text: str, at: int) -> int:
    """Return where white space ends that begins at a place."""
    found = _SPACE.match(text, at)
    return at if found is None else found.end()

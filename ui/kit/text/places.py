"""Finds places in a document: links, anchors, and words that were searched for. Main thread."""

import re
from collections.abc import Iterator, Sequence

from PySide6.QtGui import QTextCharFormat, QTextDocument


def link_targets(document: QTextDocument) -> list[str]:
    """Return where the links of a document lead, in their order."""
    forms = (form for _, form in _pieces(document))
    return [form.anchorHref() for form in forms if form.isAnchor() and form.anchorHref()]


def anchor_position(document: QTextDocument, name: str) -> int | None:
    """Return the position of the anchor of a name; None where there is none."""
    return next((at for at, form in _pieces(document) if name in form.anchorNames()), None)


def word_places(document: QTextDocument, words: Sequence[str]) -> list[tuple[int, int]]:
    """Return where each occurrence of the words begins and ends, ignoring case, in order."""
    if not words:
        return []
    spelled = (r"\s+".join(re.escape(part) for part in word.split()) for word in words)
    pattern = re.compile("|".join(sorted(spelled, key=len, reverse=True)), re.IGNORECASE)
    places = []
    block = document.begin()
    while block.isValid():
        text = block.text()
        for match in pattern.finditer(text):
            begin = block.position() + utf16_length(text[: match.start()])
            places.append((begin, begin + utf16_length(match[0])))
        block = block.next()
    return places


def _pieces(document: QTextDocument) -> Iterator[tuple[int, QTextCharFormat]]:
    block = document.begin()
    while block.isValid():
        fragments = block.begin()
        while not fragments.atEnd():
            piece = fragments.fragment()
            yield piece.position(), piece.charFormat()
            fragments += 1
        block = block.next()


def utf16_length(text: str) -> int:
    """Return the number of document positions of a text."""
    return len(text.encode("utf-16-le")) // 2

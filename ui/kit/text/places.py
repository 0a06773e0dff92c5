"""Finds places in a document: links, anchors, and searched words. Main thread."""

import re
from collections.abc import Iterator, Sequence

from PySide6.QtGui import QTextCharFormat, QTextDocument


def link_targets(document: QTextDocument) -> list[str]:
    """Return the targets of a document's links, in their order."""
    forms = (form for _, form in _pieces(document))
    return [form.anchorHref() for form in forms if form.isAnchor() and form.anchorHref()]


def anchor_position(document: QTextDocument, name: str) -> int | None:
    """Return the position of the anchor with a name; None if there is none."""
    return next((at for at, form in _pieces(document) if name in form.anchorNames()), None)


def words_pattern(words: Sequence[str], has_case: bool = False) -> re.Pattern[str]:
    """Return a pattern of any of the words, longest first; white space matches any white space."""
    spelled = (r"\s+".join(re.escape(part) for part in word.split()) for word in words)
    spellings = sorted((one for one in spelled if one), key=len, reverse=True)
    return re.compile("|".join(spellings) or r"(?!)", re.NOFLAG if has_case else re.IGNORECASE)


def word_places(
    document: QTextDocument, words: Sequence[str], has_case: bool = False
) -> list[tuple[int, int]]:
    """Return the beginning and end of each occurrence of the words, in order."""
    if not words:
        return []
    pattern = words_pattern(words, has_case)
    places = []
    block = document.begin()
    while block.isValid():
        text = block.text()
        for match in pattern.finditer(text):
            begin = block.position() + utf16_length(text[: match.start()])
            places.append((begin, begin + utf16_length(match[0])))
        block = block.next()
    return places


def block_texts(document: QTextDocument) -> list[str]:
    """Return the text of each block: paragraphs, lines of code, cells of tables."""
    texts = []
    block = document.begin()
    while block.isValid():
        texts.append(block.text())
        block = block.next()
    return texts


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

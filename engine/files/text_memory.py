"""How much memory a text, or the values of a JSON text, take once they are read. Pure; any thread.

Python stores every character of a text in as many bytes as the widest one needs: with a single
emoji, 30 MB of English take 120 MB, for each copy.
"""

import codecs
import re
from dataclasses import dataclass

from engine.wording import counted

_PIECE_BYTES = 1 << 20
# JSON may write any character by its number, and one beyond U+FFFF as a pair of surrogates.
_FOUR_ESCAPED = re.compile(rb"\\u[dD][89abAB]")
_TWO_ESCAPED = re.compile(rb"\\u(?!00)")
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
# What CPython takes at most: an object with a first field, an empty list, a string, a place.
_OBJECT_BYTES, _LIST_BYTES, _STRING_BYTES, _PLACE_BYTES = 240, 96, 56, 40


# Bytes that a character can take.
WIDEST = 4


@dataclass(frozen=True, slots=True)
class TextMemory:
    """The memory that a text takes."""

    characters: int
    width: int

    @property
    def size_bytes(self) -> int:
        """The memory of one copy."""
        return self.characters * self.width

    def excess(self, most_bytes: int) -> str | None:
        """Return an explanation if it takes more than ``most_bytes``; otherwise None."""
        if self.size_bytes <= most_bytes:
            return None
        which = "emoji or other characters beyond U+FFFF" if self.width == WIDEST else (
            "characters beyond U+00FF"
        )  # fmt: skip
        return (
            f"it has {counted(self.characters, 'character')}, and since it contains {which}, each "
            f"takes {counted(self.width, 'byte')} of memory; at most "
            f"{most_bytes // self.width:,} such characters can be read"
        )


def text_memory(raw: bytes) -> TextMemory:
    """Return what JSON in UTF-8 takes once it and its escapes are decoded, without keeping a copy.

    What is not UTF-8 counts as replacement characters.
    """
    width = 1
    if b"\\u" in raw:
        width = 4 if _FOUR_ESCAPED.search(raw) else 2 if _TWO_ESCAPED.search(raw) else 1
    if raw.isascii():
        return TextMemory(len(raw), width)
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    characters, view = 0, memoryview(raw)
    for start in range(0, len(raw), _PIECE_BYTES):
        piece = decoder.decode(view[start : start + _PIECE_BYTES], start + _PIECE_BYTES >= len(raw))
        characters += len(piece)
        width = max(width, _width(piece))
    return TextMemory(characters, width)


def value_bytes(raw: bytes) -> int:
    """Return how much memory the values of a JSON text take at most, beside their characters."""
    bare = _STRING.sub(b'"', raw)
    return (
        bare.count(b"{") * _OBJECT_BYTES
        + bare.count(b"[") * _LIST_BYTES
        + bare.count(b'"') * _STRING_BYTES
        + bare.count(b",") * _PLACE_BYTES
    )


def _width(text: str) -> int:
    """Return how many bytes each character of a text takes."""
    widest = "" if text.isascii() else max(text)
    return 1 if widest <= "\xff" else 2 if widest <= "\uffff" else 4

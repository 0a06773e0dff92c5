"""Reads large JSON texts item by item, and says how much memory a text takes."""

import codecs
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from engine.files.json_fields import DamagedFile, parsed_json
from engine.wording import counted

# Python stores every character of a text in as many bytes as the widest one needs: with a single
# emoji, 30 MB of English take 120 MB, for each copy.

_PIECE_BYTES = 1 << 20
# JSON may write any character by its number, and one beyond U+FFFF as a pair of surrogates.
_FOUR_ESCAPED = re.compile(rb"\\u[dD][89abAB]")
_TWO_ESCAPED = re.compile(rb"\\u(?!00)")
_ANY_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
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

    def excess(self, max_bytes: int) -> str | None:
        """Return an explanation if it takes more than ``max_bytes``; otherwise None."""
        if self.size_bytes <= max_bytes:
            return None
        which = "emoji or other characters beyond U+FFFF" if self.width == WIDEST else (
            "characters beyond U+00FF"
        )  # fmt: skip
        return (
            f"it has {counted(self.characters, 'character')}, and since it contains {which}, each "
            f"takes {counted(self.width, 'byte')} of memory; at most "
            f"{max_bytes // self.width:,} such characters can be read"
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
    bare = _ANY_STRING.sub(b'"', raw)
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


# A list's items, and those of chosen lists in an object, are found by their brackets and parsed
# one at a time, so that a text of any size takes the memory of its largest item. Whether an item
# is valid JSON is seen when it is parsed.

MAX_ITEM_BYTES = 16 << 20
MAX_ITEM_VALUE_BYTES = 96 << 20
# Far more than a parser follows.
_DEEPEST = 10_000
# Brackets and strings: 16 MB of any export have fewer than half of the first.
_MAX_ITEM_TOKENS, _MAX_TOKENS = 3_000_000, 30_000_000
_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
# A complete string, a bracket, or the beginning of a string that goes on in the next piece.
_TOKEN = re.compile(_STRING + rb'|[\[\]{}"]', re.DOTALL)
_REST_OF_STRING = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)
_SCALAR = re.compile(rb"[^\s,:\[\]{}\"]*+")
_SPACE = re.compile(rb"\s*+")
_LINE = re.compile(r"line (\d+)")
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class JsonItem:
    """A part of a JSON text.

    Attributes:
        name: The name of the list that it is in, or of the object's field; empty for the items of
            a text that is a list.
        number: Its number in the list; None for a field.
        raw: Its text; None if it is larger than ``MOST_ITEM_BYTES``.
        line: The line on which it begins, from 1.
    """

    name: str
    number: int | None
    raw: bytes | None
    line: int

    @property
    def place(self) -> str:
        """Where it is, for an error."""
        return self.name if self.number is None else f"{self.name}[{self.number}]"

    def value(self) -> Any:
        """Return its value.

        Raises:
            DamagedFile: It is not valid JSON, or its values take too much memory.
        """
        if self.raw is None:
            size = f"{MAX_ITEM_BYTES >> 20} MB"
            raise DamagedFile(f"it is too large: this part may have up to {size}")
        return json_value(self.raw, self.line)


def json_value(raw: bytes, line: int = 1) -> Any:
    """Return the value of a JSON text; that of an item of a larger text begins on a later line.

    Raises:
        DamagedFile: It is not valid JSON, or its values take too much memory.
    """
    if (why := text_memory(raw).excess(2 * MAX_ITEM_BYTES)) is not None:
        raise DamagedFile(f"it takes too much memory: {why}")
    if value_bytes(raw) > MAX_ITEM_VALUE_BYTES:
        raise DamagedFile("it is too large: it has too many values")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DamagedFile("it is not text") from error
    try:
        return parsed_json(text)
    except DamagedFile as error:
        words = _LINE.sub(lambda match: f"line {int(match[1]) + line - 1}", str(error))
        raise DamagedFile(words) from error


def json_items(pieces: Iterator[bytes], lists: Collection[str] = ()) -> Iterator[JsonItem]:
    """Yield the items of a list; of an object its fields, and the items of some of its lists.

    Args:
        pieces: The text in pieces of any size.
        lists: The fields whose items are yielded one by one.

    Raises:
        DamagedFile: It is neither a list nor an object, or ends too early.
    """
    scanner = _Scanner(pieces)
    opening = scanner.opening()
    if opening == b"[":
        yield from _list_items(scanner, "")
    else:
        yield from _fields(scanner, lists)
    if scanner.next_byte():
        raise scanner.invalid()


def _list_items(scanner: "_Scanner", name: str) -> Iterator[JsonItem]:
    if scanner.takes(b"]"):
        return
    number = 0
    while True:
        scanner.next_byte()
        line = scanner.line
        yield JsonItem(name, number, scanner.value(), line)
        number += 1
        if scanner.takes(b"]"):
            return
        scanner.expect(b",")


def _fields(scanner: "_Scanner", lists: Collection[str]) -> Iterator[JsonItem]:
    if scanner.takes(b"}"):
        return
    while True:
        if scanner.next_byte() != b'"':
            raise scanner.invalid()
        key = parsed_json((scanner.value() or b'""').decode("utf-8", "replace"))
        scanner.expect(b":")
        if scanner.next_byte() == b"[" and key in lists:
            scanner.takes(b"[")
            yield from _list_items(scanner, key)
        else:
            line = scanner.line
            yield JsonItem(key, None, scanner.value(), line)
        if scanner.takes(b"}"):
            return
        scanner.expect(b",")


class _Scanner:
    """The place in a text that arrives in pieces."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._data = b""
        self._at = 0
        self._tokens = 0
        self.line = 1
        while len(self._data) < len(_BOM) and self._refill():
            pass
        self._at = len(_BOM) if self._data.startswith(_BOM) else 0

    def opening(self) -> bytes:
        """Take and return the first bracket."""
        first = self.next_byte()
        if first not in (b"[", b"{"):
            raise self.invalid()
        self._at += 1
        return first

    def next_byte(self) -> bytes:
        """Return the next byte that is not white space, without taking it; empty at the end."""
        while True:
            match = _SPACE.match(self._data, self._at)
            assert match is not None
            self._take(match.end())
            if self._at < len(self._data) or not self._refill():
                return self._data[self._at : self._at + 1]

    def takes(self, byte: bytes) -> bool:
        """Take the next byte if it is this one."""
        if self.next_byte() != byte:
            return False
        self._at += 1
        return True

    def expect(self, byte: bytes) -> None:
        """Take the next byte, which must be this one."""
        if not self.takes(byte):
            raise self.invalid()

    def invalid(self) -> DamagedFile:
        """Return the error for this place."""
        return DamagedFile(f"line {self.line} is not valid JSON")

    def value(self) -> bytes | None:
        """Take one value and return its text; None if that is too large to be kept."""
        first, kept = self.next_byte(), _Kept()
        if first == b'"':
            self._at += 1
            kept.add(first)
            self._string(kept)
        elif first in (b"[", b"{"):
            self._container(kept)
        else:
            self._scalar(kept)
        return kept.text()

    def _scalar(self, kept: "_Kept") -> None:
        is_empty = True
        while True:
            match = _SCALAR.match(self._data, self._at)
            assert match is not None
            is_empty = is_empty and not match[0]
            kept.add(match[0])
            self._take(match.end())
            if self._at < len(self._data) or not self._refill():
                break
        if is_empty:
            raise self.invalid()

    def _container(self, kept: "_Kept") -> None:
        depth, tokens = 0, 0
        while True:
            start, is_cut = self._at, False
            number = 0
            for number, token in enumerate(_TOKEN.finditer(self._data, start), 1):  # noqa: B007
                first = self._data[token.start()]
                if first in b"[{":
                    depth += 1
                    if depth > _DEEPEST:
                        raise DamagedFile("it is nested too deeply")
                elif first in b"]}":
                    depth -= 1
                elif token.end() - token.start() == 1:
                    is_cut = True
                if is_cut or not depth:
                    break
            else:
                token = None
            tokens += number
            self._tokens += number
            if tokens > _MAX_ITEM_TOKENS or self._tokens > _MAX_TOKENS:
                raise DamagedFile(f"line {self.line} has too many values to be read")
            end = len(self._data) if token is None else token.end()
            kept.add(self._data[start:end])
            self._take(end)
            if is_cut:
                self._string(kept)
            elif token is not None:
                return
            elif not self._refill():
                raise self.invalid()

    def _string(self, kept: "_Kept") -> None:
        """Take the rest of a string, whose beginning was taken."""
        while True:
            match = _REST_OF_STRING.match(self._data, self._at)
            assert match is not None
            end = match.end()
            is_over = self._data[end : end + 1] == b'"'
            kept.add(self._data[self._at : end + is_over])
            self._take(end + is_over)
            if is_over:
                return
            # What is left is a backslash without its character, or nothing.
            if not self._refill():
                raise self.invalid()

    def _take(self, end: int) -> None:
        self.line += self._data.count(b"\n", self._at, end)
        self._at = end

    def _refill(self) -> bool:
        """Read the next piece; return whether there was one."""
        piece = next(self._pieces, b"")
        self._data, self._at = self._data[self._at :] + piece, 0
        return bool(piece)


class _Kept:
    """The text of a value, until it is too large."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def add(self, part: bytes) -> None:
        self._size += len(part)
        if self._size > MAX_ITEM_BYTES:
            self._parts.clear()
        else:
            self._parts.append(part)

    def text(self) -> bytes | None:
        return None if self._size > MAX_ITEM_BYTES else b"".join(self._parts)

"""Reads large JSON texts item by item, so that a text takes the memory of its largest item."""

import codecs
import json
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from engine.files.json_fields import DamagedFile

MAX_ITEM_BYTES = 16 << 20
_MAX_ITEM_CHARACTERS = 256 << 20
# What a parser may not have understood because the text goes on: a number, a word, an escape.
_TAIL = 16
_SPACE = re.compile(r"\s*")


@dataclass(frozen=True, slots=True)
class JsonItem:
    """A part of a JSON text: an object's field, or an item with its number in a named list."""

    name: str
    number: int | None
    value: Any

    @property
    def path(self) -> str:
        return self.name if self.number is None else f"{self.name}[{self.number}]"


def json_items(pieces: Iterator[bytes], lists: Collection[str] = ()) -> Iterator[JsonItem]:
    """Yield the items of a list; of an object its fields, and the items of some of its lists."""
    reader = _Reader(pieces)
    if reader.takes("["):
        yield from _list_items(reader, "")
    else:
        reader.expect("{")
        while not reader.takes("}"):
            key = reader.value()
            reader.expect(":")
            if key in lists and reader.takes("["):
                yield from _list_items(reader, key)
            else:
                yield JsonItem(str(key), None, reader.value())
            if not reader.takes(","):
                reader.expect("}")
                break
    if reader.next_character():
        raise reader.invalid()


def _list_items(reader: "_Reader", name: str) -> Iterator[JsonItem]:
    number = 0
    while not reader.takes("]"):
        yield JsonItem(name, number, reader.value())
        number += 1
        if not reader.takes(","):
            reader.expect("]")
            return


class _Reader:
    """A text that arrives in pieces, read value by value."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._decode = codecs.getincrementaldecoder("utf-8-sig")().decode
        self._parse = json.JSONDecoder().raw_decode
        self._text = ""
        self._index = 0
        self._lines = 1
        self._is_over = False

    def _read_more(self, count: int = 1) -> bool:
        """Append some characters; return whether there were any."""
        self._lines += self._text.count("\n", 0, self._index)
        parts = [self._text[self._index :]]
        self._index = 0
        while count > 0 and not self._is_over:
            piece = next(self._pieces, b"")
            self._is_over = not piece
            try:
                parts.append(self._decode(piece, self._is_over))
            except UnicodeDecodeError as error:
                raise DamagedFile("it is not text") from error
            count -= len(parts[-1])
        self._text = "".join(parts)
        return len(self._text) > len(parts[0])

    def invalid(self) -> DamagedFile:
        line = self._lines + self._text.count("\n", 0, self._index)
        return DamagedFile(f"line {line} is not valid JSON")

    def next_character(self) -> str:
        """Return the next character that is no white space; empty at the end."""
        while True:
            match = _SPACE.match(self._text, self._index)
            self._index = self._index if match is None else match.end()
            if self._index < len(self._text) or not self._read_more():
                return self._text[self._index : self._index + 1]

    def takes(self, character: str) -> bool:
        is_next = self.next_character() == character
        self._index += is_next
        return is_next

    def expect(self, character: str) -> None:
        if not self.takes(character):
            raise self.invalid()

    def value(self) -> Any:
        self.next_character()
        while True:
            try:
                value, end = self._parse(self._text, self._index)
            except json.JSONDecodeError as error:
                is_open = error.msg.startswith("Unterminated") or (
                    error.pos >= len(self._text) - _TAIL
                )
                length = error.pos - self._index
                if not is_open or not self._can_read_more():
                    self._index = min(self._index + length, len(self._text))
                    raise self.invalid() from error
            except RecursionError as error:
                raise DamagedFile("it is nested too deeply") from error
            except ValueError as error:  # Python's own limit for the digits of a whole number
                raise DamagedFile("it contains a number that is too long") from error
            else:
                length = end - self._index
                if end < len(self._text) - _TAIL or not self._can_read_more():
                    self._index += length
                    return value

    def _can_read_more(self) -> bool:
        """Read as much again, so that a value is parsed a few times at most."""
        size = len(self._text) - self._index
        if size > _MAX_ITEM_CHARACTERS:
            raise DamagedFile(f"line {self._lines} is too large")
        return self._read_more(max(size, _TAIL))

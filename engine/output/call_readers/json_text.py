"""JSON while it is written: passed on, or rewritten as the engine writes arguments.

The rewritten text is exactly what ``json.dumps`` makes of the parsed value, except that a repeated
key stays repeated. Text of strings is passed on at once; numbers, ``true``, ``false`` and ``null``
when they are complete. Pure; any thread.
"""

import json
import re
from collections.abc import Callable
from json.encoder import encode_basestring
from typing import Protocol

from engine.output.arguments import MAX_DEPTH
from engine.output.call_readers.arriving import ArrivingText, IrregularCall, Waiting

Write = Callable[[str], object]

_SPACE = re.compile(r"[ \t\n\r]*")
_PLAIN = re.compile(r'[^"\\\x00-\x1f]*')
_WORD = re.compile(r'[^\s,:"\[\]{}]*')
_HEX = re.compile(r"[0-9a-fA-F]{4}")
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", '"': '"', "\\": "\\", "/": "/"}
_CLOSING = {"{": "}", "[": "]"}


class _Style(Protocol):
    """Handles each part of a JSON text."""

    def space(self, text: str) -> None:
        """Take white space between values."""

    def mark(self, char: str) -> None:
        """Take a bracket, comma or colon, or the quotation mark of a string."""

    def word(self, text: str, value: object) -> None:
        """Take a number, ``true``, ``false`` or ``null``."""

    def string(self, text: str, written: str) -> None:
        """Take text of a string, unescaped and as it was written."""


class Rewritten:
    """Writes JSON as ``json.dumps`` does."""

    __slots__ = ("_write",)

    def __init__(self, write: Write) -> None:
        self._write = write

    def space(self, text: str) -> None:
        """Leave white space out."""

    def mark(self, char: str) -> None:
        """Write a mark with the space that belongs to it."""
        self._write(f"{char} " if char in ",:" else char)

    def word(self, text: str, value: object) -> None:
        """Write a value."""
        self._write(_dumped(value))

    def string(self, text: str, written: str) -> None:
        """Write text with the escapes that it needs."""
        self._write(escaped(text))


class AsWritten:
    """Passes JSON on as it is."""

    __slots__ = ("_write",)

    def __init__(self, write: Write) -> None:
        self._write = write

    def space(self, text: str) -> None:
        """Pass on."""
        self._write(text)

    def mark(self, char: str) -> None:
        """Pass on."""
        self._write(char)

    def word(self, text: str, value: object) -> None:
        """Pass it on if it is valid."""
        _dumped(value)
        self._write(text)

    def string(self, text: str, written: str) -> None:
        """Pass on."""
        self._write(written)


def escaped(text: str) -> str:
    """Return text with the escapes of a JSON string, without the quotation marks."""
    return str(encode_basestring(text))[1:-1]


def _dumped(value: object) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except ValueError as error:
        raise IrregularCall from error


def json_object(text: ArrivingText, style: _Style) -> Waiting[None]:
    """Read one object, but do not write its last brace."""
    if (yield from text.skip_space()) != "{":
        raise IrregularCall
    yield from json_value(text, style, keeps_last=True)


def json_value(text: ArrivingText, style: _Style, *, keeps_last: bool = False) -> Waiting[None]:
    """Read one value."""
    open_brackets: list[str] = []
    while True:
        char = yield from _next(text, style)
        is_empty = False
        if char in "{[":
            yield from text.take()
            if len(open_brackets) >= MAX_DEPTH:
                raise IrregularCall
            open_brackets.append(char)
            style.mark(char)
            is_empty = (yield from _next(text, style)) == _CLOSING[char]
            if not is_empty:
                if char == "{":
                    yield from _key(text, style)
                continue
        elif char == '"':
            yield from _quoted(text, style)
        else:
            yield from _word(text, style)
        # After a value: a comma, or closing brackets.
        while open_brackets:
            char = yield from _next(text, style)
            yield from text.take()
            if char == "," and not is_empty:
                style.mark(",")
                if open_brackets[-1] == "{":
                    yield from _next(text, style)
                    yield from _key(text, style)
                break
            if char != _CLOSING[open_brackets.pop()]:
                raise IrregularCall
            if open_brackets or not keeps_last:
                style.mark(char)
            is_empty = False
        else:
            return


def _next(text: ArrivingText, style: _Style) -> Waiting[str]:
    """Take white space; return the character after it without taking it."""
    while True:
        char = yield from text.peek()
        if char not in " \t\n\r":
            return char
        style.space(text.take_run(_SPACE))


def _key(text: ArrivingText, style: _Style) -> Waiting[None]:
    yield from _quoted(text, style)
    yield from _next(text, style)
    yield from text.expect(":")
    style.mark(":")


def _word(text: ArrivingText, style: _Style) -> Waiting[None]:
    parts: list[str] = []
    while part := text.take_run(_WORD):
        parts.append(part)
        yield from text.peek()
    word = "".join(parts)
    try:
        value = json.loads(word)
    except ValueError as error:
        raise IrregularCall from error
    style.word(word, value)


def _quoted(text: ArrivingText, style: _Style) -> Waiting[None]:
    if (yield from text.take()) != '"':
        raise IrregularCall
    style.mark('"')
    yield from string_text(text, style.string)
    style.mark('"')


def string_text(text: ArrivingText, take: Callable[[str, str], object]) -> Waiting[None]:
    """Read the text of a string after its first quotation mark, including its last."""
    while True:
        char = yield from text.peek()
        if plain := text.take_run(_PLAIN):
            take(plain, plain)
            continue
        yield from text.take()
        if char == '"':
            return
        if char != "\\":
            raise IrregularCall
        letter = yield from text.take()
        if letter != "u":
            if letter not in _ESCAPED:
                raise IrregularCall
            take(_ESCAPED[letter], f"\\{letter}")
            continue
        digits = yield from _hex_digits(text)
        code = int(digits, 16)
        written = f"\\u{digits}"
        if 0xD800 <= code < 0xE000:
            yield from text.expect("\\u")
            digits = yield from _hex_digits(text)
            written += f"\\u{digits}"
            low = int(digits, 16)
            if code >= 0xDC00 or not 0xDC00 <= low < 0xE000:
                raise IrregularCall
            code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00)
        take(chr(code), written)


def _hex_digits(text: ArrivingText) -> Waiting[str]:
    digits = ""
    for _ in range(4):
        digits += yield from text.take()
    if not _HEX.fullmatch(digits):
        raise IrregularCall
    return digits


def whole_string(text: ArrivingText) -> Waiting[str]:
    """Return a string that begins here."""
    parts: list[str] = []
    yield from text.skip_space()
    yield from text.expect('"')
    yield from string_text(text, lambda said, written: parts.append(said))
    return "".join(parts)

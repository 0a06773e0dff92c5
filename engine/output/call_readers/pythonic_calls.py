"""Calls that are written as Python: ``[f(a="x", b=2), g()]``. Pure; any thread.

Strings without prefix grow. Every other value is taken whole and converted by the model's parser.
"""

import keyword
import re

from engine.output.call_readers.arriving import (
    ArrivingText,
    CallParser,
    CallWriter,
    Format,
    IrregularCall,
    Waiting,
)
from engine.output.call_readers.json_text import escaped
from engine.output.call_readers.parameters import Conversions, ParameterWriter

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PLAIN = re.compile(r"""[^"'\\\n\r\x00]*""")
_VALUE = re.compile(r"""[^"'\\\n\r\x00\[\](){},#]*""")
_HEX = re.compile(r"[0-9a-fA-F]+")
_ESCAPED = {
    "n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "a": "\a", "v": "\v",
    "\\": "\\", "'": "'", '"': '"',
}  # fmt: skip
_DIGITS = {"x": 2, "u": 4, "U": 8}
_CLOSING = {"(": ")", "[": "]", "{": "}"}


def pythonic(parse: CallParser) -> Format:
    """Return the format of calls in Python."""
    conversions = Conversions(parse)

    def read(text: ArrivingText, out: CallWriter) -> Waiting[None]:
        yield from text.skip_past("[")
        while (yield from text.skip_space()) != "]":
            name = (yield from text.until("(")).strip()
            for part in name.split("."):
                _check(part)
            out.start(name)
            writer = ParameterWriter(out, conversions)
            writer.open()
            keys: set[str] = set()
            while (yield from text.skip_space()) != ")":
                key = (yield from text.until("=")).strip()
                _check(key)
                if key in keys:
                    raise IrregularCall
                keys.add(key)
                if (yield from text.skip_space()) in "\"'":
                    writer.key(key)
                    yield from _string(text, out)
                else:
                    value = yield from _value(text)
                    writer.pair(f"[{name}({key}={value})]")
                yield from _comma(text, ")")
            yield from text.take()
            writer.end()
            yield from _comma(text, "]")

    return read


def _check(name: str) -> None:
    """Raise ``IrregularCall`` for what is no plain name in Python."""
    if not _NAME.fullmatch(name) or keyword.iskeyword(name):
        raise IrregularCall


def _comma(text: ArrivingText, end: str) -> Waiting[None]:
    """Take a comma; leave the end."""
    char = yield from text.skip_space()
    if char == ",":
        yield from text.take()
    elif char != end:
        raise IrregularCall


def _plain(text: str, place: int) -> int:
    found = _PLAIN.match(text, place)
    return place if found is None else found.end()


def _plain_value(text: str, place: int) -> int:
    found = _VALUE.match(text, place)
    return place if found is None else found.end()


def _string(text: ArrivingText, out: CallWriter) -> Waiting[None]:
    """Read a string as it grows, up to its last quotation mark."""
    quote = yield from text.take()
    out.write('"')
    is_empty = True
    while True:
        char = yield from text.peek()
        if plain := text.take_while(_plain):
            out.write(escaped(plain))
        else:
            yield from text.take()
            if char == quote:
                break
            if char == "\\":
                out.write(escaped((yield from _escape(text))))
            elif char in "\"'":
                out.write(escaped(char))
            else:
                raise IrregularCall
        is_empty = False
    if is_empty and (yield from text.peek()) == quote:
        raise IrregularCall  # three quotation marks
    if (yield from text.skip_space()) not in ",)":
        raise IrregularCall  # an expression goes on
    out.write('"')


def _escape(text: ArrivingText) -> Waiting[str]:
    letter = yield from text.take()
    if letter in _ESCAPED:
        return _ESCAPED[letter]
    digits = ""
    for _ in range(_DIGITS.get(letter, 0)):
        digits += yield from text.take()
    if not _HEX.fullmatch(digits):
        raise IrregularCall
    code = int(digits, 16)
    if code > 0x10FFFF or 0xD800 <= code < 0xE000:
        raise IrregularCall
    return chr(code)


def _value(text: ArrivingText) -> Waiting[str]:
    """Return a value as it is written, up to the comma or bracket after it."""
    parts: list[str] = []
    closing: list[str] = []
    while True:
        char = yield from text.peek()
        if plain := text.take_while(_plain_value):
            parts.append(plain)
            continue
        if not closing and char in ",)":
            return "".join(parts)
        parts.append((yield from text.take()))
        if char in "\"'":
            yield from _skip_string(text, char, parts)
        elif char in _CLOSING:
            closing.append(_CLOSING[char])
        elif char in ")]}":
            if not closing or closing.pop() != char:
                raise IrregularCall
        elif char not in ",\n\r":
            raise IrregularCall


def _skip_string(text: ArrivingText, quote: str, parts: list[str]) -> Waiting[None]:
    while True:
        char = yield from text.peek()
        if plain := text.take_while(_plain):
            parts.append(plain)
            continue
        parts.append((yield from text.take()))
        if char == quote:
            return
        if char == "\\":
            parts.append((yield from text.take()))
        elif char not in "\"'":
            raise IrregularCall

"""Calls that are written as Python: ``[f(a="x", b=2), g()]``. Pure; any thread."""

import json
import keyword
import re
from collections.abc import Callable

from engine.output.tool_calls.call_text import (
    MAX_DEPTH,
    ArrivingText,
    CallParser,
    CallWriter,
    Format,
    IrregularCall,
    Waiting,
    escaped,
)
from engine.output.tool_calls.parameters import Conversions, NestedValue, ParameterWriter, ReadValue

# Strings without a prefix are written while they arrive, also in lists and dictionaries. The
# model's parser converts every other value when it is complete, and also lists and dictionaries
# that contain anything but strings, plain words, lists and dictionaries.

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PLAIN = re.compile(r"""[^"'\\\n\r\x00]*""")
_VALUE = re.compile(r"""[^"'\\\n\r\x00\[\](){},#]*""")
_WORD = re.compile(r"[^\s,:()\[\]{}\"'#]*")
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
                    yield from _string(text, out.write, ",)")
                else:
                    value = writer.nested(key, _nested_reader(conversions))
                    yield from _value(text, value)
                    writer.pair(f"[{name}({key}={value.raw})]", value)
                yield from _comma(text, ")")
            yield from text.take()
            writer.end()
            yield from _comma(text, "]")

    return read


def _check(name: str) -> None:
    """Raise ``IrregularCall`` for text that is not a plain name in Python."""
    if not _NAME.fullmatch(name) or keyword.iskeyword(name):
        raise IrregularCall


def _comma(text: ArrivingText, end: str) -> Waiting[None]:
    """Take a comma, if there is one; leave the end mark."""
    char = yield from text.skip_space()
    if char == ",":
        yield from text.take()
    elif char != end:
        raise IrregularCall


def _string(text: ArrivingText, write: Callable[[str], object], ends: str) -> Waiting[None]:
    """Read a string while it arrives, including its last quotation mark."""
    quote = yield from text.take()
    write('"')
    is_empty = True
    while True:
        char = yield from text.peek()
        if plain := text.take_run(_PLAIN):
            write(escaped(plain))
        else:
            yield from text.take()
            if char == quote:
                break
            if char == "\\":
                write(escaped((yield from _escape(text))))
            elif char in "\"'":
                write(escaped(char))
            else:
                raise IrregularCall
        is_empty = False
    if is_empty and (yield from text.peek()) == quote:
        raise IrregularCall  # three quotation marks
    if (yield from text.skip_space()) not in ends:
        raise IrregularCall
    write('"')


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


def _nested_reader(conversions: Conversions) -> ReadValue:
    """Return a reader of lists and dictionaries of strings, words, lists and dictionaries."""

    def read(text: ArrivingText, write: Callable[[str], object]) -> Waiting[None]:
        if (yield from text.peek()) not in "[{":
            raise IrregularCall
        yield from _nested(text, write, conversions, MAX_DEPTH)

    return read


def _nested(
    text: ArrivingText, write: Callable[[str], object], conversions: Conversions, depth: int
) -> Waiting[None]:
    """Read a nested value, or a value inside one."""
    opening = yield from text.skip_space()
    if opening in "\"'":
        yield from _string(text, write, ",]}")
        return
    if opening not in "[{":
        yield from _word(text, write, conversions)
        return
    if not depth:
        raise IrregularCall
    write((yield from text.take()))
    closing, has_items = _CLOSING[opening], False
    while (yield from text.skip_space()) != closing:
        if has_items:
            write(", ")
        has_items = True
        if opening == "{":
            if (yield from text.peek()) not in "\"'":
                raise IrregularCall
            yield from _string(text, write, ":")
            yield from text.take()
            write(": ")
        yield from _nested(text, write, conversions, depth - 1)
        yield from _comma(text, closing)
    yield from text.take()
    write(closing)


def _word(
    text: ArrivingText, write: Callable[[str], object], conversions: Conversions
) -> Waiting[None]:
    parts: list[str] = []
    while part := text.take_run(_WORD):
        parts.append(part)
        yield from text.peek()
    if (yield from text.skip_space()) not in ",]}":
        raise IrregularCall  # an expression
    value = conversions.pair(f"[f(a=[{''.join(parts)}])]")[1]
    if not isinstance(value, list) or len(value) != 1:
        raise IrregularCall
    try:
        write(json.dumps(value[0], ensure_ascii=False, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise IrregularCall from error


def _value(text: ArrivingText, parts: NestedValue) -> Waiting[None]:
    """Collect the raw text of a value, up to the comma or bracket after it."""
    closing: list[str] = []
    while True:
        char = yield from text.peek()
        if plain := text.take_run(_VALUE):
            parts.append(plain)
            continue
        if not closing and char in ",)":
            return
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


def _skip_string(text: ArrivingText, quote: str, parts: NestedValue) -> Waiting[None]:
    while True:
        char = yield from text.peek()
        if plain := text.take_run(_PLAIN):
            parts.append(plain)
            continue
        parts.append((yield from text.take()))
        if char == quote:
            return
        if char == "\\":
            parts.append((yield from text.take()))
        elif char not in "\"'":
            raise IrregularCall

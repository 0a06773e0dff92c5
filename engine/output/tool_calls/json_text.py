"""JSON as models write it, passed on as valid JSON while it arrives. Pure; any thread.

Text with one reading only is repaired: line breaks and other control characters in strings,
escapes that JSON does not know, a comma before a bracket, one bracket too few, Python's words and
quotation marks, keys without quotation marks. Numbers are passed on digit by digit.
"""

import math
import re
from collections.abc import Callable
from json.encoder import encode_basestring

from engine.output.tool_calls.call_text import (
    CALL_ENDS,
    MAX_DEPTH,
    CallEnd,
    IrregularCall,
    StreamBuffer,
    Waiting,
)
from engine.output.tool_calls.formats import CALL_FORMATS, HeadedCalls

NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_ENDS = "".join(CALL_ENDS)
_SPACE = re.compile(r"\s*")
_PLAIN = {
    '"': re.compile(rf'[^"\\\x00-\x1f{_ENDS}]*'),
    "'": re.compile(rf"[^'\\\x00-\x1f{_ENDS}]*"),
}
_WORD = re.compile(rf"[^\s,:\"'<\[\]{{}}{_ENDS}]*")
_BARE_KEY = re.compile(r"[\w.$-]+")
_HEX = re.compile(r"[0-9a-fA-F]{4}")
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", '"': '"', "\\": "\\", "/": "/"}
_CLOSING = {"{": "}", "[": "]"}
_LITERALS = {
    "true": "true", "false": "false", "null": "null",
    "True": "true", "False": "false", "None": "null",
}  # fmt: skip
# Marks around a string that contains no escapes.
_LONG_QUOTES = tuple(
    form.quote for form in CALL_FORMATS.values() if isinstance(form, HeadedCalls) and form.quote
)


def escaped(text: str) -> str:
    """Return text with the escapes of a JSON string, without the quotation marks."""
    return str(encode_basestring(text))[1:-1]


def is_number(text: str) -> bool:
    """Return whether a text is a JSON number that every reader of JSON can take."""
    if not NUMBER.fullmatch(text) or len(text) > 4_300:  # Python reads no more digits
        return False
    return text.lstrip("-").isdigit() or math.isfinite(float(text))


class JsonReader:
    """Reads JSON and writes it while it arrives."""

    def __init__(
        self, text: StreamBuffer, write: Callable[[str], object], *, keeps_space: bool = False
    ) -> None:
        self._text = text
        self._write = write
        self._keeps_space = keeps_space

    def read_object(self) -> Waiting[None]:
        """Read one object, but do not write its last brace."""
        if (yield from self._text.skip_space()) != "{":
            raise IrregularCall("the arguments are not an object")
        yield from self.read_value(keeps_last=True)

    def read_value(self, *, keeps_last: bool = False) -> Waiting[None]:
        closing: list[str] = []
        while True:
            char = yield from self._space()
            if char in _CLOSING:
                yield from self._text.take()
                if len(closing) >= MAX_DEPTH:
                    raise IrregularCall(f"nested more than {MAX_DEPTH} levels deep")
                closing.append(_CLOSING[char])
                self._write(char)
                if (yield from self._space()) != closing[-1]:
                    if char == "{":
                        yield from self._key()
                    continue
            elif char in "\"'<":
                yield from self._string()
            else:
                yield from self._word()
            if (yield from self._close(closing, keeps_last)):
                return

    def _close(self, closing: list[str], keeps_last: bool) -> Waiting[bool]:
        """Read what follows a value; return whether no bracket is open any more."""
        while closing:
            char = yield from self._space()
            if char == ",":
                yield from self._text.take()
                parts: list[str] = []
                if (yield from self._space(parts.append)) in ("}", "]"):
                    continue  # a comma too many
                self._write("".join([",", *parts]) if self._keeps_space else ", ")
                if closing[-1] == "}":
                    yield from self._key()
                return False
            if char == closing[-1]:
                yield from self._text.take()
            elif char in (CallEnd.TAG.value, CallEnd.EOS.value) or char in closing[-2:-1]:
                self._text.repair()  # a bracket too few
            else:
                raise IrregularCall("a comma or bracket is missing")
            bracket = closing.pop()
            if closing or not keeps_last:
                self._write(bracket)
        return True

    def _space(self, take: Callable[[str], object] | None = None) -> Waiting[str]:
        """Take white space; return the character after it without taking it."""
        while (char := (yield from self._text.peek())).isspace():
            space = self._text.take_run(_SPACE)
            if self._keeps_space:
                (take or self._write)(space)
        return char

    def _key(self) -> Waiting[None]:
        key = ""
        if (yield from self._space()) in "\"'<":
            yield from self._string()
        elif not _BARE_KEY.fullmatch(key := (yield from self._run())):
            raise IrregularCall("a key is missing")
        yield from self._space()
        yield from self._text.expect(":")
        mark = ":" if self._keeps_space else ": "
        self._write(f'"{key}"{mark}' if key else mark)

    def _run(self) -> Waiting[str]:
        parts: list[str] = []
        while part := self._text.take_run(_WORD):
            parts.append(part)
            yield from self._text.peek()
        return "".join(parts)

    def _word(self) -> Waiting[None]:
        word = yield from self._run()
        if is_number(word):
            self._write(word)
        elif word in _LITERALS:
            self._write(_LITERALS[word])
        else:
            raise IrregularCall("a value is not JSON")

    def _string(self) -> Waiting[None]:
        self._write('"')
        yield from read_string(self._text, self._write, keeps_escapes=self._keeps_space)
        self._write('"')


def read_string(
    text: StreamBuffer,
    write: Callable[[str], object],
    *,
    keeps_escapes: bool = False,
    is_raw: bool = False,
) -> Waiting[None]:
    """Read a string with its quotation marks, and write its text."""
    quote = yield from text.peek()
    plain_text = (lambda part: part) if is_raw else escaped
    if quote == "<":
        mark = yield from text.find_mark(_LONG_QUOTES)
        if not mark:
            raise IrregularCall("a string has no quotation mark")
        text.skip(len(mark))
        yield from text.pass_until((mark,), lambda part: write(plain_text(part)))
        text.skip(len(mark))
        return
    yield from text.take()
    if quote not in _PLAIN:
        raise IrregularCall("a string has no quotation mark")
    pattern = _PLAIN[quote]
    while True:
        char = yield from text.peek()
        if plain := text.take_run(pattern):
            write(plain_text(plain))
            continue
        yield from text.take()
        if char == quote:
            return
        if char != "\\":
            write(plain_text(char))
            continue
        value, source = yield from _escape(text)
        write(source if keeps_escapes and not is_raw else plain_text(value))


def _escape(text: StreamBuffer) -> Waiting[tuple[str, str]]:
    """Return what an escape means, and how JSON writes it; an unknown one is its own text."""
    letter = yield from text.take()
    if letter == "'":
        return "'", "'"
    if letter in _ESCAPED:
        return _ESCAPED[letter], f"\\{letter}"
    if letter != "u":
        return f"\\{letter}", escaped(f"\\{letter}")
    digits = yield from _hex_digits(text)
    if not _HEX.fullmatch(digits):
        return f"\\u{digits}", escaped(f"\\u{digits}")
    code = int(digits, 16)
    source = f"\\u{digits}"
    if 0xD800 <= code < 0xE000:
        yield from text.expect("\\u")
        digits = yield from _hex_digits(text)
        low = int(digits, 16) if _HEX.fullmatch(digits) else 0
        if code >= 0xDC00 or not 0xDC00 <= low < 0xE000:
            raise IrregularCall("half of a surrogate pair")
        source += f"\\u{digits}"
        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00)
    return chr(code), source


def _hex_digits(text: StreamBuffer) -> Waiting[str]:
    digits = ""
    while len(digits) < 4 and (yield from text.peek()) in "0123456789abcdefABCDEF":
        digits += yield from text.take()
    return digits


def repaired_json(source: str) -> str | None:
    """Return the JSON of a whole text that is one value, repaired; None if it is none."""
    text = StreamBuffer()
    text.append(source + CallEnd.EOS.value)
    parts: list[str] = []

    def read() -> Waiting[None]:
        yield from JsonReader(text, parts.append).read_value()
        if (yield from text.skip_space()) not in CALL_ENDS:
            raise IrregularCall("text follows the value")

    try:
        next(read())
    except StopIteration:
        return "".join(parts)
    except IrregularCall:
        return None
    return None

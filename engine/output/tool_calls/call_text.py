"""The text of a call while it arrives, and JSON in it as it is passed on. Pure; any thread."""

import json
import math
import re
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from json.encoder import encode_basestring
from typing import Any, NoReturn, Protocol, TypeVar

# Clients' own parsers give up at about this depth (Rust's serde_json at 128).
MAX_DEPTH = 128


def arguments_object(text: str) -> dict[str, Any]:
    """Return the arguments of a call as an object."""
    try:
        value = json.loads(text, parse_constant=_refuse, parse_float=_finite)
    except RecursionError:
        raise ValueError(f"the arguments are nested more than {MAX_DEPTH} levels deep") from None
    if not isinstance(value, dict):
        raise ValueError("the arguments of a tool call must be a JSON object")
    if _is_deeper(value, MAX_DEPTH):
        raise ValueError(f"the arguments are nested more than {MAX_DEPTH} levels deep")
    text.encode("utf-8")  # refuses half of a surrogate pair
    if "\\u" in text:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    return value


def arguments_text(value: object) -> str:
    """Return the arguments that a parser found as the text of one JSON object."""
    if isinstance(value, str):
        text = value.strip() or "{}"
    else:
        try:
            text = "{}" if value is None else json.dumps(value, ensure_ascii=False, allow_nan=False)
        except (TypeError, RecursionError) as error:
            raise ValueError(f"the arguments cannot be written as JSON: {error}") from error
    arguments_object(text)
    return text


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError("a number is too large")
    return value


def _is_deeper(value: object, limit: int) -> bool:
    """Whether objects and lists are nested more than ``limit`` deep; level by level."""
    level = [value]
    for _ in range(limit):
        level = [
            inner
            for key in level
            for inner in (
                key.values() if isinstance(key, dict) else key if isinstance(key, list) else ()
            )
            if isinstance(inner, (dict, list))
        ]
        if not level:
            return False
    return True


# A reader is a generator: it takes characters, yields where it needs more, and continues when
# they have arrived. So it reads the text only once, however the text is cut.

_T = TypeVar("_T")

Waiting = Generator[None, None, _T]
"""A part of a reader; yields wherever more text is needed."""


class IrregularCall(Exception):
    """The text leaves the regular form of its format: nothing more is certain."""


@dataclass(frozen=True, slots=True)
class CallStart:
    """A call begins; the arguments that follow belong to it."""

    name: str


CallPart = CallStart | str
"""The beginning of a call, or more text of its final arguments."""


class ArrivingText:
    """Text that arrives piece by piece and is taken from the front."""

    __slots__ = ("_place", "_text")

    def __init__(self) -> None:
        self._text = ""
        self._place = 0

    def append(self, text: str) -> None:
        """Add text at the end."""
        # What is left was searched already: at most the beginning of a mark.
        self._text = self._text[self._place :] + text
        self._place = 0

    def peek(self) -> Waiting[str]:
        """Return the next character without taking it."""
        while self._place >= len(self._text):
            yield
        return self._text[self._place]

    def take(self) -> Waiting[str]:
        """Take the next character."""
        char = yield from self.peek()
        self._place += 1
        return char

    def take_run(self, pattern: re.Pattern[str]) -> str:
        """Take the characters that a pattern matches, as far as they have come; it may be none."""
        match = pattern.match(self._text, self._place)
        if match is None:
            return ""
        self._place = match.end()
        return match[0]

    def skip_space(self) -> Waiting[str]:
        """Take white space; return the character after it without taking it."""
        while (yield from self.peek()).isspace():
            self._place += 1
        return self._text[self._place]

    def expect(self, mark: str) -> Waiting[None]:
        """Take exactly this text."""
        for wanted in mark:
            if (yield from self.take()) != wanted:
                raise IrregularCall

    def pass_on(self, marks: Sequence[str], take: Callable[[str], object]) -> Waiting[str]:
        """Pass text on until the first of some marks, and take that mark."""
        while True:
            text, place = self._text, self._place
            end, mark = -1, ""
            for start in marks:
                at = text.find(start, place)
                if at >= 0 and not 0 <= end < at:
                    end, mark = at, start
            if end < 0:
                end = _end_before_mark(text, place, marks)
            if end > place:
                take(text[place:end])
            self._place = end + len(mark)
            if mark:
                return mark
            yield

    def until(self, *marks: str) -> Waiting[str]:
        """Return the text before the first of some marks, and take the mark."""
        parts: list[str] = []
        yield from self.pass_on(marks, parts.append)
        return "".join(parts)

    def skip_past(self, *marks: str) -> Waiting[str]:
        """Take text up to and including the first of some marks; return the mark."""
        return (yield from self.pass_on(marks, len))


def _end_before_mark(text: str, place: int, marks: Sequence[str]) -> int:
    """Return where the last characters begin that could be the beginning of a mark."""
    end = len(text)
    for begin in range(max(place, end - max(map(len, marks)) + 1), end):
        rest = text[begin:]
        for mark in marks:
            if mark.startswith(rest):
                return begin
    return end


class CallWriter:
    """Collects the parts that a reader finds, until they are taken."""

    __slots__ = ("_owed", "_parts", "_texts")

    def __init__(self) -> None:
        self._parts: list[CallPart] = []
        self._texts: list[str] = []
        self._owed = ""

    def start(self, name: str) -> None:
        """Begin the next call; the one before it is complete."""
        self.write(self._owed)
        self._owed = ""
        self._join()
        self._parts.append(CallStart(name))

    def write(self, text: str) -> None:
        """Add to the arguments of the call."""
        if text:
            self._texts.append(text)

    def owe(self, text: str) -> None:
        """Note the text that completes the arguments.

        It is written when another call begins, or when the call has been parsed. So if the text
        turns out not to be a call, its arguments were never complete JSON.
        """
        self._owed = text

    def calls(self) -> list[dict[str, str]]:
        """Return the calls, where all are complete and no part was taken; else ``ValueError``."""
        if not self._owed:
            raise ValueError("the call is not complete")
        self.write(self._owed)
        calls: list[dict[str, str]] = []
        for part in self.take_parts():
            if isinstance(part, CallStart):
                calls.append({"name": part.name, "arguments": ""})
            else:
                calls[-1]["arguments"] += part
        return calls

    def take_parts(self) -> list[CallPart]:
        """Return the parts found since this was last called."""
        self._join()
        parts, self._parts = self._parts, []
        return parts

    def _join(self) -> None:
        if self._texts:
            self._parts.append("".join(self._texts))
            self._texts.clear()


Format = Callable[[ArrivingText, CallWriter], Waiting[None]]
"""Reads the calls of one text."""


def _alone(read: Format, text: ArrivingText, out: CallWriter) -> Waiting[None]:
    """Read calls after which nothing but white space may come."""
    yield from read(text, out)
    yield from text.skip_space()
    raise IrregularCall


def whole_calls(read: Format, raw: str) -> list[dict[str, str]]:
    """Return the calls of a whole text: a format that only we know has no other parser.

    Raises ``ValueError`` for a text that leaves the format or ends inside a call.
    """
    text, out = ArrivingText(), CallWriter()
    text.append(raw)
    try:
        next(_alone(read, text, out))
    except IrregularCall:
        raise ValueError("the text is not a call in the model's format") from None
    return out.calls()


class CallReader:
    """Reads the calls of one text while it is written."""

    __slots__ = ("_arriving", "_reading", "_writer", "is_over")

    def __init__(self, read: Format) -> None:
        self._arriving = ArrivingText()
        self._writer = CallWriter()
        self._reading = read(self._arriving, self._writer)
        self.is_over = False

    def feed(self, text: str) -> list[CallPart]:
        """Take more text; return the parts that have become certain."""
        if not self.is_over:
            self._arriving.append(text)
            try:
                next(self._reading)
            except (StopIteration, IrregularCall):
                self.is_over = True
        return self._writer.take_parts()


CallParser = Callable[[str, str | None], list[tuple[str, object]]]
"""From a call's raw text, and the name its tag gave, to (name, arguments): an object or its JSON
text. Raises ``ValueError`` for text that is not a call."""

NewReader = Callable[[str | None], CallReader | None]
"""Maps the name in a call's tag to a reader of its text; None where there is no reader."""


def no_reader(name: str | None) -> CallReader | None:
    """Return None: calls are sent when they are complete."""
    return None


# The rewritten text is exactly what ``json.dumps`` makes of the parsed value, except that a
# repeated key stays repeated. Text of strings is passed on at once; numbers, ``true``, ``false``
# and ``null`` when they are complete.

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

"""The text of a call while it arrives, and the parts found in it. Pure; any thread."""

import json
import math
import re
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Any, NoReturn, TypeVar

# Clients' own parsers give up at about this depth (Rust's serde_json at 128).
MAX_DEPTH = 128

_T = TypeVar("_T")
Waiting = Generator[None, None, _T]
"""A part of a reader, which yields where it needs more text; see ``engine.output.tool_calls``."""


def arguments_object(text: str) -> dict[str, Any]:
    """Return the arguments of a call as an object."""
    try:
        value = json.loads(text, parse_constant=_refuse, parse_float=_finite)
    except RecursionError:
        raise ValueError(f"the arguments are nested more than {MAX_DEPTH} levels deep") from None
    if not isinstance(value, dict):
        raise ValueError("the arguments of a tool call must be a JSON object")
    if is_deeper(value, MAX_DEPTH):
        raise ValueError(f"the arguments are nested more than {MAX_DEPTH} levels deep")
    text.encode("utf-8")  # refuses half of a surrogate pair
    if "\\u" in text:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    return value


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError("a number is too large")
    return value


def is_deeper(value: object, limit: int) -> bool:
    """Return whether objects and lists are nested more than ``limit`` deep; level by level."""
    level = [value] if isinstance(value, (Mapping, list)) else []
    for _ in range(limit):
        nodes = [node.values() if isinstance(node, Mapping) else node for node in level]
        level = [x for node in nodes for x in node if isinstance(x, (Mapping, list))]
    return bool(level)


class IrregularCall(ValueError):
    """The text leaves the form of its format: it is not a call."""


class CallEnd(Enum):
    """How the text of a call ended; the value stands behind the text while it is read.

    Half a surrogate pair, which decoded text never contains.
    """

    TAG = chr(0xDFFD)
    """By the mark that closes a call, or by the next call."""
    EOS = chr(0xDFFE)
    """With the answer, where the model ended it."""
    CUT = chr(0xDFFF)
    """With the answer, by a stop or a limit."""


CALL_ENDS = tuple(end.value for end in CallEnd)


@dataclass(frozen=True, slots=True)
class CallStart:
    """A call begins; the arguments that follow belong to it."""

    name: str


CallPart = CallStart | str
"""The beginning of a call, or more text of its final arguments."""


class StreamBuffer:
    """Text that arrives piece by piece and is taken from the front."""

    def __init__(self) -> None:
        self._text = ""
        self._index = 0
        self._before = 0
        self.repairs = 0

    @property
    def position(self) -> int:
        return self._before + self._index

    def append(self, text: str) -> None:
        self._text = self._text[self._index :] + text
        self._before += self._index
        self._index = 0

    def repair(self) -> None:
        """Count a bracket that is repaired; raises ``IrregularCall`` at the second one."""
        self.repairs += 1
        if self.repairs > 1:
            raise IrregularCall("more than one bracket is missing or superfluous")

    def peek(self, offset: int = 0) -> Waiting[str]:
        while self._index + offset >= len(self._text):
            if self._text.endswith(CALL_ENDS):
                raise IrregularCall("the call is not complete")
            yield
        return self._text[self._index + offset]

    def take(self) -> Waiting[str]:
        """Take the next character; the end of the text cannot be taken."""
        char = yield from self.peek()
        if char in CALL_ENDS:
            raise IrregularCall("the call is not complete")
        self._index += 1
        return char

    def take_run(self, pattern: re.Pattern[str]) -> str:
        """Take the characters that a pattern matches, as far as they have come; it may be none."""
        match = pattern.match(self._text, self._index)
        if match is None:
            return ""
        self._index = match.end()
        return match[0]

    def skip_space(self) -> Waiting[str]:
        """Take white space; return the character after it without taking it."""
        while (yield from self.peek()).isspace():
            self._index += 1
        return self._text[self._index]

    def after_space(self, offset: int) -> Waiting[int]:
        """Return the offset of the first character from there on that is not white space."""
        while (yield from self.peek(offset)).isspace():
            offset += 1
        return offset

    def find_mark(self, marks: Sequence[str], offset: int = 0) -> Waiting[str]:
        """Return the longest mark that begins at an offset, without taking it; empty if none."""
        longest = max(map(len, marks), default=0)
        while True:
            start = self._index + offset
            rest = self._text[start : start + longest]
            found = max((mark for mark in marks if rest.startswith(mark)), key=len, default="")
            if not any(mark != found and mark.startswith(rest) for mark in marks):
                return found
            yield

    def has_later(self, marks: Sequence[str], offset: int) -> Waiting[bool]:
        """Return whether one of some marks comes anywhere behind an offset."""
        longest = max(map(len, marks))
        while True:
            start = self._index + offset
            if any(self._text.find(mark, start) >= 0 for mark in marks):
                return True
            if self._text.endswith(CALL_ENDS):
                return False
            offset = max(offset, len(self._text) - self._index - longest + 1)
            yield

    def skip(self, count: int) -> None:
        self._index += count

    def skip_marks(self, marks: Sequence[str]) -> Waiting[str]:
        """Take white space and marks; return the character after them without taking it."""
        while True:
            char = yield from self.skip_space()
            mark = yield from self.find_mark(marks)
            if not mark:
                return char
            self.skip(len(mark))

    def expect(self, mark: str) -> Waiting[None]:
        for expected in mark:
            if (yield from self.take()) != expected:
                raise IrregularCall(f"{mark} is missing")

    def pass_until(self, marks: Sequence[str], take: Callable[[str], object]) -> Waiting[str]:
        """Pass text on until the first of some marks, which is not taken; return the mark."""
        while True:
            text, start = self._text, self._index
            found = _any_of(tuple(marks)).search(text, start)
            if found is not None:
                end, mark = found.start(), found[0]
            elif text.endswith(CALL_ENDS):
                raise IrregularCall("the call is not complete")
            else:
                end, mark = _end_before_mark(text, start, marks), ""
            if end > start:
                take(text[start:end])
            self._index = end
            if mark:
                return mark
            yield

    def text_before(self, marks: Sequence[str]) -> Waiting[str]:
        """Return the text before the first of some marks, which is not taken."""
        parts: list[str] = []
        yield from self.pass_until(marks, parts.append)
        return "".join(parts)

    def until(self, mark: str) -> Waiting[str]:
        """Return the text before a mark, and take the mark."""
        text = yield from self.text_before((mark,))
        self._index += len(mark)
        return text


@lru_cache(maxsize=256)
def _any_of(marks: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(map(re.escape, sorted(marks, key=len, reverse=True))))


def _end_before_mark(text: str, start: int, marks: Sequence[str]) -> int:
    """Return where the last characters begin that could be the beginning of a mark."""
    end = len(text)
    firsts = {mark[0] for mark in marks}
    for begin in range(max(start, end - max(map(len, marks)) + 1), end):
        if text[begin] in firsts and any(mark.startswith(text[begin:]) for mark in marks):
            return begin
    return end


class CallWriter:
    """Collects the parts that a reader finds, until they are taken."""

    def __init__(self) -> None:
        self._parts: list[CallPart] = []
        self._pending = ""
        self.count = self.whole = self.end = self.nested = 0

    def start(self, name: str) -> None:
        """Begin the next call; the one before it is complete."""
        self.close()
        self._parts.append(CallStart(name))
        self.count += 1

    def keep(self, text: "StreamBuffer") -> None:
        """Note that the calls so far stand, and that other text may follow from here on."""
        self.whole, self.end = self.count, text.position

    def write(self, text: str) -> None:
        if text:
            self._parts.append(text)

    def defer(self, text: str) -> None:
        """Note the text that completes the arguments; it is written once the call is certain."""
        self._pending = text

    def close(self) -> None:
        self.write(self._pending)
        self._pending = ""

    def take_parts(self) -> list[CallPart]:
        parts, self._parts = self._parts, []
        return parts


ReadCalls = Callable[[StreamBuffer, CallWriter], Waiting[None]]
"""Reads the calls of one text up to its end; raises ``IrregularCall`` for any other text."""


class CallReader:
    """Reads the calls of one text while it is written."""

    def __init__(self, read: ReadCalls) -> None:
        self._buffer = StreamBuffer()
        self._writer = CallWriter()
        self._reading = read(self._buffer, self._writer)
        self._is_over = False
        self.count = self.end = 0

    @property
    def is_in_nested_call(self) -> bool:
        """Whether the text is inside a call that is quoted in a value."""
        return not self._is_over and self._writer.nested > 0

    def feed(self, text: str) -> list[CallPart]:
        if not self._is_over:
            self._buffer.append(text)
            self._read()
        return self._writer.take_parts()

    def finish(self, ending: CallEnd) -> list[CallPart]:
        """Return the last parts; raises ``IrregularCall`` if the text has no call."""
        is_whole = False
        if not self._is_over:
            self._buffer.append(ending.value)
            is_whole = self._read()
        writer = self._writer
        if is_whole:
            writer.whole, writer.end = writer.count, self._buffer.position
        if not writer.whole:
            raise IrregularCall("the text is not a call")
        self.count, self.end = writer.whole, writer.end
        if writer.whole == writer.count:
            writer.close()
        return writer.take_parts()

    def _read(self) -> bool:
        """Read on; return whether the whole text was read."""
        try:
            next(self._reading)
        except StopIteration:
            self._is_over = True
            return True
        except IrregularCall:
            self._is_over = True
        return False


NewReader = Callable[[str | None], CallReader]
"""Makes the reader of a call's text, from the name in the call's tag, if it has one."""


def not_a_call(name: str | None = None) -> CallReader:
    """Return a reader to which no text is a call."""

    def read(text: StreamBuffer, out: CallWriter) -> Waiting[None]:
        yield from text.text_before(CALL_ENDS)
        raise IrregularCall("the model's calls have no known format")

    return CallReader(read)

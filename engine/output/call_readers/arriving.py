"""The text of a call while it arrives, and the parts that a reader has found in it.

A reader is a generator: it takes characters, yields where it needs more, and continues when they
have arrived. So it reads the text only once, however the text is cut. Pure; belongs to the thread
that feeds it.
"""

import re
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import TypeVar

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
        found = pattern.match(self._text, self._place)
        if found is None:
            return ""
        self._place = found.end()
        return found[0]

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
            for one in marks:
                at = text.find(one, place)
                if at >= 0 and not 0 <= end < at:
                    end, mark = at, one
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

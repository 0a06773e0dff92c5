"""The stop matcher of one channel: text goes in piece by piece, safe text comes out. Pure.

It holds back exactly what could still become a stop, and decides the earliest match to complete
(the longest if several complete together, then list order), however the text is cut.
"""

from array import array
from dataclasses import dataclass
from functools import lru_cache

from engine.stopping.rules import StopRules


@dataclass(frozen=True, slots=True)
class Match:
    """A stop that completed."""

    rule: int
    value: str
    offset: int
    dropped: str


@lru_cache(maxsize=256)
def _failures(string: str) -> "array[int]":
    """Return the failure function of Knuth, Morris and Pratt: the longest border of each prefix."""
    failures = array("H", [0]) * len(string)
    length = 0
    for index in range(1, len(string)):
        while length and string[length] != string[index]:
            length = failures[length - 1]
        length += string[length] == string[index]
        failures[index] = length
    return failures


class StopMatcher:
    """Looks for stop strings in one channel's text."""

    __slots__ = ("_failures", "_firsts", "_strings", "held", "match", "progress", "seen")

    def __init__(self, strings: tuple[str, ...]) -> None:
        self._strings = strings
        self._failures = tuple(map(_failures, strings))
        self._firsts = frozenset(string[0] for string in strings)
        self.restart()

    def restart(self) -> None:
        self.match: Match | None = None
        self.seen = 0
        self._reset()

    def _reset(self) -> None:
        self.held = ""
        self.progress = (0,) * len(self._strings)

    def flush(self) -> str:
        """Return the held text; it can no longer become a stop."""
        held = self.held
        self._reset()
        return held

    def feed(self, piece: str, *, is_armed: bool = True) -> str:
        """Take the next piece and return the text that is now safe to show."""
        if not self.held and self._firsts.isdisjoint(piece):
            self.seen += len(piece)
            return piece
        strings, failures, firsts = self._strings, self._failures, self._firsts
        lengths = list(self.progress)
        is_idle = not self.held
        for index, char in enumerate(piece):
            if is_idle and char not in firsts:
                continue
            rule = -1
            for number, string in enumerate(strings):
                length = lengths[number]
                while length and string[length] != char:
                    length = failures[number][length - 1]
                length += string[length] == char
                if length == len(string):
                    if is_armed and (rule < 0 or length > len(strings[rule])):
                        rule = number
                    length = failures[number][length - 1]
                lengths[number] = length
            if rule >= 0:
                return self._take_match(rule, piece, index + 1)
            is_idle = not any(lengths)
        self.progress = tuple(lengths)
        self.seen += len(piece)
        text = self.held + piece
        end = len(text) - max(lengths)
        self.held = text[end:]
        return text[:end]

    def _take_match(self, rule: int, piece: str, end: int) -> str:
        """Note the stop that ends before a piece's character ``end``; return the text before it."""
        value = self._strings[rule]
        text = self.held + piece
        begin = len(self.held) + end - len(value)
        self.match = Match(rule, value, self.seen - len(self.held) + begin, text[begin:])
        self.seen += end
        self._reset()
        return text[:begin]


def matcher_of(rules: StopRules, numbers: tuple[int, ...]) -> StopMatcher:
    """Return a matcher of a request's stops with these numbers."""
    return StopMatcher(tuple(rules.stops[number].text for number in numbers))

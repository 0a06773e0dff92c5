"""The stop matcher of one channel: text goes in piece by piece, safe text comes out. Pure.

It holds back exactly what could still become a stop, and decides the earliest match to complete
(the longest if several complete together, then list order), however the text is cut.
"""

from dataclasses import dataclass

from engine.stopping.rules import StopRules


@dataclass(frozen=True, slots=True)
class Match:
    """A stop that completed."""

    rule: int
    value: str
    offset: int
    dropped: str


def _begun(string: str, text: str) -> int:
    """Return how many of a stop's first characters, but not all, a text ends with."""
    start = max(0, len(text) - len(string) + 1)
    while (start := text.find(string[0], start)) >= 0:
        if string.startswith(text[start:]):
            return len(text) - start
        start += 1
    return 0


class StopMatcher:
    """Looks for stop strings in one channel's text."""

    __slots__ = ("_firsts", "_strings", "held", "match", "progress", "seen")

    def __init__(self, strings: tuple[str, ...]) -> None:
        self._strings = strings
        self._firsts = frozenset(string[0] for string in strings)
        self.restart()

    def restart(self) -> None:
        """Begin another text."""
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
        text, held = self.held + piece, len(self.held)
        completed = [
            (begin + len(string), -len(string), number)
            for number, string in enumerate(self._strings if is_armed else ())
            if (begin := text.find(string, max(0, held - len(string) + 1))) >= 0
        ]
        if completed:
            end, length, number = min(completed)
            begin = end + length
            dropped = text[begin:]
            self.match = Match(number, self._strings[number], self.seen - held + begin, dropped)
            self.seen += end - held
            self._reset()
            return text[:begin]
        self.seen += len(piece)
        self.progress = tuple(_begun(string, text) for string in self._strings)
        safe = len(text) - max(self.progress)
        self.held = text[safe:]
        return text[:safe]


def matcher_of(rules: StopRules, numbers: tuple[int, ...]) -> StopMatcher:
    """Return a matcher of a request's stops with these numbers."""
    return StopMatcher(tuple(rules.stops[number].text for number in numbers))

"""The stop matcher of one channel: text goes in piece by piece, safe text comes out.

Holds back exactly what could still become a stop and decides the earliest match to complete
(the longest of those that complete together, then list order). Its result does not depend on
how the text is cut into pieces. Pure; belongs to the thread that feeds it.
"""

from dataclasses import dataclass

from engine.stopping.automaton import ROOT, Automaton, automaton
from engine.stopping.record import Channel
from engine.stopping.rules import StopRules

_SHORT = 12


@dataclass(frozen=True, slots=True)
class Match:
    """A stop that completed.

    Attributes:
        rule: Index of the string in the matcher's list.
        value: The string.
        offset: Code points of the channel's text before it.
        dropped: The text that was cut off: the stop and the rest of its last piece (only the rest
            if the stop is kept).
    """

    rule: int
    value: str
    offset: int
    dropped: str


class StopMatcher:
    """Looks for stop strings in one channel's text.

    Attributes:
        match: The match, once there is one; nothing may be fed after it.
        seen: Code points fed so far.
    """

    __slots__ = ("_automaton", "_node", "match", "seen")

    def __init__(self, strings: tuple[str, ...]) -> None:
        self._automaton: Automaton = automaton(strings)
        self._node = ROOT
        self.match: Match | None = None
        self.seen = 0

    @property
    def held(self) -> str:
        """The text that is being held back."""
        return self._automaton.prefix(self._node)

    @property
    def progress(self) -> tuple[int, ...]:
        """For each string, how many of its first characters the text now ends with."""
        return self._automaton.progress(self._node)

    def feed(self, piece: str, *, is_armed: bool = True) -> str:
        """Take the next piece and return the text that is now safe to show.

        Args:
            piece: The next characters of the channel, any number.
            is_armed: Whether a stop that completes in this piece counts.
        """
        found = self._automaton
        start = node = self._node
        begin = 0
        rows = found.rows
        row = rows[node]
        if node == ROOT:
            if len(piece) <= _SHORT:
                # For a token's few characters, a loop is faster than a search.
                for char in piece:
                    if char in row:
                        break
                    begin += 1
                else:
                    self.seen += begin
                    return piece
            else:
                first = found.find_first(piece)
                if first is None:
                    self.seen += len(piece)
                    return piece
                begin = first.start()
        output = found.output
        for index in range(begin, len(piece)):
            char = piece[index]
            following = row.get(char)
            if following is None:
                if node == ROOT:
                    continue
                following = found.step(node, char)
            node = following
            if output[node] >= 0:
                if is_armed:
                    return self._matched(output[node], found.prefix(start), piece, index + 1)
                node = found.resume[node]
            row = rows[node]
        self._node = node
        self.seen += len(piece)
        text = found.prefix(start) + piece if start else piece
        return text[: len(text) - found.depth[node]] if node else text

    def _matched(self, rule: int, held: str, piece: str, consumed: int) -> str:
        value = self._automaton.strings[rule]
        text = held + piece
        end = len(held) + consumed
        begin = end - len(value)
        self.match = Match(rule, value, self.seen - len(held) + begin, text[begin:])
        self.seen += consumed
        self._node = ROOT
        return text[:begin]

    def would_match(self, piece: str) -> bool:
        """Return whether a stop would complete in this piece; nothing changes."""
        node, seen = self._node, self.seen
        self.feed(piece)
        found = self.match is not None
        self._node, self.seen, self.match = node, seen, None
        return found

    def restart(self) -> None:
        """Begin another text."""
        self._node = ROOT
        self.match = None
        self.seen = 0

    def flush(self) -> str:
        """Return what was held back; it can no longer become a stop."""
        held = self.held
        self._node = ROOT
        return held


def matcher_of(rules: StopRules, numbers: tuple[int, ...]) -> StopMatcher:
    """Return a matcher of a request's stop strings with these numbers."""
    return StopMatcher(tuple(rules.strings[number] for number in numbers))


def prepared(rules: StopRules) -> tuple[Automaton, ...]:
    """Return the automata of a request's stops, one for each list that a channel looks for.

    While they are kept, every matcher of these stops uses them instead of making its own.
    """
    lists = {rules.counting_in(channel) for channel in Channel}
    return tuple(
        automaton(tuple(rules.strings[number] for number in numbers))
        for numbers in lists
        if numbers
    )

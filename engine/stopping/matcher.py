"""The stop matcher of one channel: text goes in piece by piece, safe text comes out.

Pure; an automaton is shared between matchers on any thread, a matcher belongs to the thread that
feeds it.
"""

import re
import threading
import weakref
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from dataclasses import dataclass

from engine.stopping.record import Channel
from engine.stopping.rules import StopRules

# Aho–Corasick automaton over the stop strings of a request.
#
# One node per prefix that the text has reached; the depth of the current node is exactly the
# number of characters that could still become a stop. Nodes are made when a text first reaches
# them: making an automaton costs a sort of its list, however long the strings are, and a text
# pays a constant amount per character.

ROOT = 0
# Beyond this many characters of stops, the least recently used lists are dropped. A list takes at
# most some 300 bytes per character, and only once a text has spelled all of it.
_KEPT_CHARS = 1 << 18
_KEPT_LISTS = 256


class Automaton:
    """Finds all occurrences of a set of strings, one character at a time.

    Nodes are integers; ``ROOT`` is the empty prefix. The lists are indexed by node and only grow.

    Attributes:
        strings: The strings, in the caller's order.
        rows: Known transitions of each node; a missing character means ``step`` decides. The
            root's are all there are.
        depth: Length of the node's prefix.
        output: Index of the longest string that ends at the node, or -1.
        resume: The longest suffix of the node's prefix that a string can still grow from.
        find_first: Finds the next character that starts a string (a bound ``re`` search).
    """

    __slots__ = ("__weakref__", "_all_chars", "_fail", "_growing", "_next_char", "_order", "_other",
                 "_sorted", "_spans", "depth", "find_first", "output", "resume", "rows",
                 "strings")  # fmt: skip

    def __init__(self, strings: tuple[str, ...]) -> None:
        self.strings = strings
        # Sorted, strings with a common prefix are neighbours, the prefix itself first: a node is a
        # span.
        self._order = sorted(range(len(strings)), key=strings.__getitem__)
        self._sorted = [strings[index] for index in self._order]
        # Searching it costs a microsecond; a set of its characters would cost far more to make.
        self._all_chars = "".join(strings)
        self._growing = threading.Lock()
        self.rows: list[dict[str, int]] = []
        self.depth: list[int] = []
        self.output: list[int] = []
        self.resume: list[int] = []
        self._spans: list[tuple[int, int]] = []
        self._fail: list[int] = []
        # The next node along the failure links that a string outside of this node's span passes.
        self._other: list[int] = []
        # The one character that can follow; None where there are several or none.
        self._next_char: list[str | None] = []
        self._add((0, len(strings)), 0, ROOT)
        self.output[ROOT] = -1
        self.resume[ROOT] = ROOT
        for char in {string[0] for string in strings if string}:
            span = self._span(ROOT, char)
            assert span is not None, "a string starts with it"
            self.rows[ROOT][char] = self._add(span, 1, ROOT)
        firsts = "".join(re.escape(char) for char in sorted(self.rows[ROOT]))
        self.find_first = re.compile(f"[{firsts}]" if firsts else r"(?!)").search

    def _add(self, span: tuple[int, int], depth: int, fail: int) -> int:
        """Add the node of the strings of a span, which share their first ``depth`` characters."""
        first, end = span
        node = len(self.rows)
        can_grow = first < end and len(self._sorted[end - 1]) > depth
        ends = first < end and len(self._sorted[first]) == depth
        following = self._sorted[end - 1][depth] if can_grow and not ends else None
        if following is not None and self._sorted[first][depth] != following:
            following = None
        outer = self._spans[fail] if node else span
        is_other = outer[0] < first or outer[1] > end
        self.depth.append(depth)
        self.output.append(self._order[first] if ends else self.output[fail] if node else -1)
        self.resume.append(node if can_grow or not node else self.resume[fail])
        self._spans.append(span)
        self._fail.append(fail)
        self._other.append(fail if is_other or not node else self._other[fail])
        self._next_char.append(following)
        self.rows.append({})
        return node

    def _span(self, node: int, char: str) -> tuple[int, int] | None:
        """Return the strings that continue a node's prefix with a character; None if none does."""
        following = self._next_char[node]
        if following is not None:
            return self._spans[node] if char == following else None
        first, end = self._spans[node]
        depth = self.depth[node]

        def at_depth(string: str) -> str:
            return string[depth : depth + 1]

        begin = bisect_left(self._sorted, char, first, end, key=at_depth)
        end = bisect_right(self._sorted, char, begin, end, key=at_depth)
        return (begin, end) if begin < end else None

    def step(self, node: int, char: str) -> int:
        """Return the node that follows ``node`` on a character its row does not know yet."""
        if char not in self._all_chars:
            return ROOT
        with self._growing:
            return self._followed(node, char)

    def _followed(self, node: int, char: str) -> int:
        rows, fail = self.rows, self._fail
        grown: list[tuple[int, tuple[int, int]]] = []
        at = node
        while True:
            target = rows[at].get(char)
            if target is not None:
                break
            if at == ROOT:
                target = ROOT
                break
            span = self._span(at, char)
            if span is not None:
                grown.append((at, span))
            at = fail[at]
        # The failure link of a longer prefix leads to the shorter one extended by the same
        # character.
        for shorter, span in reversed(grown):
            target = self._add(span, self.depth[shorter] + 1, target)
            rows[shorter][char] = target
        if node != ROOT:
            # Kept, so that a text that often returns to this prefix searches only once.
            rows[node][char] = target
        return target

    def prefix(self, node: int) -> str:
        """Return the text of a node: the characters that are held back there."""
        if node == ROOT:
            return ""
        return self._sorted[self._spans[node][0]][: self.depth[node]]

    def progress(self, node: int) -> tuple[int, ...]:
        """Return for each string how many of its first characters the text now ends with."""
        reached = [0] * len(self.strings)
        left = len(reached)
        while node != ROOT and left:
            depth = self.depth[node]
            for place in range(*self._spans[node]):
                index = self._order[place]
                if not reached[index]:
                    reached[index] = depth
                    left -= 1
            node = self._other[node]
        return tuple(reached)


class _Automata:
    """The automata that are in use or were used recently, one per list. Any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._in_use: weakref.WeakValueDictionary[tuple[str, ...], Automaton] = (
            weakref.WeakValueDictionary()
        )
        self._kept: OrderedDict[tuple[str, ...], Automaton] = OrderedDict()
        self._chars = 0

    def of(self, strings: tuple[str, ...]) -> Automaton:
        """Return the automaton of a list."""
        with self._lock:
            automaton = self._in_use.get(strings)
            if automaton is not None and strings in self._kept:
                self._kept.move_to_end(strings)
                return automaton
        # Made without the lock, which the engine thread may want meanwhile.
        made = automaton or Automaton(strings)
        with self._lock:
            automaton = self._in_use.setdefault(strings, made)
            if strings not in self._kept:
                self._kept[strings] = automaton
                self._chars += sum(map(len, strings))
                while self._chars > _KEPT_CHARS or len(self._kept) > _KEPT_LISTS:
                    gone, _ = self._kept.popitem(last=False)
                    self._chars -= sum(map(len, gone))
            return automaton


_automata = _Automata()


def automaton(strings: tuple[str, ...]) -> Automaton:
    """Return the automaton of these strings; equal lists share one while any is in use."""
    return _automata.of(strings)


# Holds back exactly what could still become a stop and decides the earliest match to complete
# (the longest of those that complete together, then list order). Its result does not depend on
# how the text is cut into pieces.

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
        automaton = self._automaton
        start = node = self._node
        begin = 0
        rows = automaton.rows
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
                first = automaton.find_first(piece)
                if first is None:
                    self.seen += len(piece)
                    return piece
                begin = first.start()
        output = automaton.output
        for index in range(begin, len(piece)):
            char = piece[index]
            following = row.get(char)
            if following is None:
                if node == ROOT:
                    continue
                following = automaton.step(node, char)
            node = following
            if output[node] >= 0:
                if is_armed:
                    return self._matched(output[node], automaton.prefix(start), piece, index + 1)
                node = automaton.resume[node]
            row = rows[node]
        self._node = node
        self.seen += len(piece)
        text = automaton.prefix(start) + piece if start else piece
        return text[: len(text) - automaton.depth[node]] if node else text

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
        has_matched = self.match is not None
        self._node, self.seen, self.match = node, seen, None
        return has_matched

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
    """Return a matcher of a request's stops with these numbers."""
    return StopMatcher(_texts(rules, numbers))


def prepared(rules: StopRules) -> tuple[Automaton, ...]:
    """Return the automata of a request's stops, one for each list that a channel looks for.

    While they are kept, every matcher of these stops uses them instead of making its own.
    """
    lists = {rules.counting_in(channel) for channel in Channel}
    return tuple(automaton(_texts(rules, numbers)) for numbers in lists if numbers)


def _texts(rules: StopRules, numbers: tuple[int, ...]) -> tuple[str, ...]:
    return tuple(rules.stops[number].text for number in numbers)

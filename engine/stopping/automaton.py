"""Aho–Corasick automaton over the stop strings of a request.

One node per distinct prefix; the depth of the current node is exactly the number of characters
that could still become a stop. Pure Python, shared between matchers, knows nothing of channels.
"""

import re
from collections import deque
from functools import lru_cache

ROOT = 0
_CACHEABLE_CHARS = 4096


class Automaton:
    """Finds all occurrences of a set of strings, one character at a time.

    Nodes are integers; ``ROOT`` is the empty prefix. The lists are indexed by node.

    Attributes:
        strings: The strings, in the caller's order.
        rows: Known transitions of each node; a missing character means ``step`` decides.
        depth: Length of the node's prefix.
        output: Index of the longest string that ends at the node, or -1.
        resume: The longest suffix of the node's prefix that a string can still grow from.
        find_first: Finds the next character that starts a string (a bound ``re`` search).
    """

    __slots__ = ("_alphabet", "_fail", "_owner", "depth", "find_first", "output", "resume",
                 "rows", "strings")  # fmt: skip

    def __init__(self, strings: tuple[str, ...]) -> None:
        self.strings = strings
        self.rows: list[dict[str, int]] = [{}]
        self.depth = [0]
        self.output = [-1]
        self._owner = [-1]
        for index, string in enumerate(strings):
            self._insert(index, string)
        self._fail = [ROOT] * len(self.rows)
        self.resume = [ROOT] * len(self.rows)
        self._link()
        self._alphabet = frozenset("".join(strings))
        firsts = "".join(re.escape(char) for char in sorted(self.rows[ROOT]))
        self.find_first = re.compile(f"[{firsts}]" if firsts else r"(?!)").search

    def _insert(self, index: int, string: str) -> None:
        node = ROOT
        for char in string:
            child = self.rows[node].get(char)
            if child is None:
                child = len(self.rows)
                self.rows[node][char] = child
                self.rows.append({})
                self.depth.append(self.depth[node] + 1)
                self.output.append(-1)
                self._owner.append(index)
            node = child
        if node != ROOT and self.output[node] < 0:
            self.output[node] = index

    def _link(self) -> None:
        """Compute failure links breadth first; rows still hold tree edges only."""
        queue = deque(self.rows[ROOT].values())
        for node in queue:
            self.resume[node] = node if self.rows[node] else ROOT
        while queue:
            node = queue.popleft()
            for char, child in self.rows[node].items():
                fail = self._fail[node]
                while fail != ROOT and char not in self.rows[fail]:
                    fail = self._fail[fail]
                fail = self.rows[fail].get(char, ROOT)
                self._fail[child] = fail
                if self.output[child] < 0:
                    self.output[child] = self.output[fail]
                self.resume[child] = child if self.rows[child] else self.resume[fail]
                queue.append(child)

    def step(self, node: int, char: str) -> int:
        """Return the node that follows ``node`` on a character its row does not know yet."""
        if char not in self._alphabet:
            return ROOT
        fail = node
        while fail != ROOT and char not in self.rows[fail]:
            fail = self._fail[fail]
        target = self.rows[fail].get(char, ROOT)
        # Remembered, so that a text which keeps coming back to this prefix pays once.
        self.rows[node][char] = target
        return target

    def prefix(self, node: int) -> str:
        """Return the text of a node: the characters that are held back there."""
        if node == ROOT:
            return ""
        return self.strings[self._owner[node]][: self.depth[node]]

    def progress(self, node: int) -> tuple[int, ...]:
        """Return for each string how many of its first characters the text now ends with."""
        reached = [0] * len(self.strings)
        while node != ROOT:
            prefix = self.prefix(node)
            for index, string in enumerate(self.strings):
                if not reached[index] and string.startswith(prefix):
                    reached[index] = len(prefix)
            node = self._fail[node]
        return tuple(reached)


@lru_cache(maxsize=64)
def _cached(strings: tuple[str, ...]) -> Automaton:
    return Automaton(strings)


def automaton(strings: tuple[str, ...]) -> Automaton:
    """Return the automaton of these strings; small ones are shared between requests."""
    if sum(map(len, strings)) > _CACHEABLE_CHARS:
        return Automaton(strings)
    return _cached(strings)

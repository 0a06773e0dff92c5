"""Measures for how long text is held back, while it grows at its end and shrinks at its beginning.

Pure; any thread.
"""

from collections import deque
from collections.abc import Sequence

from engine import TokenTrace, quoted, seconds


class HeldText:
    """The text that the stop matcher holds back, with the arrival time of each part."""

    def __init__(self) -> None:
        self.text = ""
        self._parts: deque[tuple[int, float]] = deque()  # the number of characters, their arrival

    @property
    def since_s(self) -> float | None:
        """The arrival of the oldest held character; None while nothing is held."""
        return self._parts[0][1] if self._parts else None

    def take(self, token: TokenTrace, time_s: float) -> list[tuple[int, float]]:
        """Note the held text after a token."""
        self.text = token.held
        if not token.held and not self._parts:
            return []  # this is the usual case
        if token.piece:
            self._parts.append((len(token.piece), time_s))
        surplus = sum(count for count, _ in self._parts) - len(token.held)
        if surplus < 0:  # text that was held back for a tag is not in a piece yet
            self._parts.append((-surplus, time_s))
        released: list[tuple[int, float]] = []
        while surplus > 0:
            count, since_s = self._parts.popleft()
            if count > surplus:
                self._parts.appendleft((count - surplus, since_s))
                count = surplus
            surplus -= count
            released.append((count, since_s))
        return released


def held_times(tokens: Sequence[TokenTrace]) -> list[tuple[str, float]]:
    """Return the texts that the matcher held back, with the seconds for each, longest first."""
    found: list[tuple[str, float]] = []
    held = HeldText()
    for token in tokens:
        before = held.text
        released = held.take(token, token.time_s)
        waited_s = token.time_s - released[0][1] if released else 0.0
        if before and not token.held.startswith(before):
            found.append((before, waited_s))
    if held.text and held.since_s is not None:
        found.append((held.text, tokens[-1].time_s - held.since_s))
    found.sort(key=lambda pair: -pair[1])
    return found


def held_words(tokens: Sequence[TokenTrace]) -> str:
    """Return in words how long text was held back because it could have become a stop."""
    waits = held_times(tokens)
    if not waits:
        return "No text was held back."
    longest, took_s = waits[0]
    return f"The longest wait was {seconds(took_s)}, of {quoted(longest, 40)}."

"""Keeps track of which tokens the text of an answer is made of.

Characters enter in the order of their tokens and leave in the same order: as text that goes out,
or as something that never does (a tag, a thought, a call, white space of the template, a stop).
Pure; belongs to the thread that feeds the answer. Used only by runs that ask for likelihoods.
"""

from collections import deque
from dataclasses import dataclass

from engine.stopping.record import Channel


@dataclass(frozen=True, slots=True)
class Source:
    """Consecutive characters that came with one token.

    Attributes:
        token: The token's index.
        start: The first of them, counted over all text that the token brought.
        text: The characters.
    """

    token: int
    start: int
    text: str


_Run = deque[Source]


class Sources:
    """The tokens of one answer's text."""

    __slots__ = ("_call", "_coming", "_counts", "_released", "_text")

    def __init__(self) -> None:
        self._coming: _Run = deque()
        self._call: _Run = deque()
        self._text: _Run = deque()
        self._released: list[Source] = []
        self._counts = (-1, 0)

    def add(self, token: int, text: str) -> None:
        """Take text that a token brought."""
        last, start = self._counts
        if last != token:
            start = 0
        self._counts = (token, start + len(text))
        if text:
            self._coming.append(Source(token, start, text))

    def skip(self, count: int) -> None:
        """Note that the next characters are structure, or white space of the template."""
        _move(self._coming, count, None)

    def deliver(self, count: int, channel: Channel) -> None:
        """Note that the next characters belong to a channel."""
        into = {Channel.TEXT: self._text, Channel.TOOL: self._call}.get(channel)
        _move(self._coming, count, into)

    def take_back_call(self) -> None:
        """Note that the open call turned out to be text, which comes next."""
        self._coming.extendleft(reversed(self._call))
        self._call.clear()

    def drop_call(self) -> None:
        """Note that the open call was one."""
        self._call.clear()

    def release(self, count: int) -> None:
        """Note that the next characters of the text have gone out."""
        _move(self._text, count, self._released)

    def take_released(self) -> tuple[Source, ...]:
        """Return what went out since the last call."""
        released, self._released = self._released, []
        return tuple(released)

    @property
    def waiting(self) -> int | None:
        """The earliest token whose text may still go out; None if there is none."""
        firsts = [run[0].token for run in (self._coming, self._call, self._text) if run]
        return min(firsts, default=None)


def _move(source: _Run, count: int, target: "_Run | list[Source] | None") -> None:
    while count > 0 and source:
        first = source.popleft()
        taken = first
        if len(first.text) > count:
            taken = Source(first.token, first.start, first.text[:count])
            source.appendleft(Source(first.token, first.start + count, first.text[count:]))
        count -= len(taken.text)
        if target is not None:
            target.append(taken)

"""What is known after some tokens of a script, and its smallest changes.

Knows neither tags nor calls; ``reading`` does.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from engine.stopping.record import Channel
from tests.engine.contract.writing.vocabularies import Model


class Char(NamedTuple):
    """One character of a channel; ``part`` tells stretches that no match may join."""

    char: str
    channel: Channel
    part: int


class Undecided(NamedTuple):
    """One character that may belong to a tag; a ghost is a special token's, skipped as text."""

    char: str
    token: int
    is_ghost: bool


class Tag(NamedTuple):
    """A tag that a token completed: its text, its channel, the characters before it."""

    text: str
    channel: Channel
    known: int
    offset: int


@dataclass
class ReadingState:
    """The state after some tokens. All lists are only ever replaced, so that a copy is safe.

    Attributes:
        model: The vocabulary and the family.
        is_raw: Whether nothing is parsed.
        channel: The open channel.
        header: Words of the open Harmony header, None outside of one.
        chars: All characters known to be text, in the order in which they came to be known.
        part: Number of the open stretch.
        undecided: Characters that may belong to a tag of several tokens.
        half: Bytes of a character that is not whole.
        calls: Complete calls, as name and arguments.
        tags: Tags that the last token completed.
        thinking: Indices of the tokens that were reasoning.
        count: Tokens so far.
        plain: Ids that are text, for decoders that need them all.
        strips: Whether white space is dropped here.
        name: The tool that the open Harmony message calls.
        in_message: Whether a Harmony message is open.
        header_tokens: Indices of the tokens of the open header.
        has_text: Whether there was any text, so that a space is no longer at the beginning.
        begun: Of the open call, the part that the prompt holds.
        has_tools: Whether tools are offered; without them the tags of calls are text.
        outer: The channel in which the open call began.
        has_rest: Whether text followed the last call before its end.
    """

    model: Model
    is_raw: bool = False
    channel: Channel = Channel.TEXT
    header: str | None = None
    chars: tuple[Char, ...] = ()
    part: int = 0
    undecided: tuple[Undecided, ...] = ()
    half: bytes = b""
    calls: tuple[tuple[str, Any], ...] = ()
    tags: tuple[Tag, ...] = ()
    thinking: frozenset[int] = frozenset()
    count: int = 0
    plain: tuple[int, ...] = ()
    strips: bool = False
    name: str = ""
    in_message: bool = False
    header_tokens: tuple[int, ...] = ()
    has_text: bool = False
    begun: str = ""
    has_tools: bool = True
    has_rest: bool = False
    outer: Channel = Channel.TEXT

    def _copy(self) -> Self:
        """Return a shallow copy; ``copy.copy`` takes three times as long."""
        after = object.__new__(type(self))
        after.__dict__.update(self.__dict__)
        return after

    def _emit(self, known: tuple[Undecided, ...]) -> None:
        text = "".join(item.char for item in known if not item.is_ghost)
        if self.strips:
            text = text.lstrip()
            self.strips = not text
        self.chars += tuple(Char(char, self.channel, self.part) for char in text)

    def _switch(self, channel: Channel, *, strips: bool = False) -> None:
        self.channel = channel
        self.part += 1
        self.strips = strips

    def length_of(self, channel: Channel) -> int:
        """Return the length of a channel's text; of the open call's for calls."""
        if channel is Channel.TOOL:
            return len(self.part_text)
        return sum(char.channel is channel for char in self.chars)

    @property
    def part_text(self) -> str:
        return "".join(char.char for char in self.chars if char.part == self.part)

    @property
    def undecided_text(self) -> str:
        """The characters that may belong to a tag, without those of special tokens."""
        return "".join(item.char for item in self.undecided if not item.is_ghost)

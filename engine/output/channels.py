"""Channels of a model's output: what a splitter returns, and where an answer begins.

Types only; ``engine.output.families`` makes the splitters. Pure; any thread.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from engine.stopping.record import Channel


@dataclass(frozen=True, slots=True)
class Switch:
    """The output switches to another channel."""

    to: Channel
    tag: str = ""
    visible: int = 0
    tokens: int = 0
    tool_name: str | None = None
    strips_space: bool = False


Part = str | Switch
"""Text of the current channel, or a change of channel."""


class Splitter(Protocol):
    """Follows the channels of one answer.

    Attributes:
        channel: The channel that is open now.
        tags: Tokens that are structure by themselves, by id: ``take_tag`` must see them.
        parts: Special tokens that are part of a longer tag, by id, with the text to ``feed`` for
            them.
        scans_text: Whether text must go through ``feed``.
        in_header: Whether a header is open; none of it is text.
        closes_calls: Whether a call has an end mark of its own; if not, it ends with the answer.
        keeps_specials: Whether special tokens inside a call are a part of it.
    """

    channel: Channel
    tags: Mapping[int, str]
    parts: Mapping[int, str]
    scans_text: bool
    in_header: bool
    closes_calls: bool
    keeps_specials: bool

    @property
    def held(self) -> str:
        """The text that is held back because it could become a tag."""
        ...

    def feed(self, piece: str) -> Iterable[Part]:
        """Take text; yield the parts in order."""
        ...

    def take_tag(self, token_id: int) -> Iterable[Part]:
        """Take one of ``tags``; yield the parts that follow from it."""
        ...

    def opens(self, token_id: int) -> Switch | None:
        """Return the switch to the channel that one of ``tags`` would open now."""
        ...

    def is_text(self, token_id: int) -> bool:
        """Return whether one of ``tags`` would be plain text here."""
        ...

    def preview(self, piece: str) -> str | None:
        """Return the text that would come out if this piece were the last; None if it would
        complete a tag.
        """
        ...

    def finish(self) -> str:
        """Return the text that was held back; it can no longer become a tag."""
        ...

    def fork(self) -> "Splitter":
        """Return an independent copy in the same state."""
        ...


@dataclass(frozen=True, slots=True)
class Beginning:
    """Where an answer begins, which follows from the end of its prompt.

    Attributes:
        channel: The channel that is open.
        header: The part of a message's header that is in the prompt; None outside of headers.
        call: The part of an open tool call that is in the prompt.
        tool_name: The tool that the open call's tag named.
    """

    channel: Channel = Channel.TEXT
    header: str | None = None
    call: str = ""
    tool_name: str | None = None

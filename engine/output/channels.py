"""Channels of a model's output: what a splitter tells of them, and where an answer begins.

Types only; ``engine.output.families`` makes the splitters. Pure; any thread.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from engine.stopping.record import Channel


@dataclass(frozen=True, slots=True)
class Switch:
    """The output switches to another channel.

    Attributes:
        to: The channel.
        tag: The tag's text where plain tokens spelled it; empty where the tag is one token.
        visible: Characters of the tag that came as text, not as special tokens.
        tokens: Earlier tokens that turned out to belong to this tag or header.
        tool_name: The tool, where the tag itself names it.
        strips_space: Whether white space that follows is the template's, not the answer's.
    """

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
        channel: Where text goes now.
        tags: Tokens that are structure by themselves, by id: ``take_tag`` must see them.
        parts: Special tokens that are a part of a longer tag, by id: what ``feed`` takes for them.
        scans_text: Whether text has to pass through ``feed``.
        in_header: Whether a header is open, of which nothing is text.
        closes_calls: Whether a call has an end of its own, or only the answer's.
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
        """The text that is kept because it could become a tag."""
        ...

    def feed(self, piece: str) -> Iterable[Part]:
        """Take text; yield the parts in order."""
        ...

    def take_tag(self, token_id: int) -> Iterable[Part]:
        """Take one of ``tags``; yield what it changes."""
        ...

    def opens(self, token_id: int) -> Switch | None:
        """Return the switch to the channel that one of ``tags`` would open now."""
        ...

    def is_text(self, token_id: int) -> bool:
        """Return whether one of ``tags`` is a part of the text where it comes."""
        ...

    def preview(self, piece: str) -> str | None:
        """Return the text that would come out if this piece were the last; None if it would
        complete a tag.
        """
        ...

    def finish(self) -> str:
        """Return the text that was kept; it can no longer become a tag."""
        ...

    def fork(self) -> "Splitter":
        """Return one in the same state, which goes its own way from here."""
        ...


@dataclass(frozen=True, slots=True)
class Beginning:
    """Where an answer begins, as the end of its prompt says.

    Attributes:
        channel: The channel that is open.
        header: The part of a message's header that the prompt has; None outside of headers.
        call: The text of the open tool call that the prompt has.
        tool_name: The tool that the open call's tag named.
    """

    channel: Channel = Channel.TEXT
    header: str | None = None
    call: str = ""
    tool_name: str | None = None

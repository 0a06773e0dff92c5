"""Splits a model's output into channels: reasoning, tool calls, and the answer itself.

Tags that are one token are recognised by id, so that the same characters typed out by the model
stay text; tags of several tokens are recognised by text. Pure; belongs to the engine thread.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

from engine.stopping.matcher import StopMatcher
from engine.stopping.record import Channel


@dataclass(frozen=True, slots=True)
class Switch:
    """The output goes over to another channel.

    Attributes:
        to: The channel.
        tool_name: The tool, where the tag itself names it.
        strips_space: Whether white space that follows is the template's, not the answer's.
    """

    to: Channel
    tool_name: str | None = None
    strips_space: bool = False


Part = str | Switch
"""Text of the current channel, or a change of channel."""


class Splitter(Protocol):
    """Follows the channels of one answer.

    Attributes:
        channel: Where text goes now.
        boundary_ids: Ids that ``feed`` must see; others matter only if ``scans_text``.
        scans_text: Whether every piece has to pass through ``feed``.
    """

    channel: Channel
    boundary_ids: frozenset[int]
    scans_text: bool

    def feed(self, token_id: int, piece: str) -> Iterator[Part]:
        """Take a token and the text it completed; yield the parts in order."""
        ...

    def finish(self) -> str:
        """Return text that was kept because it could have become a tag."""
        ...


@dataclass(frozen=True, slots=True)
class ChannelFormat:
    """The tags of a model family, as found in its tokenizer.

    Attributes:
        think_start: Opens reasoning; None where the model has none.
        think_end: Closes it.
        tool_start: Opens a tool call; None where no parser is known.
        tool_end: Closes it; empty where only the end of the answer does.
        ids: Those tags that are exactly one token, by its id.
        harmony: The ids of Harmony's markers by name; if there are any, they are the format.
    """

    think_start: str | None = None
    think_end: str | None = None
    tool_start: str | None = None
    tool_end: str | None = None
    ids: dict[int, str] = field(default_factory=dict)
    harmony: dict[str, int] = field(default_factory=dict)

    def edges(self, channel: Channel) -> dict[str, Channel]:
        """Return the tags that mean something in a channel, and where each leads."""
        edges: dict[str, Channel] = {}
        if channel is Channel.TOOL:
            if self.tool_end:
                edges[self.tool_end] = Channel.TEXT
            return edges
        if self.tool_start:
            edges[self.tool_start] = Channel.TOOL
        if channel is Channel.TEXT and self.think_start:
            edges[self.think_start] = Channel.THINKING
        if channel is Channel.THINKING and self.think_end:
            edges[self.think_end] = Channel.TEXT
        return edges


class TagSplitter:
    """Channels marked by tags (``<think>`` … ``</think>``, ``<tool_call>`` … and the like)."""

    def __init__(self, tags: ChannelFormat, starts_in: Channel) -> None:
        self.channel = starts_in
        self.boundary_ids = frozenset(tags.ids)
        self._tags = tags
        one_token = set(tags.ids.values())
        self._edges = {channel: tags.edges(channel) for channel in Channel}
        self._typed = {
            channel: tuple(tag for tag in edges if tag not in one_token)
            for channel, edges in self._edges.items()
        }
        self.scans_text = any(self._typed.values())
        self._scanner = StopMatcher(self._typed[starts_in])

    def feed(self, token_id: int, piece: str) -> Iterator[Part]:
        """Take a token and the text it completed; yield the parts in order."""
        tag = self._tags.ids.get(token_id)
        target = None if tag is None else self._edges[self.channel].get(tag)
        if target is not None:
            yield self._scanner.flush()
            yield self._enter(target)
        elif self.scans_text:
            yield from self._scan(piece)
        elif tag is None or self.channel is Channel.TOOL:
            yield piece
        # A tag that means nothing here (a second closing tag, say) is structure, not text.

    def _scan(self, text: str) -> Iterator[Part]:
        while True:
            yield self._scanner.feed(text)
            match = self._scanner.match
            if match is None:
                return
            text = match.dropped[len(match.value) :]
            yield self._enter(self._edges[self.channel][match.value])

    def _enter(self, channel: Channel) -> Switch:
        self.channel = channel
        self._scanner = StopMatcher(self._typed[channel])
        return Switch(channel, strips_space=channel is not Channel.TOOL)

    def finish(self) -> str:
        """Return text that was kept because it could have become a tag."""
        return self._scanner.flush()

"""Splits a model's output into channels: reasoning, tool calls, and the answer itself.

Tags that are one token are recognised by id, so that the same characters typed out by the model
stay text; tags of several tokens are recognised by text. Pure; belongs to the engine thread.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from engine.stopping.matcher import StopMatcher
from engine.stopping.record import Channel

# Half a surrogate pair: decoded text never holds one.
_STAND_IN = 0xDC00


@dataclass(frozen=True, slots=True)
class Switch:
    """The output goes over to another channel.

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
        in_header: Whether what comes now is a header, of which nothing is text.
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
        """Return the text that was kept; from here on it can no longer become a tag."""
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
        parts: Special tokens whose text is a part of a longer tag, by id.
        harmony: The ids of Harmony's markers by name; if there are any, they are the format.
    """

    think_start: str | None = None
    think_end: str | None = None
    tool_start: str | None = None
    tool_end: str | None = None
    ids: dict[int, str] = field(default_factory=dict)
    parts: dict[int, str] = field(default_factory=dict)
    harmony: dict[str, int] = field(default_factory=dict)

    def edges(self, channel: Channel) -> dict[str, Channel]:
        """Return the tags that mean something in a channel, and where each leads."""
        edges: dict[str, Channel] = {}
        if channel is Channel.TOOL:
            if self.tool_end:
                edges[self.tool_end] = Channel.TEXT
            elif self.tool_start:
                # Without a closing tag, only the next call shows that one is complete.
                edges[self.tool_start] = Channel.TOOL
            return edges
        if self.tool_start:
            edges[self.tool_start] = Channel.TOOL
        if channel is Channel.TEXT and self.think_start:
            edges[self.think_start] = Channel.THINKING
        if channel is Channel.THINKING and self.think_end:
            edges[self.think_end] = Channel.TEXT
        return edges


@dataclass(frozen=True, slots=True)
class Beginning:
    """Where an answer begins, as the end of its prompt says.

    Attributes:
        channel: The channel that is open.
        header: The part of a Harmony header that the prompt has; None outside of headers.
        call: The text of the open tool call that the prompt has.
        tool_name: The tool that the open call's tag named.
    """

    channel: Channel = Channel.TEXT
    header: str | None = None
    call: str = ""
    tool_name: str | None = None


class TagSplitter:
    """Channels marked by tags (``<think>`` … ``</think>``, ``<tool_call>`` … and the like)."""

    def __init__(self, tags: ChannelFormat, starts_in: Channel = Channel.TEXT) -> None:
        self.channel = starts_in
        self.tags: Mapping[int, str] = tags.ids
        self.in_header = False
        self.closes_calls = bool(tags.tool_end)
        self.keeps_specials = True
        one_token = set(tags.ids.values())
        self._edges = {channel: tags.edges(channel) for channel in Channel}
        # A special token stands in the text as a character that no text can have.
        self.parts: Mapping[int, str] = {
            token_id: chr(_STAND_IN + number) for number, token_id in enumerate(tags.parts)
        }
        stand_ins = {self.parts[token_id]: text for token_id, text in tags.parts.items()}
        self._hidden = dict.fromkeys(map(ord, stand_ins), "")
        self._spellings = {
            channel: {
                spelling: tag
                for tag in edges
                if tag not in one_token
                for spelling in _spellings(tag, stand_ins)
            }
            for channel, edges in self._edges.items()
        }
        self._typed = {channel: tuple(tags) for channel, tags in self._spellings.items()}
        self.scans_text = any(self._typed.values())
        self._scanner = StopMatcher(self._typed[starts_in])
        # Lengths of the pieces that reach into the text which is kept.
        self._pieces: deque[int] = deque()

    @property
    def held(self) -> str:
        """The text that is kept because it could become a tag."""
        return self._shown(self._scanner.held)

    def _shown(self, text: str) -> str:
        return text.translate(self._hidden) if self._hidden else text

    def feed(self, piece: str) -> Iterator[Part]:
        """Take text; yield the parts in order."""
        if not self.scans_text:
            yield piece
            return
        if piece:
            self._pieces.append(len(piece))
        text = piece
        while True:
            yield self._shown(self._scanner.feed(text))
            match = self._scanner.match
            if match is None:
                break
            text = match.dropped[len(match.value) :]
            # The tag's first characters came with these tokens before this one.
            self._forget(len(match.dropped))
            tokens = len(self._pieces) - 1
            self._forget(len(text))
            tag = self._spellings[self.channel][match.value]
            visible = len(self._shown(match.value))
            yield self._enter(self._edges[self.channel][tag], tag, visible, tokens)
        self._forget(len(self._scanner.held))

    def _forget(self, kept: int) -> None:
        """Forget the pieces before the last ``kept`` characters."""
        surplus = sum(self._pieces) - kept
        while self._pieces and self._pieces[0] <= surplus:
            surplus -= self._pieces.popleft()
        if surplus > 0:
            self._pieces[0] -= surplus

    def take_tag(self, token_id: int) -> Iterator[Part]:
        """Take one of ``tags``; yield what it changes."""
        tag = self.tags[token_id]
        target = self._edges[self.channel].get(tag)
        yield self.finish()
        if target is not None:
            yield self._enter(target)
        # A tag that means nothing here (a second closing tag, say) is structure, not text.

    def opens(self, token_id: int) -> Switch | None:
        """Return the switch to the channel that one of ``tags`` would open now."""
        target = self._edges[self.channel].get(self.tags[token_id])
        return None if target in (None, Channel.TEXT) else Switch(target)

    def is_text(self, token_id: int) -> bool:
        """Return whether one of ``tags`` is a part of the text where it comes."""
        return self.channel is Channel.TOOL and self.tags[token_id] not in self._edges[Channel.TOOL]

    def preview(self, piece: str) -> str | None:
        """Return the text that would come out if this piece were the last; None if it would
        complete a tag.
        """
        if not self.scans_text:
            return piece
        if self._scanner.would_match(piece):
            return None
        return self._shown(self._scanner.held + piece)

    def _enter(self, channel: Channel, tag: str = "", visible: int = 0, tokens: int = 0) -> Switch:
        self.channel = channel
        self._scanner = StopMatcher(self._typed[channel])
        return Switch(channel, tag, visible, tokens, strips_space=channel is not Channel.TOOL)

    def finish(self) -> str:
        """Return the text that was kept; from here on it can no longer become a tag."""
        self._pieces.clear()
        return self._shown(self._scanner.flush())


def _spellings(tag: str, stand_ins: Mapping[str, str]) -> set[str]:
    """Return a tag with each of its special tokens as letters and as what stands in for it."""
    found = {tag}
    for stand_in, text in stand_ins.items():
        found |= {one.replace(text, stand_in) for one in found}
    return found

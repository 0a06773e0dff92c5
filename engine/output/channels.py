"""Channels of a model's output, as they are marked by tags. Pure; any thread."""

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from engine.stopping.matcher import StopMatcher
from engine.stopping.record import Channel
from engine.values.request import GenerationRequest


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


@dataclass(frozen=True, slots=True)
class Beginning:
    """Where an answer begins, which follows from the end of its prompt.

    Attributes:
        header: The part of a message's header that is in the prompt; None outside of headers.
    """

    channel: Channel = Channel.TEXT
    header: str | None = None
    call: str = ""
    tool_name: str | None = None
    strips_space: bool = False


def continues_text(request: GenerationRequest, beginning: Beginning) -> bool:
    """Return whether an answer continues text of its prompt, so that its first space counts."""
    return request.prompt is not None or request.continues_answer or beginning.header is not None


class TagSplitter:
    """Channels marked by tags (``<think>`` … ``</think>``, ``<tool_call>`` … and the like).

    Tags that are one token are recognised by id, so that the same characters typed out by the model
    stay text; tags of several tokens are recognised by text.
    """

    def __init__(
        self,
        ids: Mapping[int, str],
        parts: Mapping[int, str],
        edges: Mapping[Channel, Mapping[str, Channel]],
        starts_in: Channel = Channel.TEXT,
        untagged: Mapping[str, str] | None = None,
    ) -> None:
        self.channel = starts_in
        self.tags = ids
        self.in_header = False
        # Without a closing tag, only the next call shows that one is complete.
        self.closes_calls = Channel.TEXT in edges[Channel.TOOL].values()
        self.keeps_specials = True
        one_token = set(ids.values())
        self._edges = edges
        # In scanned text, a special token is half a surrogate pair, which no decoded text contains.
        self.parts: Mapping[int, str] = {
            token_id: chr(0xDC00 + number) for number, token_id in enumerate(parts)
        }
        stand_ins = {self.parts[token_id]: text for token_id, text in parts.items()}
        self._hidden = dict.fromkeys(map(ord, stand_ins), "")
        self._spellings = {
            channel: {
                spelling: tag
                for tag in leading
                if tag not in one_token
                for spelling in _spellings(tag, stand_ins)
            }
            for channel, leading in edges.items()
        }
        self._typed = {channel: tuple(tags) for channel, tags in self._spellings.items()}
        # The channel in which the open call began, and what closes reasoning.
        self._outer = Channel.TEXT
        closing = (tag for tag, to in edges[Channel.THINKING].items() if to is Channel.TEXT)
        self._think_end = next(closing, "")
        # Calls without their tag begin in text, and each ends with its own last line.
        self._untagged = untagged or {}
        self._typed[Channel.TEXT] += tuple(self._untagged)
        self._call_ends: tuple[str, ...] = ()
        self.scans_text = any(self._typed.values())
        self._scanner = StopMatcher(self._typed[starts_in])
        # Lengths of the pieces that overlap the text that is held back.
        self._pieces: deque[int] = deque()

    @property
    def held(self) -> str:
        return self._shown(self._scanner.held)

    def _shown(self, text: str) -> str:
        return text.translate(self._hidden) if self._hidden else text

    def feed(self, piece: str) -> Iterator[Part]:
        if not self.scans_text:
            yield piece
            return
        if piece:
            self._pieces.append(len(piece))
        yield from self._scan(piece)

    def _scan(self, text: str) -> Iterator[Part]:
        yield self._shown(self._scanner.feed(text))
        match = self._scanner.match
        if match is None:
            self._forget(len(self._scanner.held))
            return
        rest = match.dropped[len(match.value) :]
        # The tag began in this many tokens before the current one.
        self._forget(len(match.dropped))
        tokens = len(self._pieces) - 1
        self._forget(len(rest))
        if match.value in self._call_ends:
            yield match.value
            yield self._enter(Channel.TEXT)
            yield from self._scan(rest)
            return
        if self.channel is Channel.TEXT and match.value in self._untagged:
            end = self._untagged[match.value]
            yield self._enter(Channel.TOOL, call_ends=(f"\n{end}", f">{end}"))
            yield from self._scan(match.value + rest)
            return
        channels = (self.channel, Channel.THINKING)
        tag = next(
            self._spellings[c][match.value] for c in channels if match.value in self._spellings[c]
        )
        visible = len(self._shown(match.value))
        yield self._enter(self._target(tag) or self.channel, tag, visible, tokens)
        yield from self._scan(rest)

    def _forget(self, kept: int) -> None:
        """Forget the pieces before the last ``kept`` characters."""
        surplus = sum(self._pieces) - kept
        while self._pieces and self._pieces[0] <= surplus:
            surplus -= self._pieces.popleft()
        if surplus > 0:
            self._pieces[0] -= surplus

    def take_tag(self, token_id: int) -> Iterator[Part]:
        target = self._target(self.tags[token_id])
        yield self.finish()
        if target is not None:
            yield self._enter(target)
        # A tag that does not count here, such as a second closing tag, is structure, not text.

    def opens(self, token_id: int) -> Switch | None:
        """Return the switch to the channel that one of ``tags`` would open now."""
        target = self._target(self.tags[token_id])
        in_call = self.channel is Channel.TOOL
        is_open = target is Channel.TOOL or (target is Channel.THINKING and not in_call)
        return Switch(target) if target is not None and is_open else None

    def is_text(self, token_id: int) -> bool:
        """Return whether one of ``tags`` would be plain text here."""
        return self.channel is Channel.TOOL and self._target(self.tags[token_id]) is None

    def _target(self, tag: str) -> Channel | None:
        """Return the channel that a tag opens now; None if it counts for nothing here."""
        target = self._edges[self.channel].get(tag)
        if self.channel is Channel.TOOL and self._outer is Channel.THINKING:
            # A call in reasoning leads back to it; the end of reasoning ends the call as well.
            if tag == self._think_end:
                return Channel.TEXT
            return Channel.THINKING if target is Channel.TEXT else target
        return target

    def _enter(
        self,
        channel: Channel,
        tag: str = "",
        visible: int = 0,
        tokens: int = 0,
        call_ends: tuple[str, ...] = (),
    ) -> Switch:
        if channel is Channel.TOOL and self.channel is not Channel.TOOL:
            self._outer = self.channel
        typed = self._typed[channel]
        if channel is Channel.TOOL and self._outer is Channel.THINKING:
            spellings = self._spellings[Channel.THINKING].items()
            typed += tuple(text for text, tag in spellings if tag == self._think_end)
        self.channel = channel
        self._call_ends = call_ends
        self._follow(channel)
        self._scanner = StopMatcher((*typed, *call_ends))
        return Switch(channel, tag, visible, tokens, strips_space=channel is not Channel.TOOL)

    def _follow(self, channel: Channel) -> None:
        """Note that a channel begins."""

    def finish(self) -> str:
        """Return the text that was held back; it can no longer become a tag."""
        self._pieces.clear()
        return self._shown(self._scanner.flush())


def _spellings(tag: str, stand_ins: Mapping[str, str]) -> set[str]:
    """Return the spellings of a tag, with its special tokens as letters or as placeholders."""
    spellings = {tag}
    for stand_in, text in stand_ins.items():
        spellings |= {spelling.replace(text, stand_in) for spelling in spellings}
    return spellings

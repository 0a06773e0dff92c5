"""Follows the channels of an answer that are marked by tags.

Tags that are one token are recognised by id, so that the same characters typed out by the model
stay text; tags of several tokens are recognised by text. Pure; belongs to the engine thread.
"""

import copy
from collections import deque
from collections.abc import Iterator, Mapping

from engine.output.channels import Part, Switch
from engine.stopping.matcher import StopMatcher
from engine.stopping.record import Channel

# Half a surrogate pair, which decoded text never contains.
_STAND_IN = 0xDC00


class TagSplitter:
    """Channels marked by tags (``<think>`` … ``</think>``, ``<tool_call>`` … and the like)."""

    def __init__(
        self,
        ids: Mapping[int, str],
        parts: Mapping[int, str],
        edges: Mapping[Channel, Mapping[str, Channel]],
        starts_in: Channel = Channel.TEXT,
    ) -> None:
        self.channel = starts_in
        self.tags = ids
        self.in_header = False
        # Without a closing tag, only the next call shows that one is complete.
        self.closes_calls = Channel.TEXT in edges[Channel.TOOL].values()
        self.keeps_specials = True
        one_token = set(ids.values())
        self._edges = edges
        # In scanned text, a special token is represented by a character that no text can contain.
        self.parts: Mapping[int, str] = {
            token_id: chr(_STAND_IN + number) for number, token_id in enumerate(parts)
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
        self.scans_text = any(self._typed.values())
        self._scanner = StopMatcher(self._typed[starts_in])
        # Lengths of the pieces that overlap the text that is held back.
        self._pieces: deque[int] = deque()

    @property
    def held(self) -> str:
        """The text that is held back because it could become a tag."""
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
            # The tag began in this many tokens before the current one.
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
        """Take one of ``tags``; yield the parts that follow from it."""
        tag = self.tags[token_id]
        target = self._edges[self.channel].get(tag)
        yield self.finish()
        if target is not None:
            yield self._enter(target)
        # A tag that does not count here, such as a second closing tag, is structure, not text.

    def opens(self, token_id: int) -> Switch | None:
        """Return the switch to the channel that one of ``tags`` would open now."""
        target = self._edges[self.channel].get(self.tags[token_id])
        return None if target in (None, Channel.TEXT) else Switch(target)

    def is_text(self, token_id: int) -> bool:
        """Return whether one of ``tags`` would be plain text here."""
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
        """Return the text that was held back; it can no longer become a tag."""
        self._pieces.clear()
        return self._shown(self._scanner.flush())

    def fork(self) -> "TagSplitter":
        """Return an independent copy in the same state."""
        fork = copy.copy(self)
        vars(fork).update(_scanner=copy.copy(self._scanner), _pieces=self._pieces.copy())
        return fork


def _spellings(tag: str, stand_ins: Mapping[str, str]) -> set[str]:
    """Return the spellings of a tag, with its special tokens as letters or as placeholders."""
    found = {tag}
    for stand_in, text in stand_ins.items():
        found |= {one.replace(text, stand_in) for one in found}
    return found

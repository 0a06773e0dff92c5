"""The headers of messages of gpt-oss (https://cookbook.openai.com/articles/openai-harmony).

A header is the text between ``<|start|>`` and ``<|message|>``. ``analysis`` is reasoning,
``commentary`` with a recipient is a tool call, everything else is the answer. Markers are special
tokens, recognised by id; text outside of headers and messages belongs to the answer.
"""

import re
from collections.abc import Container, Iterator, Mapping

from engine.output.channels import Part, Switch
from engine.stopping.record import Channel

MARKERS = ("<|start|>", "<|end|>", "<|channel|>", "<|message|>", "<|call|>", "<|return|>")
CONSTRAIN = "<|constrain|>"
_MESSAGE_ENDS = ("<|end|>", "<|call|>", "<|return|>")
_RECIPIENT = re.compile(r"\bto=([^\s<]+)")
# What a header goes on with behind the role; any other text there is an answer without a header.
_RECIPIENTS = ("to=", "analysis to=", "commentary to=", "final to=")


def is_inner_end(token: str, vocabulary: Container[str]) -> bool:
    """Whether a token that closes an answer may also stand between two messages of one."""
    return token == "<|end|>" and all(mark in vocabulary for mark in MARKERS)


class HeaderSplitter:
    """Follows the messages of one answer; see ``TagSplitter``."""

    def __init__(
        self,
        markers: Mapping[int, str],
        header: str | None = None,
        channel: Channel = Channel.TEXT,
    ) -> None:
        self.channel = channel
        self.closes_calls = True
        self.keeps_specials = False
        self.parts: Mapping[int, str] = {}
        self.tags = markers
        self.scans_text = header is not None
        self._header = [header or ""]
        self._tokens = 0
        # Characters of the open header that may be text, and whether it has more than a role.
        self._undecided = 0
        self._has_marker = any(one in self._header[0] for one in MARKERS[1:])

    @property
    def held(self) -> str:
        """The text behind a role, which may still become a header."""
        return self._free_text() or ""

    @property
    def header(self) -> str | None:
        """The text of the open header so far; None outside of headers."""
        return "".join(self._header) if self.scans_text else None

    @property
    def in_header(self) -> bool:
        """Whether a header is open that is certainly one; none of it is text."""
        return self.scans_text and self._free_text() is None

    def _free_text(self) -> str | None:
        """Return what follows the role where nothing shows that it is a header; else None."""
        if not self.scans_text:
            return None
        role = "".join(self._header).removeprefix("<|start|>").lstrip()
        text = role.removeprefix("assistant")
        is_header = text == role or " ".join(text.split()).startswith(_RECIPIENTS)
        return None if is_header or self._has_marker else text

    def feed(self, piece: str) -> Iterator[Part]:
        if not self.scans_text:
            yield piece
            return
        was_free = self._free_text() is not None
        self._header.append(piece)
        self._tokens += 1
        self._undecided += len(piece) if was_free else 0
        text = self._free_text()
        if text is None:
            yield from self._skip()
        elif not any(one.startswith(" ".join(text.split())) for one in _RECIPIENTS):
            self._close_header()
            yield text

    def _skip(self) -> Iterator[Part]:
        """Note that the text behind the role is part of a header."""
        if self._undecided:
            yield Switch(self.channel, visible=self._undecided)
            self._undecided = 0

    def take_tag(self, token_id: int) -> Iterator[Part]:
        marker = self.tags[token_id]
        if marker in _MESSAGE_ENDS:
            yield from self._end_message()
        elif marker == "<|message|>":
            if (opening := self.opens(token_id)) is not None:
                yield from self._skip()
                self._close_header()
                self.channel = opening.to
                yield opening
        elif marker == "<|start|>" or (marker == "<|channel|>" and not self.scans_text):
            was_thinking = self.channel is Channel.THINKING
            yield from self._end_message()
            self.scans_text = True
            # A token that ends reasoning counts as reasoning.
            self._tokens = 0 if was_thinking else 1
            self._header.append(marker)
            self._has_marker = marker != "<|start|>"
        elif self.scans_text:
            yield from self._skip()
            self._header.append(marker)
            self._has_marker = True
            self._tokens += 1

    def _end_message(self) -> Iterator[Part]:
        if text := self.held:
            yield text
        self._close_header()
        was_call = self.channel is Channel.TOOL
        self.channel = Channel.TEXT
        if was_call:
            yield Switch(Channel.TEXT)
        # A call that turned out to be text is a message, which ends here as well.
        yield Switch(Channel.TEXT)

    def opens(self, token_id: int) -> Switch | None:
        if self.tags[token_id] != "<|message|>" or not self.scans_text:
            return None
        channel, name = self._meaning()
        return Switch(channel, tokens=self._tokens, tool_name=name)

    def is_text(self, token_id: int) -> bool:
        return False

    def _close_header(self) -> None:
        self._header.clear()
        self.scans_text = False
        self._tokens = self._undecided = 0

    def _meaning(self) -> tuple[Channel, str | None]:
        """Return the channel that the header names, and the tool that it calls."""
        header = "".join(self._header)
        recipient = _RECIPIENT.search(header)
        name = "" if recipient is None else recipient[1].removeprefix("functions.")
        if name:
            return Channel.TOOL, name
        names = header.rpartition("<|channel|>")[2].partition(CONSTRAIN)[0].split()
        is_named = "<|channel|>" in header
        return (Channel.THINKING if is_named and "analysis" in names else Channel.TEXT), None

    def finish(self) -> str:
        """Return the text that was held back; no part of an unfinished header is text."""
        text = self.held
        if text:
            self._close_header()
        return text

"""Channels of the Harmony format: headers between ``<|start|>`` and ``<|message|>`` name them.

``analysis`` is reasoning, ``commentary`` with a recipient is a tool call, all else is the answer.
Markers are special tokens, recognised by id. Text outside of headers and messages is the answer's.
Pure; belongs to the engine thread.
"""

import re
from collections.abc import Iterator, Mapping

from engine.output.channels import Part, Switch
from engine.stopping.record import Channel

MARKERS = ("<|start|>", "<|end|>", "<|channel|>", "<|message|>", "<|call|>", "<|return|>")
_MESSAGE_ENDS = ("<|end|>", "<|call|>", "<|return|>")
_RECIPIENT = re.compile(r"\bto=([^\s<]+)")


class HarmonySplitter:
    """Follows the messages of one answer; see ``engine.output.channels.Splitter``.

    Args:
        ids: The id of each of ``MARKERS`` (and ``<|constrain|>`` where the model has it).
        header: The part of a header with which the prompt ends; None where it ends outside.
        channel: Where text goes at the beginning.
    """

    def __init__(
        self, ids: Mapping[str, int], header: str | None, channel: Channel = Channel.TEXT
    ) -> None:
        self.channel = channel
        self.closes_calls = True
        self.keeps_specials = False
        self.parts: Mapping[int, str] = {}
        self.tags: Mapping[int, str] = {token_id: name for name, token_id in ids.items()}
        self.in_header = self.scans_text = header is not None
        self._header = [header or ""]
        self._tokens = 0

    @property
    def held(self) -> str:
        """Nothing: a header is never text, and a message's text never a marker."""
        return ""

    @property
    def header(self) -> str | None:
        """What has come of the open header; None outside of headers."""
        return "".join(self._header) if self.in_header else None

    def feed(self, piece: str) -> Iterator[Part]:
        """Take text; yield the parts in order."""
        if self.in_header:
            self._header.append(piece)
            self._tokens += 1
        else:
            yield piece

    def take_tag(self, token_id: int) -> Iterator[Part]:
        """Take a marker; yield what it changes."""
        marker = self.tags[token_id]
        if marker in _MESSAGE_ENDS:
            yield from self._end_message()
        elif marker == "<|message|>":
            if self.in_header:
                yield self._open_message()
        elif marker == "<|start|>" or (marker == "<|channel|>" and not self.in_header):
            was_thinking = self.channel is Channel.THINKING
            yield from self._end_message()
            self.in_header = self.scans_text = True
            # A token that ends reasoning counts with what it ends.
            self._tokens = 0 if was_thinking else 1
            self._header.append(marker)
        elif self.in_header:
            self._header.append(marker)
            self._tokens += 1

    def _end_message(self) -> Iterator[Part]:
        self._close_header()
        if self.channel is Channel.TOOL:
            yield self._enter(Channel.TEXT)
        # What turned out to be no call is a message, which ends here as well.
        yield self._enter(Channel.TEXT)

    def opens(self, token_id: int) -> Switch | None:
        """Return the switch to the channel that a marker would open now."""
        if self.tags[token_id] != "<|message|>" or not self.in_header:
            return None
        channel, name = self._meaning()
        return Switch(channel, tokens=self._tokens, tool_name=name)

    def is_text(self, token_id: int) -> bool:
        """Return that no marker is ever text."""
        return False

    def preview(self, piece: str) -> str:
        """Return the text that would come out if this piece were the last."""
        return "" if self.in_header else piece

    def _close_header(self) -> None:
        self._header.clear()
        self.in_header = self.scans_text = False
        self._tokens = 0

    def _open_message(self) -> Switch:
        channel, name = self._meaning()
        tokens = self._tokens
        self._close_header()
        return self._enter(channel, tokens, name)

    def _meaning(self) -> tuple[Channel, str | None]:
        """Return the channel that the header names, and the tool that it calls."""
        header = "".join(self._header)
        recipient = _RECIPIENT.search(header)
        name = "" if recipient is None else recipient[1].removeprefix("functions.")
        if name:
            return Channel.TOOL, name
        words = header.rpartition("<|channel|>")[2].partition("<|constrain|>")[0].split()
        is_named = "<|channel|>" in header
        return (Channel.THINKING if is_named and "analysis" in words else Channel.TEXT), None

    def _enter(self, channel: Channel, tokens: int = 0, tool_name: str | None = None) -> Switch:
        self.channel = channel
        return Switch(channel, tokens=tokens, tool_name=tool_name)

    def finish(self) -> str:
        """Return nothing: an unfinished header leaks no part of itself."""
        return ""

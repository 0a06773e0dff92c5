"""Channels of the Harmony format: headers between ``<|start|>`` and ``<|message|>`` name them.

``analysis`` is reasoning, ``commentary`` with a recipient is a tool call, all else is the answer.
Markers are special tokens, recognised by id. Pure; belongs to the engine thread.
"""

import re
from collections.abc import Iterator, Mapping

from engine.channels import ChannelFormat, Part, Splitter, Switch, TagSplitter
from engine.stopping.record import Channel

MARKERS = ("<|start|>", "<|end|>", "<|channel|>", "<|message|>", "<|call|>", "<|return|>")
_RECIPIENT = re.compile(r"\bto=([^\s<]+)")


class HarmonySplitter:
    """Follows the messages of one answer; see ``engine.channels.Splitter``.

    Args:
        ids: The id of each of ``MARKERS`` (and ``<|constrain|>`` where the model has it).
    """

    def __init__(self, ids: Mapping[str, int]) -> None:
        self.channel = Channel.TEXT
        self.boundary_ids = frozenset(ids.values())
        # The prompt ends inside a header ("<|start|>assistant").
        self.scans_text = True
        self._names = {token_id: name for name, token_id in ids.items()}
        self._header: list[str] = []

    def feed(self, token_id: int, piece: str) -> Iterator[Part]:
        """Take a token and the text it completed; yield the parts in order."""
        marker = self._names.get(token_id)
        if marker is None:
            if self.scans_text:
                self._header.append(piece)
            else:
                yield piece
        elif marker == "<|message|>":
            yield self._open()
        elif marker == "<|start|>":
            self._header.clear()
            self.scans_text = True
        elif marker == "<|end|>":
            self.scans_text = True
            if self.channel is Channel.TOOL:
                self.channel = Channel.TEXT
                yield Switch(Channel.TEXT)
        elif marker in ("<|channel|>", "<|constrain|>"):
            self._header.append(" ")

    def _open(self) -> Switch:
        header = "".join(self._header)
        self._header.clear()
        self.scans_text = False
        recipient = _RECIPIENT.search(header)
        if recipient is not None:
            self.channel = Channel.TOOL
            return Switch(Channel.TOOL, recipient[1].removeprefix("functions."))
        self.channel = Channel.THINKING if "analysis" in header.split() else Channel.TEXT
        return Switch(self.channel)

    def finish(self) -> str:
        """Return a header that no message followed: then it was the answer, not a header."""
        text = "".join(self._header).strip() if self.scans_text else ""
        self._header.clear()
        return "" if text in ("", "assistant") else text


def open_splitter(channels: ChannelFormat, starts_in: Channel) -> Splitter:
    """Return a fresh splitter for an answer in a model's format.

    Args:
        channels: The format.
        starts_in: ``THINKING`` where the prompt leaves reasoning open.
    """
    if channels.harmony:
        return HarmonySplitter(channels.harmony)
    return TagSplitter(channels, starts_in)

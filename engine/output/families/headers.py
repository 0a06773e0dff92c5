"""Models that write every message under a header which names its channel: the Harmony format.

A header is the text between ``<|start|>`` and ``<|message|>``. ``analysis`` is reasoning,
``commentary`` with a recipient is a tool call, everything else is the answer. Markers are special
tokens, recognised by id; text outside of headers and messages belongs to the answer. Pure; any
thread.

The format: https://cookbook.openai.com/articles/openai-harmony
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from engine.files.fields import Fields
from engine.output.beginnings import end_of_last, read_turn
from engine.output.channels import Beginning, Part, Switch
from engine.output.families.family import Marks, OptionalMarks, OutputFrame
from engine.output.vocabulary import Vocabulary
from engine.stopping.record import Channel
from engine.values.request import GenerationRequest

_MARKERS = ("<|start|>", "<|end|>", "<|channel|>", "<|message|>", "<|call|>", "<|return|>")
_CONSTRAIN = "<|constrain|>"
_MESSAGE_ENDS = ("<|end|>", "<|call|>", "<|return|>")
_RECIPIENT = re.compile(r"\bto=([^\s<]+)")
_CALLABLE = re.compile(r"[^\s<]+")


@dataclass(frozen=True, slots=True)
class HeaderFamily:
    """The markers of a model; see ``engine.output.families.family``."""

    markers: Mapping[str, int]

    has_headers = True
    think_start = None
    think_end = None
    think_start_id = None
    think_end_id = None
    call_start_id = None
    call_style = ""

    @property
    def tags(self) -> Mapping[int, str]:
        """The markers by id."""
        return {token_id: text for text, token_id in self.markers.items()}

    def splitter(self, beginning: Beginning) -> "HeaderSplitter":
        """Return a fresh splitter for an answer that begins there."""
        return HeaderSplitter(self.tags, beginning.header, beginning.channel)

    def beginning(
        self, request: GenerationRequest, tokens: Sequence[int], vocabulary: Vocabulary
    ) -> Beginning:
        """Return where the answer to a request begins: after the prompt's last header."""
        splitter = HeaderSplitter(self.tags)
        place = end_of_last(tokens, {self.markers["<|start|>"]})
        found = read_turn(tokens[max(place - 1, 0) :], splitter, vocabulary)
        return Beginning(found.channel, splitter.header, found.call, found.tool_name)

    def narrowed(self, *, thinks: bool, calls: bool) -> "HeaderFamily":
        """Return the family itself: every message keeps its header."""
        return self

    @property
    def answer_frame(self) -> OutputFrame:
        """The header of an answer in JSON."""
        json_mark = self._json_mark()
        format_name = (OptionalMarks(json_mark),) if json_mark else ()
        return OutputFrame((self._id("channel"), "final", *format_name, self._id("message")))

    @property
    def reasoning_frame(self) -> OutputFrame:
        """The header of reasoning, its end, and the beginning of the message that follows."""
        return OutputFrame(
            (self._id("channel"), "analysis", self._id("message")),
            (self._id("end"), self._id("start"), "assistant"),
        )

    def reasoning_edges(self, *, leaves_choice: bool, is_held: bool) -> tuple[Marks, Marks]:
        """Return the end of a message of reasoning with the next header, and such a header."""
        channel = self._id("channel")
        closing: Marks = self.reasoning_frame.after
        if leaves_choice and not is_held:
            closing = (*closing, channel)
        elif not is_held:
            closing = (*closing, channel, "final", self._id("message"))
        return closing, (channel, "analysis")

    def call_frame(self, name: str) -> OutputFrame:
        """Return the header of a call; its arguments are the message."""
        if not _CALLABLE.fullmatch(name):
            raise ValueError(f"this model cannot call a tool named {name!r}")
        recipient = f"commentary to=functions.{name}"
        return OutputFrame(
            (self._id("channel"), recipient, *self._json_mark(), self._id("message"))
        )

    def _json_mark(self) -> tuple[int | str, ...]:
        return (" ", self.markers[_CONSTRAIN], "json") if _CONSTRAIN in self.markers else ()

    def _id(self, name: str) -> int:
        return self.markers[f"<|{name}|>"]

    def saved(self) -> dict[str, object]:
        """Return the fields of a saved run from which the family can be made again."""
        return {"harmony": dict(self.markers)}


def headers_of(vocabulary: Vocabulary) -> HeaderFamily | None:
    """Return the family of a model whose vocabulary has all markers; None where one is missing."""
    known = {text: i for i, text in vocabulary.special.items() if text in (*_MARKERS, _CONSTRAIN)}
    return HeaderFamily(known) if known.keys() >= set(_MARKERS) else None


def saved_headers(fields: Fields) -> HeaderFamily | None:
    """Return the family of a saved run; None if it is another; raises ``DamagedFile``."""
    markers = fields.inner("harmony").each(int)
    return HeaderFamily(markers) if markers else None


class HeaderSplitter:
    """Follows the messages of one answer; see ``engine.output.channels.Splitter``."""

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
        self.in_header = self.scans_text = header is not None
        self._header = [header or ""]
        self._tokens = 0

    @property
    def held(self) -> str:
        """Always empty: a header is never text, and a message's text is never a marker."""
        return ""

    @property
    def header(self) -> str | None:
        """The text of the open header so far; None outside of headers."""
        return "".join(self._header) if self.in_header else None

    def feed(self, piece: str) -> Iterator[Part]:
        """Take text; yield the parts in order."""
        if self.in_header:
            self._header.append(piece)
            self._tokens += 1
        else:
            yield piece

    def take_tag(self, token_id: int) -> Iterator[Part]:
        """Take a marker; yield the parts that follow from it."""
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
            # A token that ends reasoning counts as reasoning.
            self._tokens = 0 if was_thinking else 1
            self._header.append(marker)
        elif self.in_header:
            self._header.append(marker)
            self._tokens += 1

    def _end_message(self) -> Iterator[Part]:
        self._close_header()
        if self.channel is Channel.TOOL:
            yield self._enter(Channel.TEXT)
        # A call that turned out to be text is a message, which ends here as well.
        yield self._enter(Channel.TEXT)

    def opens(self, token_id: int) -> Switch | None:
        """Return the switch to the channel that a marker would open now."""
        if self.tags[token_id] != "<|message|>" or not self.in_header:
            return None
        channel, name = self._meaning()
        return Switch(channel, tokens=self._tokens, tool_name=name)

    def is_text(self, token_id: int) -> bool:
        """Return False: a marker is never text."""
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
        words = header.rpartition("<|channel|>")[2].partition(_CONSTRAIN)[0].split()
        is_named = "<|channel|>" in header
        return (Channel.THINKING if is_named and "analysis" in words else Channel.TEXT), None

    def _enter(self, channel: Channel, tokens: int = 0, tool_name: str | None = None) -> Switch:
        self.channel = channel
        return Switch(channel, tokens=tokens, tool_name=tool_name)

    def finish(self) -> str:
        """Return nothing, because no part of an unfinished header is text."""
        return ""

    def fork(self) -> "HeaderSplitter":
        """Return an independent copy in the same state."""
        fork = HeaderSplitter(self.tags, self.header, self.channel)
        fork._tokens = self._tokens
        return fork

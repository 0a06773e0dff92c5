"""Families of models: how each marks reasoning, tool calls and the answer in its output.

Pure; any thread.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from engine.output.bare_calls import UntaggedCallSplitter
from engine.output.channels import Beginning, TagSplitter
from engine.output.harmony import CONSTRAIN, MARKERS, HeaderSplitter
from engine.output.prompt_end import Splitter, end_of_last, read_turn, unquoted
from engine.output.tool_calls.formats import (
    CALL_FORMATS,
    JSON_CALLS,
    CallFormat,
    TaggedCalls,
    find_format,
)
from engine.output.vocabulary import Vocabulary
from engine.stopping.record import Channel
from engine.values.request import GenerationRequest

_CALLABLE = re.compile(r"[^\s<]+")


@dataclass(frozen=True, slots=True)
class Family:
    """How the models of one family mark the channels of their output: with tags. Immutable.

    Without any tags, the answer is the text that was generated, whatever it looks like.
    """

    think_start: str | None = None
    think_end: str | None = None
    tool_start: str | None = None
    tool_end: str | None = None
    tags: Mapping[int, str] = field(default_factory=dict)
    parts: Mapping[int, str] = field(default_factory=dict)
    call_style: str = ""
    untagged: Mapping[str, str] = field(default_factory=dict)
    """How calls begin that lack their tag, and how such a call ends."""

    has_headers: ClassVar[bool] = False

    @property
    def answer_heads(self) -> tuple[str, ...]:
        return ()

    @property
    def reasoning_frame(self) -> tuple[str, str] | None:
        return None

    @property
    def call_tags(self) -> tuple[str | None, str | None]:
        return self.tool_start, self.tool_end

    @property
    def call_format(self) -> CallFormat | None:
        return CALL_FORMATS.get(self.call_style)

    @property
    def has_bare_calls(self) -> bool:
        """Whether a call is written without tags, so that it may continue a begun answer's text."""
        return self.call_format is not None and self.call_format.bare is not None

    def id_of(self, tag: str | None) -> int | None:
        ids = (token_id for token_id, text in self.tags.items() if tag and text == tag)
        return next(ids, None)

    def reasoning_edges(self, *, has_alternatives: bool, is_held: bool) -> tuple[str, str]:
        """Return the tags that close and open reasoning; anything may follow the closing one."""
        return self.think_end or "", self.think_start or ""

    def splitter(self, beginning: Beginning) -> Splitter:
        edges = {channel: self._edges(channel) for channel in Channel}
        call_format = self.call_format
        if self.tool_start and call_format is not None and call_format.bare is not None:
            return UntaggedCallSplitter(
                self.tags, self.parts, edges, beginning.channel, call_format.bare
            )
        return TagSplitter(self.tags, self.parts, edges, beginning.channel, self.untagged)

    def _edges(self, channel: Channel) -> dict[str, Channel]:
        """Return the tags that count in a channel, and the channel that each opens."""
        if channel is Channel.TOOL:
            if self.tool_end:
                return {self.tool_end: Channel.TEXT}
            if self.tool_start and not self.has_bare_calls:
                return {self.tool_start: Channel.TOOL}
            return {}
        edges: dict[str, Channel] = {}
        if self.tool_start:
            edges[self.tool_start] = Channel.TOOL
        if channel is Channel.TEXT and self.think_start:
            edges[self.think_start] = Channel.THINKING
        if channel is Channel.THINKING and self.think_end:
            edges[self.think_end] = Channel.TEXT
        return edges

    def beginning(
        self, request: GenerationRequest, tokens: Sequence[int], vocabulary: Vocabulary
    ) -> Beginning:
        """Return where the answer to a request begins: after the tags of the prompt's last turn."""
        splitter = self.splitter(Beginning())
        turn = tokens[end_of_last(tokens, vocabulary.eos) :]
        if not splitter.scans_text and splitter.tags.keys().isdisjoint(turn):
            return Beginning()
        if not request.continues_message:
            opening = [tag for tag in (self.think_start, self.tool_start) if tag]
            turn = unquoted(request, turn, opening, vocabulary)
        beginning = read_turn(turn, splitter, vocabulary)
        if beginning.channel is Channel.TOOL and not request.continues_answer:
            # No template opens a call, so this is an example in the instructions.
            return Beginning()
        if not request.begun and not vocabulary.text_of(tokens[-1]).strip():
            # The template has written the white space itself.
            return replace(beginning, strips_space=False)
        return beginning

    def with_tags(self, *, thinking: bool, tools: bool) -> "Family":
        """Return the family with the tags that can occur in an answer; others are text."""
        think_start = self.think_start if thinking else None
        start, end = self.call_tags if tools else (None, None)
        left = [tag for tag in (think_start, self.think_end, start, end) if tag]
        return replace(
            self,
            think_start=think_start,
            tool_start=start,
            tool_end=end,
            tags={token_id: tag for token_id, tag in self.tags.items() if tag in left},
            parts={
                token_id: part
                for token_id, part in self.parts.items()
                if any(part in tag for tag in left)
            },
            untagged=self.untagged if tools else {},
        )

    def with_untagged_calls(self, names: Iterable[str]) -> "Family":
        """Return the family of an answer in which calls of these tools may lack their tag."""
        call_format = self.call_format
        if (
            not isinstance(call_format, TaggedCalls)
            or not call_format.call_end
            or not self.tool_start
        ):
            return self
        return replace(
            self, untagged={call_format.opening(name): call_format.call_end for name in names}
        )

    def call_header(self, name: str) -> str | None:
        return None


def with_json_calls(family: Family, vocabulary: Vocabulary) -> Family:
    """Return the family of answers in which a call is JSON between ``<tool_call>`` tags."""
    if family.has_headers:
        return family
    [(start, end, _), *_] = CALL_FORMATS[JSON_CALLS].tags
    ids = {i: text for i, text in enumerate(vocabulary.text) if text and text in (start, end)}
    return replace(
        family,
        tool_start=start,
        tool_end=end,
        tags={**family.tags, **ids},
        call_style=JSON_CALLS,
    )


@dataclass(frozen=True, slots=True)
class HeaderFamily(Family):
    """The family of gpt-oss: each message has a header, and the tags are the markers of headers."""

    has_headers = True

    def splitter(self, beginning: Beginning) -> "HeaderSplitter":
        return HeaderSplitter(self.tags, beginning.header, beginning.channel)

    def beginning(
        self, request: GenerationRequest, tokens: Sequence[int], vocabulary: Vocabulary
    ) -> Beginning:
        """Return where the answer to a request begins: after the prompt's last header."""
        splitter = HeaderSplitter(self.tags)
        starts = [token_id for token_id, text in self.tags.items() if text == "<|start|>"]
        start = end_of_last(tokens, starts)
        beginning = read_turn(tokens[max(start - 1, 0) :], splitter, vocabulary)
        return Beginning(beginning.channel, splitter.header, beginning.call, beginning.tool_name)

    def with_tags(self, *, thinking: bool, tools: bool) -> "HeaderFamily":
        """Return the family itself: every message keeps its header."""
        return self

    @property
    def answer_heads(self) -> tuple[str, ...]:
        """The headers of an answer in JSON, which may name the format."""
        json_mark = self._json_mark
        heads = dict.fromkeys(f"<|channel|>final{mark}<|message|>" for mark in ("", json_mark))
        return tuple(heads)

    @property
    def reasoning_frame(self) -> tuple[str, str]:
        """The header of reasoning, its end, and the beginning of the message that follows."""
        return "<|channel|>analysis<|message|>", "<|end|><|start|>assistant"

    def reasoning_edges(self, *, has_alternatives: bool, is_held: bool) -> tuple[str, str]:
        """Return the end of a message of reasoning with the next header, and such a header."""
        _, closing = self.reasoning_frame
        if not is_held:
            closing += "<|channel|>" if has_alternatives else "<|channel|>final<|message|>"
        return closing, "<|channel|>analysis"

    def call_header(self, name: str) -> str:
        """Return the header of a call; its arguments are the message."""
        if not _CALLABLE.fullmatch(name):
            raise ValueError(f"this model cannot call a tool named {name!r}")
        return f"<|channel|>commentary to=functions.{name}{self._json_mark}<|message|>"

    @property
    def _json_mark(self) -> str:
        return f" {CONSTRAIN}json" if self.id_of(CONSTRAIN) is not None else ""


PLAIN = Family()


def family_of(tokenizer: Any, vocabulary: Vocabulary, call_style: str) -> Family:
    """Return the family of a loaded model."""
    markers = {i: text for i, text in vocabulary.special.items() if text in (*MARKERS, CONSTRAIN)}
    if set(MARKERS) <= set(markers.values()):
        return HeaderFamily(tags=markers)
    ids: dict[int, str] = {}
    parts: dict[int, str] = {}
    tool_start, tool_end = tokenizer.tool_call_start or None, tokenizer.tool_call_end
    start_tokens, end_tokens = tokenizer.tool_call_start_tokens, tokenizer.tool_call_end_tokens
    if not call_style:
        call_style, tool_start, tool_end = find_format(tokenizer)
        start_tokens, end_tokens = (
            tokenizer.encode(tag, add_special_tokens=False) if tag else None
            for tag in (tool_start, tool_end)
        )
    pairs = (
        (tokenizer.think_start, tokenizer.think_start_tokens),
        (tokenizer.think_end, tokenizer.think_end_tokens),
        (tool_start, start_tokens),
        (tool_end, end_tokens),
    )
    for tag, tokens in pairs:
        if tag and tokens is not None and len(tokens) == 1:
            ids[tokens[0]] = tag
        elif tag:
            parts |= {i: text for i, text in vocabulary.special.items() if text and text in tag}
    return Family(
        think_start=tokenizer.think_start,
        think_end=tokenizer.think_end,
        tool_start=tool_start,
        tool_end=tool_end,
        tags=ids,
        parts=parts,
        call_style=call_style,
    )


def restored_family(family: Family) -> Family:
    """Return a family that was read from a file as what its tags make it."""
    has_headers = set(MARKERS) <= set(family.tags.values())
    return HeaderFamily(tags=family.tags) if has_headers else family

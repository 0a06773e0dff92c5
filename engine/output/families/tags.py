"""Models that mark reasoning and tool calls by tags in their text, as most do. Pure; any thread.

A model without tags belongs here as well: its answers are plain text.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from engine.files.fields import Fields
from engine.output.beginnings import end_of_last, read_turn, unquoted
from engine.output.channels import Beginning
from engine.output.families.family import Marks, OutputFrame
from engine.output.families.tag_splitter import TagSplitter
from engine.output.vocabulary import Vocabulary
from engine.stopping.record import Channel
from engine.values.request import GenerationRequest

_TOKEN_ID = re.compile(r"[0-9]{1,18}")

JSON_CALLS = "json_tools"
"""mlx-lm's name of the style ``<tool_call>{"name": …, "arguments": …}</tool_call>``."""


@dataclass(frozen=True, slots=True)
class TagFamily:
    """The tags of a model, as found in its tokenizer; see ``engine.output.families.family``."""

    think_start: str | None = None
    think_end: str | None = None
    tool_start: str | None = None
    tool_end: str | None = None
    tags: Mapping[int, str] = field(default_factory=dict)
    parts: Mapping[int, str] = field(default_factory=dict)
    call_style: str = ""

    has_headers = False
    answer_frame = OutputFrame()
    reasoning_frame = None

    @property
    def think_start_id(self) -> int | None:
        """The token that is exactly the tag which opens reasoning."""
        return self._id_of(self.think_start)

    @property
    def think_end_id(self) -> int | None:
        """The token that is exactly the tag which closes reasoning."""
        return self._id_of(self.think_end)

    @property
    def call_start_id(self) -> int | None:
        """The token that is exactly the tag which opens a tool call."""
        return self._id_of(self.tool_start)

    def _id_of(self, tag: str | None) -> int | None:
        found = (token_id for token_id, text in self.tags.items() if tag and text == tag)
        return next(found, None)

    def reasoning_edges(self, *, leaves_choice: bool, is_held: bool) -> tuple[Marks, Marks]:
        """Return the tags that close and open reasoning; anything may follow the closing one."""
        return self._marks_of(self.think_end), self._marks_of(self.think_start)

    def _marks_of(self, tag: str | None) -> Marks:
        token_id = self._id_of(tag)
        return (token_id,) if token_id is not None else (tag,) if tag else ()

    def splitter(self, beginning: Beginning) -> TagSplitter:
        """Return a fresh splitter for an answer that begins there."""
        edges = {channel: self._edges(channel) for channel in Channel}
        return TagSplitter(self.tags, self.parts, edges, beginning.channel)

    def _edges(self, channel: Channel) -> dict[str, Channel]:
        """Return the tags that count in a channel, and the channel that each opens."""
        if channel is Channel.TOOL:
            if self.tool_end:
                return {self.tool_end: Channel.TEXT}
            return {self.tool_start: Channel.TOOL} if self.tool_start else {}
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
        found = read_turn(turn, splitter, vocabulary)
        if found.channel is Channel.TOOL and not request.continues_message:
            # No template opens a call, so this is an example in the instructions.
            return Beginning()
        return found

    def narrowed(self, *, thinks: bool, calls: bool) -> "TagFamily":
        """Return the family without the tags that cannot occur in an answer."""
        return replace(
            self,
            think_start=self.think_start if thinks else None,
            tool_start=self.tool_start if calls else None,
            tool_end=self.tool_end if calls else None,
        )

    def call_frame(self, name: str) -> OutputFrame | None:
        """Return the marks around the arguments of a call; None if calls cannot be forced."""
        start, end = self.call_start_id, self._id_of(self.tool_end)
        if self.call_style != JSON_CALLS or start is None or end is None:
            return None
        quoted = json.dumps(name, ensure_ascii=False)
        return OutputFrame((start, f'\n{{"name": {quoted}, "arguments": '), ("}\n", end))

    def saved(self) -> dict[str, object]:
        """Return the fields of a saved run from which the family can be made again."""
        return {
            "think_start": self.think_start,
            "think_end": self.think_end,
            "tool_start": self.tool_start,
            "tool_end": self.tool_end,
            "ids": dict(self.tags),
            "parts": dict(self.parts),
            "call_style": self.call_style,
        }


def tags_of(tokenizer: Any, vocabulary: Vocabulary, call_style: str) -> TagFamily:
    """Return the tags of a loaded model."""
    ids: dict[int, str] = {}
    parts: dict[int, str] = {}
    pairs = (
        (tokenizer.think_start, tokenizer.think_start_tokens),
        (tokenizer.think_end, tokenizer.think_end_tokens),
        (tokenizer.tool_call_start, tokenizer.tool_call_start_tokens),
        (tokenizer.tool_call_end, tokenizer.tool_call_end_tokens),
    )
    for tag, tokens in pairs:
        if tag and tokens is not None and len(tokens) == 1:
            ids[tokens[0]] = tag
        elif tag:
            parts |= {i: text for i, text in vocabulary.special.items() if text and text in tag}
    return TagFamily(
        think_start=tokenizer.think_start,
        think_end=tokenizer.think_end,
        tool_start=tokenizer.tool_call_start or None,
        tool_end=tokenizer.tool_call_end,
        tags=ids,
        parts=parts,
        call_style=call_style,
    )


def saved_tags(fields: Fields) -> TagFamily:
    """Return the tags of a saved run; raises ``DamagedFile``."""
    return TagFamily(
        think_start=fields.maybe("think_start", str),
        think_end=fields.maybe("think_end", str),
        tool_start=fields.maybe("tool_start", str),
        tool_end=fields.maybe("tool_end", str),
        tags=_by_id(fields, "ids"),
        parts=_by_id(fields, "parts") if fields.has("parts") else {},
        call_style=fields.maybe("call_style", str) or "",
    )


def _by_id(fields: Fields, name: str) -> dict[int, str]:
    texts = fields.inner(name).each(str)
    for token_id in texts:
        if not _TOKEN_ID.fullmatch(token_id):
            raise fields.wrong(name, f"{token_id[:40]!r} is not a token id")
    return {int(token_id): text for token_id, text in texts.items()}

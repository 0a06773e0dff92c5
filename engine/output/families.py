"""Families of models: how each marks reasoning, tool calls and the answer in its output.

Pure; any thread.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from engine.files.json_fields import Fields
from engine.output.bare_calls import JSON_OBJECT, PYTHON_LIST, UntaggedCallSplitter
from engine.output.channels import Beginning, TagSplitter
from engine.output.harmony import CONSTRAIN, MARKERS, HeaderSplitter
from engine.output.prompt_end import Splitter, end_of_last, read_turn, unquoted
from engine.output.tool_calls import styles
from engine.output.tool_calls.tagged_calls import TAGS
from engine.output.vocabulary import Vocabulary
from engine.stopping.record import Channel
from engine.values.request import GenerationRequest

_TOKEN_ID = re.compile(r"[0-9]{1,18}")
_CALLABLE = re.compile(r"[^\s<]+")
# Styles whose calls need no tag.
_BARE_CALLS = {styles.LLAMA: JSON_OBJECT, styles.GEMMA: PYTHON_LIST}
# The formats that mlx-lm infers no parser for, with their tags: a model has one if its vocabulary
# or its template has the tags. Kimi K2's first template does not name its own.
_OWN_CALLS: tuple[tuple[str, str, str | None], ...] = (
    (styles.DEEPSEEK, "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"),
    (styles.KIMI, "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"),
    (styles.COMMAND, "<|START_ACTION|>", "<|END_ACTION|>"),
    (styles.JSON_CALLS, "<|tool_call|>", "<|/tool_call|>"),  # Phi-4-mini
    (styles.JSON_CALLS, "<|tool_call|>", None),  # Granite 3
    (styles.JSON_CALLS, "<TOOLCALL>", "</TOOLCALL>"),  # Nemotron Nano
    (styles.CODER, "<seed:tool_call>", "</seed:tool_call>"),
)
# What only a template tells, which goes before what a vocabulary has. Llama's and Hermes's ask for
# their format in these words; models that derive from Llama 3.1 and Qwen have the tokens only.
# Gemma's has no place for tools: a prompt that tells of them asks for one of its ways.
_TEMPLATE_CALLS: tuple[tuple[str, str, str, str | None], ...] = (
    ('{"name": function name, "parameters": ', styles.LLAMA, "<|python_tag|>", None),
    ("</tool_call>", styles.JSON_CALLS, "<tool_call>", "</tool_call>"),  # SmolLM3
    # A string in the code may contain the fence, but not at the beginning of a line.
    ("<start_of_turn>", styles.GEMMA, "```tool_code", "\n```"),
    # The vocabulary still has the tags of V3.1.
    (
        "dsml_token + 'function_calls>",
        styles.DSML,
        "<｜DSML｜function_calls>",
        "</｜DSML｜function_calls>",
    ),
    (
        "dsml_token + 'tool_calls>",
        styles.DSML,
        "<｜DSML｜tool_calls>",
        "</｜DSML｜tool_calls>",
    ),
)

Marks = tuple[int | str | tuple[int | str, ...], ...]
"""The marks that a model writes, in order: ids of tokens, plain text, and optional parts."""

OutputFrame = tuple[Marks, Marks]
"""The marks that a family writes before and behind free text."""


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
    def answer_frame(self) -> OutputFrame:
        """The marks around an answer that is held to a grammar."""
        return (), ()

    @property
    def reasoning_frame(self) -> OutputFrame | None:
        """The marks around reasoning that is a message of its own; None where it is none."""
        return None

    @property
    def call_tags(self) -> tuple[str | None, str | None]:
        """The tags before and behind a tool call; None where there is none."""
        return self.tool_start, self.tool_end

    @property
    def has_bare_calls(self) -> bool:
        """Whether a call is written without tags, so that it may continue a begun answer's text."""
        return self.call_style in _BARE_CALLS

    def id_of(self, tag: str | None) -> int | None:
        """Return the token that is exactly a tag; None if there is none."""
        ids = (token_id for token_id, text in self.tags.items() if tag and text == tag)
        return next(ids, None)

    def reasoning_edges(self, *, has_alternatives: bool, is_held: bool) -> tuple[Marks, Marks]:
        """Return the tags that close and open reasoning; anything may follow the closing one."""
        return self._marks_of(self.think_end), self._marks_of(self.think_start)

    def _marks_of(self, tag: str | None) -> Marks:
        token_id = self.id_of(tag)
        return (token_id,) if token_id is not None else (tag,) if tag else ()

    def splitter(self, beginning: Beginning) -> Splitter:
        """Return a fresh splitter for an answer that begins there."""
        edges = {channel: self._edges(channel) for channel in Channel}
        bare = _BARE_CALLS.get(self.call_style) if self.tool_start else None
        if bare is not None:
            return UntaggedCallSplitter(self.tags, self.parts, edges, beginning.channel, bare)
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
        tags = TAGS.get(self.call_style)
        if tags is None or not tags.call_end or not self.tool_start:
            return self
        return replace(self, untagged={tags.opening(name): tags.call_end for name in names})

    def call_header(self, name: str) -> OutputFrame | None:
        """Return the header of a call that is a message of its own; None where it is none."""
        return None

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
            "untagged": dict(self.untagged),
        }


def with_json_calls(family: Family, vocabulary: Vocabulary) -> Family:
    """Return the family of answers in which a call is JSON between ``<tool_call>`` tags."""
    if family.has_headers:
        return family
    start, end = "<tool_call>", "</tool_call>"
    ids = {i: text for i, text in enumerate(vocabulary.text) if text in (start, end)}
    return replace(
        family,
        tool_start=start,
        tool_end=end,
        tags={**family.tags, **ids},
        call_style=styles.JSON_CALLS,
    )


def _own_calls(tokenizer: Any) -> tuple[str, str | None, str | None]:
    """Return our name of the format of a model's calls and its tags; nothing where it has none."""
    vocabulary, template = tokenizer.get_vocab(), str(tokenizer.chat_template)
    for marker, style, start, end in _TEMPLATE_CALLS:
        if marker in template:
            return style, start, end
    for style, start, end in _OWN_CALLS:
        if all(tag in vocabulary or tag in template for tag in (start, end) if tag):
            if style == styles.DEEPSEEK and "```json" in template:
                style = styles.DEEPSEEK_FENCED
            return style, start, end
    return "", None, None


def tags_of(tokenizer: Any, vocabulary: Vocabulary, call_style: str) -> Family:
    """Return the tags of a loaded model."""
    ids: dict[int, str] = {}
    parts: dict[int, str] = {}
    tool_start, tool_end = tokenizer.tool_call_start or None, tokenizer.tool_call_end
    start_tokens, end_tokens = tokenizer.tool_call_start_tokens, tokenizer.tool_call_end_tokens
    if not call_style:
        call_style, tool_start, tool_end = _own_calls(tokenizer)
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


def saved_tags(fields: Fields) -> Family:
    """Return the tags of a saved run; raises ``DamagedFile``."""
    return Family(
        think_start=fields.maybe("think_start", str),
        think_end=fields.maybe("think_end", str),
        tool_start=fields.maybe("tool_start", str),
        tool_end=fields.maybe("tool_end", str),
        tags=_by_id(fields, "ids"),
        parts=_by_id(fields, "parts") if fields.has("parts") else {},
        call_style=fields.maybe("call_style", str) or "",
        untagged=fields.maybe("untagged", dict[str, str]) or {},
    )


def _by_id(fields: Fields, name: str) -> dict[int, str]:
    texts = fields.take(name, dict[str, str])
    for token_id in texts:
        if not _TOKEN_ID.fullmatch(token_id):
            raise fields.wrong(name, f"{token_id[:40]!r} is not a token id")
    return {int(token_id): text for token_id, text in texts.items()}


@dataclass(frozen=True, slots=True)
class HeaderFamily(Family):
    """The family of gpt-oss: each message has a header, and the tags are the markers of headers."""

    has_headers = True

    def splitter(self, beginning: Beginning) -> "HeaderSplitter":
        """Return a fresh splitter for an answer that begins there."""
        return HeaderSplitter(self.tags, beginning.header, beginning.channel)

    def beginning(
        self, request: GenerationRequest, tokens: Sequence[int], vocabulary: Vocabulary
    ) -> Beginning:
        """Return where the answer to a request begins: after the prompt's last header."""
        splitter = HeaderSplitter(self.tags)
        start = end_of_last(tokens, {self._id("start")})
        beginning = read_turn(tokens[max(start - 1, 0) :], splitter, vocabulary)
        return Beginning(beginning.channel, splitter.header, beginning.call, beginning.tool_name)

    def with_tags(self, *, thinking: bool, tools: bool) -> "HeaderFamily":
        """Return the family itself: every message keeps its header."""
        return self

    @property
    def answer_frame(self) -> OutputFrame:
        """The header of an answer in JSON."""
        json_mark = self._json_mark()
        format_name = (json_mark,) if json_mark else ()
        return (self._id("channel"), "final", *format_name, self._id("message")), ()

    @property
    def reasoning_frame(self) -> OutputFrame:
        """The header of reasoning, its end, and the beginning of the message that follows."""
        return (
            (self._id("channel"), "analysis", self._id("message")),
            (self._id("end"), self._id("start"), "assistant"),
        )

    def reasoning_edges(self, *, has_alternatives: bool, is_held: bool) -> tuple[Marks, Marks]:
        """Return the end of a message of reasoning with the next header, and such a header."""
        channel = self._id("channel")
        _, closing = self.reasoning_frame
        if has_alternatives and not is_held:
            closing = (*closing, channel)
        elif not is_held:
            closing = (*closing, channel, "final", self._id("message"))
        return closing, (channel, "analysis")

    def call_header(self, name: str) -> OutputFrame:
        """Return the header of a call; its arguments are the message."""
        if not _CALLABLE.fullmatch(name):
            raise ValueError(f"this model cannot call a tool named {name!r}")
        recipient = f"commentary to=functions.{name}"
        return (self._id("channel"), recipient, *self._json_mark(), self._id("message")), ()

    def _json_mark(self) -> tuple[int | str, ...]:
        constrain = self.id_of(CONSTRAIN)
        return () if constrain is None else (" ", constrain, "json")

    def _id(self, name: str) -> int:
        return next(i for i, text in self.tags.items() if text == f"<|{name}|>")

    def saved(self) -> dict[str, object]:
        """Return the fields of a saved run from which the family can be made again."""
        return {"harmony": {text: token_id for token_id, text in self.tags.items()}}


PLAIN = Family()

# A file names the fields of every family; those of the others are empty.
_NO_FIELDS = {**Family().saved(), **HeaderFamily().saved()}


def family_of(tokenizer: Any, vocabulary: Vocabulary, call_style: str) -> Family:
    """Return the family of a loaded model."""
    markers = {i: text for i, text in vocabulary.special.items() if text in (*MARKERS, CONSTRAIN)}
    if set(MARKERS) <= set(markers.values()):
        return HeaderFamily(tags=markers)
    return tags_of(tokenizer, vocabulary, call_style)


def family_to_fields(family: Family) -> dict[str, object]:
    """Return a family as the fields of a saved run."""
    return {**_NO_FIELDS, **family.saved()}


def family_from_fields(fields: Fields) -> Family:
    """Return the family of a saved run; raises ``DamagedFile``."""
    markers = fields.take("harmony", dict[str, int])
    if markers:
        return HeaderFamily(tags={token_id: text for text, token_id in markers.items()})
    return saved_tags(fields)

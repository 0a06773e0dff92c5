"""Channels of a model's output: where an answer begins, and where it switches to another.

An answer is split at tags, and at calls that need none. Pure; any thread.
"""

import copy
import re
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from engine.output.vocabulary import Vocabulary
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


class Splitter(Protocol):
    """Follows the channels of one answer.

    Attributes:
        channel: The channel that is open now.
        tags: Tokens that are structure by themselves, by id: ``take_tag`` must see them.
        parts: Special tokens that are part of a longer tag, by id, with the text to ``feed`` for
            them.
        scans_text: Whether text must go through ``feed``.
        closes_calls: Whether a call has an end mark of its own; if not, it ends with the answer.
        keeps_specials: Whether special tokens inside a call are a part of it.
    """

    channel: Channel
    tags: Mapping[int, str]
    parts: Mapping[int, str]
    scans_text: bool
    closes_calls: bool
    keeps_specials: bool

    @property
    def in_header(self) -> bool:
        """Whether a header is open; none of it is text."""
        ...

    @property
    def held(self) -> str:
        """The text that is held back because it could become a tag."""
        ...

    def feed(self, piece: str) -> Iterable[Part]:
        """Take text; yield the parts in order."""
        ...

    def take_tag(self, token_id: int) -> Iterable[Part]:
        """Take one of ``tags``; yield the parts that follow from it."""
        ...

    def opens(self, token_id: int) -> Switch | None:
        """Return the switch to the channel that one of ``tags`` would open now."""
        ...

    def is_text(self, token_id: int) -> bool:
        """Return whether one of ``tags`` would be plain text here."""
        ...

    def preview(self, piece: str) -> str | None:
        """Return the text that would come out if this piece were the last; None if it would
        complete a tag.
        """
        ...

    def finish(self) -> str:
        """Return the text that was held back; it can no longer become a tag."""
        ...

    def fork(self) -> "Splitter":
        """Return an independent copy in the same state."""
        ...


@dataclass(frozen=True, slots=True)
class Beginning:
    """Where an answer begins, which follows from the end of its prompt.

    Attributes:
        channel: The channel that is open.
        header: The part of a message's header that is in the prompt; None outside of headers.
        call: The part of an open tool call that is in the prompt.
        tool_name: The tool that the open call's tag named.
        strips_space: Whether white space at the beginning is the template's, which comes between
            the end of reasoning and the answer.
    """

    channel: Channel = Channel.TEXT
    header: str | None = None
    call: str = ""
    tool_name: str | None = None
    strips_space: bool = False


def continues_text(request: GenerationRequest, beginning: Beginning) -> bool:
    """Return whether an answer continues text of its prompt, so that its first space counts."""
    return request.prompt is not None or request.continues_answer or beginning.header is not None


def end_of_last(tokens: Sequence[int], wanted: Collection[int]) -> int:
    """Return the place after the last of the wanted tokens; 0 if there is none."""
    for place in range(len(tokens), 0, -1):
        if tokens[place - 1] in wanted:
            return place
    return 0


def unquoted(
    request: GenerationRequest,
    turn: Sequence[int],
    tags: Sequence[str],
    vocabulary: Vocabulary,
) -> Sequence[int]:
    """Return the tokens after a last message that quotes a tag; all tokens if it quotes none.

    Where no EOS separates the turns of a prompt, the message is among the tokens of the model's
    own turn, and a tag that it quotes must open nothing.
    """
    quoted = request.messages[-1].content.strip() if request.messages else ""
    if not any(tag in quoted for tag in tags):
        return turn
    texts = [vocabulary.text_of(token_id) for token_id in turn]
    place = "".join(texts).rfind(quoted)
    if place < 0:
        return turn
    end, length = place + len(quoted), 0
    for number, text in enumerate(texts):
        if length >= end:
            return turn[number:]
        length += len(text)
    return ()


def read_token(token_id: int, splitter: Splitter, vocabulary: Vocabulary) -> Iterable[Part]:
    """Let a splitter read a token; return the switches and the text that it gives.

    Args:
        token_id: The token.
        splitter: The splitter, in its state before the token.
        vocabulary: The model's token ids.
    """
    in_call = splitter.channel is Channel.TOOL
    if token_id in splitter.tags and not splitter.is_text(token_id):
        return splitter.take_tag(token_id)
    if token_id in splitter.parts and not in_call:
        return splitter.feed(splitter.parts[token_id])
    if token_id in vocabulary.special and not (in_call and splitter.keeps_specials):
        return ()
    return splitter.feed(vocabulary.text_of(token_id))


def read_turn(tokens: Sequence[int], splitter: Splitter, vocabulary: Vocabulary) -> Beginning:
    """Return what is open after tokens of a prompt, read as an answer."""
    texts: list[str] = []
    last: Switch | None = None
    for token_id in tokens:
        for part in read_token(token_id, splitter, vocabulary):
            if isinstance(part, Switch):
                texts.clear()
                last = part
            else:
                texts.append(part)
    text = "".join(texts)
    if splitter.channel is Channel.TOOL:
        name = None if last is None else last.tool_name
        return Beginning(Channel.TOOL, call=text + splitter.held, tool_name=name)
    is_answer = splitter.channel is Channel.TEXT and last is not None and last.strips_space
    return Beginning(splitter.channel, strips_space=is_answer and not text.strip())


# Tags that are one token are recognised by id, so that the same characters typed out by the model
# stay text; tags of several tokens are recognised by text.

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
        """Take one of ``tags``; yield the parts that follow from it."""
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

    def preview(self, piece: str) -> str | None:
        """Return the text that would come out if this piece were the last; None if it would
        complete a tag.
        """
        if not self.scans_text:
            return piece
        if self._scanner.would_match(piece):
            return None
        return self._shown(self._scanner.held + piece)

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
        self._scanner = StopMatcher((*typed, *call_ends))
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
    spellings = {tag}
    for stand_in, text in stand_ins.items():
        spellings |= {spelling.replace(text, stand_in) for spelling in spellings}
    return spellings


# Calls without tags: how such a call begins, and where it ends.

SEPARATORS = " \t\r\n;"
"""What may stand between two calls, or before the first."""

_NAME = r"[\w.-]{1,64}"
BARE_NAME = re.compile(_NAME)
"""Matches a name that such a call can have."""


@dataclass(frozen=True, slots=True)
class BareCalls:
    """How a call without tags begins.

    Attributes:
        whole: Matches text that begins a call for certain.
        begun: Matches text that may still become that.
    """

    whole: re.Pattern[str]
    begun: re.Pattern[str]


def _beginnings(*heads: Sequence[str]) -> BareCalls:
    """Return beginnings, each as a sequence of expressions."""
    whole, begun = [], []
    for head in heads:
        parts = (r"[\s;]*", *head)
        whole.append("".join(parts))
        nested = ""
        for part in reversed(parts):
            nested = f"(?:{part}{nested})?"
        begun.append(nested)
    return BareCalls(re.compile("|".join(whole)), re.compile("|".join(begun)))


def _object_head(*fields: Sequence[str]) -> list[str]:
    """Return the expressions of an object's first fields, each its key and value."""
    parts = [r"\{"]
    for number, (key, *value) in enumerate(fields):
        parts += [r"\s*", ","] if number else []
        parts += [r"\s*", *f'"{key}"', r"\s*", ":", r"\s*", *value]
    return parts


_NAMED = ("name", '"', _NAME, '"')
_TYPED = ("type", *'"function"')
_GIVEN = tuple((key, r"\{") for key in ("parameters", "arguments"))

JSON_OBJECT = _beginnings(
    *(_object_head(_NAMED, given) for given in _GIVEN),
    *(_object_head(_TYPED, _NAMED, given) for given in _GIVEN),
)
"""``{"name": "f", "parameters": {`` at the beginning of an answer, as Llama 3.1 writes it."""

_CALLED = (r"\[", r"\s*", r"[A-Za-z_][\w.]{0,63}", r"\(", r"\s*")

PYTHON_LIST = _beginnings((*_CALLED, r"\)"), (*_CALLED, r"[A-Za-z_]\w{0,63}", r"\s*", "="))
"""``[f(a=`` at the beginning of an answer, as Gemma 3 writes it."""

_MARK = re.compile(r"""[{}\[\]()"'\\]""")


class CallEnd:
    """Finds where the brackets of a call are closed; brackets in strings do not count."""

    __slots__ = ("_depth", "_is_escaped", "_quote")

    def __init__(self) -> None:
        self._depth = 0
        self._quote = ""
        self._is_escaped = False

    def feed(self, text: str) -> int:
        """Take more text; return the place in it after the last bracket, or -1."""
        place = 0
        if self._is_escaped and text:
            self._is_escaped = False
            place = 1
        while match := _MARK.search(text, place):
            mark, place = match[0], match.end()
            if mark == "\\":
                self._is_escaped = place == len(text)
                place += 1
            elif self._quote:
                if mark == self._quote:
                    self._quote = ""
            elif mark in "\"'":
                self._quote = mark
            elif mark in "{[(":
                self._depth += 1
            else:
                self._depth -= 1
                if self._depth <= 0:
                    return place
        return -1


class BareCallSplitter(TagSplitter):
    """Channels of a model whose calls need no tag: an answer that begins like one is a call.

    Such a call ends with its last bracket; another may follow. Text is held back as long as it may
    become the beginning of a call.
    """

    def __init__(
        self,
        ids: Mapping[int, str],
        parts: Mapping[int, str],
        edges: Mapping[Channel, Mapping[str, Channel]],
        starts_in: Channel,
        calls: BareCalls,
    ) -> None:
        super().__init__(ids, parts, edges, starts_in)
        self.closes_calls = True
        self._calls = calls
        self._scans_tags = self.scans_text
        self._begun: str | None = None
        self._end: CallEnd | None = None
        self._follow(starts_in)

    def _follow(self, channel: Channel) -> None:
        """Note that a channel begins."""
        self._begun = "" if channel is Channel.TEXT else None
        by_tag = Channel.TEXT in self._edges[Channel.TOOL].values()
        self._end = CallEnd() if channel is Channel.TOOL and not by_tag else None
        self.scans_text = True

    @property
    def held(self) -> str:
        """The text that is held back because it could become a tag or a call."""
        return (self._begun or "") + super().held

    def _enter(
        self,
        channel: Channel,
        tag: str = "",
        visible: int = 0,
        tokens: int = 0,
        call_ends: tuple[str, ...] = (),
    ) -> Switch:
        self._follow(channel)
        return super()._enter(channel, tag, visible, tokens, call_ends)

    def _scan(self, text: str) -> Iterator[Part]:
        if self._end is not None:
            yield from self._go_on(text, self._end)
        elif self._begun is not None:
            yield from self._begin(text)
        else:
            yield from super()._scan(text)

    def _begin(self, text: str) -> Iterator[Part]:
        text = self._take_begun() + text
        if self._calls.whole.match(text):
            call = text.lstrip(SEPARATORS)
            yield self._enter(Channel.TOOL, visible=len(text) - len(call))
            self._end = CallEnd()
            yield from self._go_on(call, self._end)
        elif self._calls.begun.fullmatch(text):
            self._begun = text
            self._forget(len(text))
        else:
            self.scans_text = self._scans_tags
            yield from super()._scan(text)

    def _go_on(self, text: str, end: CallEnd) -> Iterator[Part]:
        place = end.feed(text)
        if place < 0:
            self._pieces.clear()
            yield text
            return
        yield text[:place]
        yield self._enter(Channel.TEXT)
        yield from self._begin(text[place:])

    def _take_begun(self) -> str:
        begun, self._begun = self._begun or "", None
        return begun

    def take_tag(self, token_id: int) -> Iterator[Part]:
        """Take one of ``tags``; yield the parts that follow from it."""
        opening = self.opens(token_id)
        separators = 0
        if opening is not None and not (self._begun or "").strip(SEPARATORS):
            separators = len(self._take_begun())
        for part in super().take_tag(token_id):
            yield replace(part, visible=separators) if isinstance(part, Switch) else part

    def preview(self, piece: str) -> str | None:
        """Return the text that would come out if this piece were the last; None if it would
        complete a tag or a call.
        """
        if self._end is not None:
            return None if copy.copy(self._end).feed(piece) >= 0 else piece
        text = (self._begun or "") + piece
        begins = self._begun is not None and self._calls.whole.match(text)
        return None if begins else super().preview(text)

    def finish(self) -> str:
        """Return the text that was held back; it can no longer become a tag or a call."""
        return self._take_begun() + super().finish()

    def fork(self) -> TagSplitter:
        """Return an independent copy in the same state."""
        fork = super().fork()
        vars(fork).update(_end=copy.copy(self._end))
        return fork

"""Channels of a model's output: what a splitter returns, and where an answer begins.

Pure; any thread.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from engine.output.vocabulary import Vocabulary
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
        in_header: Whether a header is open; none of it is text.
        closes_calls: Whether a call has an end mark of its own; if not, it ends with the answer.
        keeps_specials: Whether special tokens inside a call are a part of it.
    """

    channel: Channel
    tags: Mapping[int, str]
    parts: Mapping[int, str]
    scans_text: bool
    in_header: bool
    closes_calls: bool
    keeps_specials: bool

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
    """

    channel: Channel = Channel.TEXT
    header: str | None = None
    call: str = ""
    tool_name: str | None = None


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
    """Return which channel is open after tokens of a prompt, read as an answer."""
    call: list[str] = []
    name: str | None = None
    for token_id in tokens:
        for part in read_token(token_id, splitter, vocabulary):
            if isinstance(part, Switch):
                call.clear()
                name = part.tool_name
            else:
                call.append(part)
    if splitter.channel is not Channel.TOOL:
        return Beginning(splitter.channel)
    return Beginning(Channel.TOOL, call="".join(call) + splitter.held, tool_name=name)

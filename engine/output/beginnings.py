"""Finds where an answer begins: in which channel, or in which header, its prompt ends.

Reads the prompt's last turn as if it were an answer. Pure; belongs to the engine thread.
"""

from collections.abc import Sequence

from engine.output.channels import Beginning, ChannelFormat, Splitter, Switch, TagSplitter
from engine.output.harmony import HarmonySplitter
from engine.output.vocabulary import Vocabulary
from engine.stopping.record import Channel
from engine.values.request import GenerationRequest


def open_splitter(channels: ChannelFormat, beginning: Beginning) -> Splitter:
    """Return a fresh splitter for an answer in a model's format."""
    if channels.harmony:
        return HarmonySplitter(channels.harmony, beginning.header, beginning.channel)
    return TagSplitter(channels, beginning.channel)


def continues_text(request: GenerationRequest, beginning: Beginning) -> bool:
    """Return whether an answer goes on with text of its prompt, so that its first space counts."""
    return request.prompt is not None or _is_continued(request) or beginning.header is not None


def find_beginning(
    request: GenerationRequest,
    tokens: Sequence[int],
    channels: ChannelFormat,
    vocabulary: Vocabulary,
) -> Beginning:
    """Return where the answer to a request begins.

    Args:
        request: The request; the answer to a raw prompt is text throughout.
        tokens: Its prompt.
        channels: The model's format.
        vocabulary: Its token ids.
    """
    if request.prompt is not None:
        return Beginning()
    if channels.harmony:
        return _in_harmony(tokens, channels, vocabulary)
    splitter = TagSplitter(channels)
    turn = tokens[_last(tokens, vocabulary.eos) + 1 :]
    if not splitter.scans_text and splitter.tags.keys().isdisjoint(turn):
        return Beginning()
    if not _is_continued(request):
        turn = _unquoted(request, turn, channels, vocabulary)
    found = _read(turn, splitter, vocabulary)
    if found.channel is Channel.TOOL and not _is_continued(request):
        # No template opens a call: what looks like one is an example in the instructions.
        return Beginning()
    return found


def _is_continued(request: GenerationRequest) -> bool:
    return bool(request.messages) and request.messages[-1].role == "assistant"


def _in_harmony(
    tokens: Sequence[int], channels: ChannelFormat, vocabulary: Vocabulary
) -> Beginning:
    start = channels.harmony["<|start|>"]
    place = _last(tokens, {start})
    splitter = HarmonySplitter(channels.harmony, None)
    found = _read(tokens[max(place, 0) :], splitter, vocabulary)
    return Beginning(found.channel, splitter.header, found.call, found.tool_name)


def _last(tokens: Sequence[int], wanted: set[int] | frozenset[int]) -> int:
    for place in range(len(tokens) - 1, -1, -1):
        if tokens[place] in wanted:
            return place
    return -1


def _unquoted(
    request: GenerationRequest,
    turn: Sequence[int],
    channels: ChannelFormat,
    vocabulary: Vocabulary,
) -> Sequence[int]:
    """Return what follows a message that quotes a tag: where no EOS parts the turns, it is
    among the tokens of the model's own turn, and must open nothing.
    """
    quoted = request.messages[-1].content.strip() if request.messages else ""
    if not any(tag in quoted for tag in (channels.think_start, channels.tool_start) if tag):
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


def _read(tokens: Sequence[int], splitter: Splitter, vocabulary: Vocabulary) -> Beginning:
    """Read tokens as an answer; return what is open after them."""
    is_harmony = isinstance(splitter, HarmonySplitter)
    call: list[str] = []
    name: str | None = None
    for token_id in tokens:
        if token_id in splitter.tags and not splitter.is_text(token_id):
            parts = splitter.take_tag(token_id)
        elif token_id in splitter.parts and splitter.channel is not Channel.TOOL:
            parts = splitter.feed(splitter.parts[token_id])
        elif token_id in vocabulary.special and (
            is_harmony or splitter.channel is not Channel.TOOL
        ):
            continue
        else:
            parts = splitter.feed(vocabulary.text_of(token_id))
        for part in parts:
            if isinstance(part, Switch):
                call.clear()
                name = part.tool_name
            else:
                call.append(part)
    if splitter.channel is not Channel.TOOL:
        return Beginning(splitter.channel)
    return Beginning(Channel.TOOL, call="".join(call) + splitter.held, tool_name=name)

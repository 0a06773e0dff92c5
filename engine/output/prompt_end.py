"""Where an answer begins, read from the end of its prompt. Pure; any thread."""

from collections.abc import Collection, Iterable, Sequence

from engine.output.channels import Beginning, Part, Switch, TagSplitter
from engine.output.harmony import HeaderSplitter
from engine.output.vocabulary import Vocabulary
from engine.stopping.record import Channel
from engine.values.request import PICTURE_MARK, GenerationRequest

Splitter = TagSplitter | HeaderSplitter
"""Follows the channels of one answer."""


def end_of_last(tokens: Sequence[int], sought: Collection[int]) -> int:
    """Return the place after the last of the wanted tokens; 0 if there is none."""
    for end in range(len(tokens), 0, -1):
        if tokens[end - 1] in sought:
            return end
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
    content = request.messages[-1].content if request.messages else ""
    if not any(tag in content for tag in tags):
        return turn
    # A picture's placeholders stand in the prompt between the pieces of the text.
    pieces = (piece.strip() for piece in reversed(content.split(PICTURE_MARK)))
    quoted = next(filter(None, pieces))
    texts = [vocabulary.text_of(token_id) for token_id in turn]
    end = "".join(texts).rfind(quoted)
    if end < 0:
        return turn
    end, length = end + len(quoted), 0
    for number, text in enumerate(texts):
        if length >= end:
            return turn[number:]
        length += len(text)
    return ()


def read_token(token_id: int, splitter: Splitter, vocabulary: Vocabulary) -> Iterable[Part]:
    """Let a splitter read a token; return the switches and the text that it gives."""
    in_call = splitter.channel is Channel.TOOL
    if token_id in splitter.tags and not splitter.is_text(token_id):
        return splitter.take_tag(token_id)
    if token_id in splitter.parts and not in_call:
        return splitter.feed(splitter.parts[token_id])
    if token_id in vocabulary.special and not (in_call and splitter.keeps_specials):
        return ()
    return splitter.feed(vocabulary.text_of(token_id))


def read_turn(tokens: Sequence[int], splitter: Splitter, vocabulary: Vocabulary) -> Beginning:
    """Return the open channel after tokens of a prompt, read as an answer."""
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

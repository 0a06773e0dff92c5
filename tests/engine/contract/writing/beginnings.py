"""What a prompt leaves open: the channel, or the header, in which its answer begins."""

import re

from engine.stopping.record import Channel
from tests.engine.contract.reading import Reading
from tests.engine.contract.writing.families import HARMONY_MARKERS
from tests.engine.contract.writing.vocabularies import EOS, Model


def start_of(model: Model, prompt: str, *, is_prefill: bool, has_tools: bool = True) -> Reading:
    """Return the state at the end of a templated prompt: what is open there, and nothing else.

    Only an assistant's own beginning can leave a call between tags open: what looks like one in
    a template is an example.
    """
    family = model.family
    if family.is_harmony:
        reading = Reading(model)
        begun = ""
        for part in re.split("(" + "|".join(map(re.escape, HARMONY_MARKERS)) + ")", prompt):
            if part in HARMONY_MARKERS:
                reading.take_marker(part)
            elif reading.header is not None:
                reading.header += part
            begun = "" if part in HARMONY_MARKERS else part
        return Reading(
            model,
            channel=reading.channel,
            header=reading.header,
            in_message=reading.in_message,
            name=reading.name,
            begun=begun if reading.channel is Channel.TOOL else "",
        )
    turn = prompt.rsplit(EOS, 1)[-1]
    if family.tool is not None and is_prefill and has_tools:
        opening, closing = ("".join(tag) for tag in family.tool)
        _, tag, begun = turn.rpartition(opening)
        if tag and not (closing and closing in begun):
            return Reading(model, channel=Channel.TOOL, begun=begun)
    if family.think is not None:
        opening, closing = ("".join(tag) for tag in family.think)
        # A tokenizer of words drops the white space behind a tag.
        if (turn.rstrip() if model.kind == "word-piece" else turn).endswith(closing):
            return Reading(model, has_tools=has_tools, strips=True)
        if turn.rfind(opening) > turn.rfind(closing):
            return Reading(model, has_tools=has_tools, channel=Channel.THINKING)
    return Reading(model, has_tools=has_tools)

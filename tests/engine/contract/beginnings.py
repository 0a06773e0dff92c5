"""What a prompt leaves open: the channel, or the header, in which its answer begins."""

import re

from engine.stopping.record import Channel
from tests.engine.contract.families import HARMONY_MARKERS
from tests.engine.contract.reading import Reading
from tests.engine.contract.vocabularies import EOS, Model


def start_of(model: Model, prompt: str) -> Reading:
    """Return the state at the end of a templated prompt: what is open there, and nothing else."""
    family = model.family
    if family.is_harmony:
        reading = Reading(model)
        for part in re.split("(" + "|".join(map(re.escape, HARMONY_MARKERS)) + ")", prompt):
            if part in HARMONY_MARKERS:
                reading.take_marker(part)
            elif reading.header is not None:
                reading.header += part
        return Reading(
            model,
            channel=reading.channel,
            header=reading.header,
            in_message=reading.in_message,
            name=reading.name,
        )
    if family.think is not None:
        turn = prompt.rsplit(EOS, 1)[-1]
        opening, closing = ("".join(tag) for tag in family.think)
        if turn.rfind(opening) > turn.rfind(closing):
            return Reading(model, channel=Channel.THINKING)
    return Reading(model)

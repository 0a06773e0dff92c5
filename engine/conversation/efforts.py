"""Reasoning efforts: the names in a chat template, and the nearest to a request."""

import re
from collections.abc import Sequence

from engine.values.request import Effort

OPTION = "reasoning_effort"
# What gpt-oss documents for a template that writes any word into the prompt.
FREE_FORM_EFFORTS = ("low", "medium", "high")
SCALE = tuple(effort.value for effort in Effort)
PROBE = "effortprobe"


def named_efforts(source: str) -> list[str]:
    """Return the words of the scale that a template names, ascending."""
    quoted = set(re.findall(r"""['"](\w+)['"]""", source))
    return [word for word in SCALE if word in quoted]


def nearest_effort(names: Sequence[str], effort: Effort) -> str | None:
    """Return the word of a template that is nearest to a wish, the higher one of two.

    None if the template names no degree of reasoning.
    """
    if effort.value in names:
        return effort.value
    # No wish for reasoning is mapped to the word that switches it off.
    candidates = [word for word in names if word != Effort.NONE.value]
    position = SCALE.index(effort.value)
    return min(
        candidates,
        key=lambda word: (abs(SCALE.index(word) - position), -SCALE.index(word)),
        default=None,
    )

"""Finds the family of a loaded model or of a saved run. Pure; any thread."""

from typing import Any

from engine.files.fields import Fields
from engine.output.families.family import Family
from engine.output.families.headers import HeaderFamily, headers_of, saved_headers
from engine.output.families.tags import TagFamily, saved_tags, tags_of
from engine.output.vocabulary import Vocabulary

PLAIN: Family = TagFamily()
"""A family without tags: the answer is the text that was generated, whatever it looks like."""

# A file names the fields of every family; those of the others are empty.
_NO_FIELDS = {**TagFamily().saved(), **HeaderFamily({}).saved()}


def family_of(tokenizer: Any, vocabulary: Vocabulary, call_style: str) -> Family:
    """Return the family of a loaded model.

    Args:
        tokenizer: mlx-lm's tokenizer wrapper.
        vocabulary: The model's token ids.
        call_style: mlx-lm's name for the format of its tool calls; empty where it has none.
    """
    return headers_of(vocabulary) or tags_of(tokenizer, vocabulary, call_style)


def family_to_fields(family: Family) -> dict[str, object]:
    """Return a family as the fields of a saved run."""
    return {**_NO_FIELDS, **family.saved()}


def family_from_fields(fields: Fields) -> Family:
    """Return the family of a saved run; raises ``DamagedFile``."""
    return saved_headers(fields) or saved_tags(fields)

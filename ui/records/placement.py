"""Where a conversation stands among the others: its folder, its tags, the order of the list.

Plain values without Qt; any thread.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

_MOST_TAG_CHARS = 40
_MOST_TAGS = 20


class ListOrder(StrEnum):
    """What the list of conversations is sorted by; pinned ones come first in each order."""

    RECENT = "recent"
    CREATED = "created"
    OLDEST = "oldest"
    TITLE = "title"


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a conversation stands among the others.

    Attributes:
        folder_id: The id of its folder; empty for none.
        tags: Its tags, each once, in the order in which they were given.
        is_archived: Whether it is hidden until the archive is shown.
    """

    folder_id: str = ""
    tags: tuple[str, ...] = ()
    is_archived: bool = False


def clean_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Return tags as they are kept: one line each, none twice whatever its case, and not too many.

    A comma separates tags where a person types them, so no tag has one.
    """
    kept: dict[str, str] = {}
    for tag in tags:
        line = " ".join(tag.replace(",", " ").split())[:_MOST_TAG_CHARS].strip()
        if line:
            kept.setdefault(line.casefold(), line)
    return tuple(kept.values())[:_MOST_TAGS]


def typed_tags(text: str) -> tuple[str, ...]:
    """Return the tags that a person typed, separated by commas."""
    return clean_tags(text.split(","))

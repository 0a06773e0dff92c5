"""Where a conversation is in the list: its folder, its tags, the order of the list.

Plain values without Qt; any thread.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

_MOST_TAG_CHARS = 40
_MOST_TAGS = 20


class ListOrder(StrEnum):
    """The order of the list of conversations; pinned ones always come first."""

    RECENT = "recent"
    CREATED = "created"
    OLDEST = "oldest"
    TITLE = "title"


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a conversation is in the list.

    Attributes:
        folder_id: The id of its folder; empty for none.
        tags: Its tags, each once, in the order in which they were added.
        is_archived: Whether it is hidden until the archive is shown.
    """

    folder_id: str = ""
    tags: tuple[str, ...] = ()
    is_archived: bool = False


def clean_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Return tags as they are kept: one line each, limited in number, each once ignoring case.

    A tag never contains a comma, because a person separates tags by commas.
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

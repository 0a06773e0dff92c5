"""Replaces images and documents in a conversation by notes, or refuses them.

The same in every dialect. Pure; any thread.
"""

import re
from typing import Literal

from api.transport.errors import FieldPath, invalid

# Only a well-formed media type is put into the prompt.
_MEDIA_TYPE = re.compile(r"[a-z]{1,20}/[a-z0-9.+-]{1,40}")


def note_of(
    path: FieldPath,
    media_type: object,
    *,
    is_allowed: bool,
    what: Literal["image", "document"] = "image",
) -> str:
    """Return the note that replaces an image in the prompt."""
    if not is_allowed:
        raise invalid(
            path,
            f"this model reads text only and cannot see this {what}; remove it from the "
            'conversation, or send "fullstop": {"images": "note"} to have a note in its place',
            code="unsupported_content",
        )
    known = isinstance(media_type, str) and _MEDIA_TYPE.fullmatch(media_type)
    kind = f" ({media_type})" if known else ""
    return f"[{what.capitalize()} not shown{kind}: this model reads text only.]"


def media_type_of(url: object) -> str | None:
    """Return the media type of an image in a data URL."""
    if not isinstance(url, str) or not url.startswith("data:"):
        return None
    return url[5:64].partition(",")[0].partition(";")[0]

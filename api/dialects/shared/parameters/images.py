"""Images and documents in a conversation: replaced by a note, or refused with their place.

The same in every dialect. Pure; any thread.
"""

import re
from typing import Literal

from api.transport.errors import FieldPath, invalid

# A media type reaches the prompt only if it is well-formed.
_MEDIA_TYPE = re.compile(r"[a-z]{1,20}/[a-z0-9.+-]{1,40}")


def note_of(
    path: FieldPath,
    media_type: object,
    *,
    is_allowed: bool,
    what: Literal["image", "document"] = "image",
) -> str:
    """Return the note that stands for an image in the prompt.

    Args:
        path: Where the image is in the request.
        media_type: What kind of image it is, where that is known.
        is_allowed: Whether the request wants notes.
        what: What it is, if it is not an image.

    Raises:
        ApiError: It does not.
    """
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
    """Return the type of an image that is written into a data URL."""
    if not isinstance(url, str) or not url.startswith("data:"):
        return None
    return url[5:64].partition(",")[0].partition(";")[0]

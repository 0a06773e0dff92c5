"""What becomes of an image in a conversation: a note in its place, or an error that names it.

The same in every dialect. Pure; any thread.
"""

from api.errors import FieldPath, invalid


def note_of(path: FieldPath, media_type: object, *, is_allowed: bool) -> str:
    """Return the note that stands for an image in the prompt.

    Args:
        path: Where the image is in the request.
        media_type: What kind of image it is, where that is known.
        is_allowed: Whether the request wants notes.

    Raises:
        ApiError: It does not.
    """
    if not is_allowed:
        raise invalid(
            path,
            "this model reads text only and cannot see this image; remove it from the "
            'conversation, or send "fullstop": {"images": "note"} to have a note in its place',
            code="unsupported_content",
        )
    known = isinstance(media_type, str) and media_type.startswith("image/")
    return f"[Image not shown{f' ({media_type})' if known else ''}: this model reads text only.]"


def media_type_of(url: object) -> str | None:
    """Return the type of an image that is written into a data URL."""
    if not isinstance(url, str) or not url.startswith("data:"):
        return None
    return url[5:64].partition(",")[0].partition(";")[0]

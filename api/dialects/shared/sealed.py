"""Texts that clients return unread: summaries, and reasoning that an answer does not show. Pure.

They are UTF-8 in base64 after a prefix, not encrypted.
"""

import base64
import binascii

SUMMARY_MARK = "fullstop-summary-1:"
REASONING_MARK = "fullstop-reasoning-1:"


def seal_text(text: str, mark: str) -> str:
    """Return a text as a client keeps it."""
    return mark + base64.b64encode(text.encode()).decode()


def open_sealed(content: str, mark: str) -> str | None:
    """Return the sealed text; None where the seal is not of this server."""
    if not content.startswith(mark):
        return None
    try:
        return base64.b64decode(content.removeprefix(mark), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None

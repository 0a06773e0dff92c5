"""Encodes the summary in an item of a compacted conversation.

It is UTF-8 in base64 after a prefix, not encrypted. Pure; any thread.
"""

import base64
import binascii

_MARK = "fullstop-summary-1:"


def sealed(summary: str) -> str:
    """Return a summary as the content of an item."""
    return _MARK + base64.b64encode(summary.encode()).decode()


def opened(content: str) -> str | None:
    """Return the summary in an item; None for an item that this server did not make."""
    if not content.startswith(_MARK):
        return None
    try:
        return base64.b64decode(content.removeprefix(_MARK), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None

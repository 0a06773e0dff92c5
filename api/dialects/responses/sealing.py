"""How a summary of a conversation travels in an item of a compacted one.

It is UTF-8 in base64 behind a mark: nobody is kept from reading it. Pure; any thread.
"""

import base64
import binascii

_MARK = "fullstop-summary-1:"


def sealed(summary: str) -> str:
    """Return a summary as the content of an item."""
    return _MARK + base64.b64encode(summary.encode()).decode()


def opened(content: str) -> str | None:
    """Return the summary in an item; None in one that this server has not made."""
    if not content.startswith(_MARK):
        return None
    try:
        return base64.b64decode(content.removeprefix(_MARK), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None

"""How long to wait for a busy server. Pure; any thread."""

import time
from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime

# Too many requests, not available now, and the vendor's own "overloaded".
BUSY = (429, 503, 529)
# A faulty server sends these too, so the probe must stop waiting at some point.
MAY_BE_BROKEN = 503
MOST_WAITS = 6
_FIRST_S = 0.5


def wait_s(headers: Mapping[str, str], number: int, longest_s: float) -> float:
    """Return how long to wait.

    Args:
        headers: The answer's headers, names in lower case.
        number: How many waits this request has had already.
        longest_s: The longest wait.
    """
    asked = _retry_after_s(headers.get("retry-after", ""))
    wanted = asked if asked is not None else _FIRST_S * 2**number
    return max(0.0, min(wanted, longest_s))


def _retry_after_s(text: str) -> float | None:
    """Return the header's wait in seconds, given as seconds or as a date; None if it is neither."""
    try:
        return float(text)
    except ValueError:
        pass
    try:
        moment = parsedate_to_datetime(text)
    except (TypeError, ValueError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return moment.timestamp() - time.time()

"""Recognises the end of a stream by its last event, even if the connection stays open.

Pure; any thread.
"""

import json
import re
from collections.abc import Callable

from api.conformance.captures.values import WireDialect

_DONE = re.compile(rb"data: ?\[DONE\]\s*\Z").match
_MESSAGE_STOP = re.compile(rb'data:.*"type": ?"message_stop"').match
_LAST_RESPONSE = re.compile(rb'data:.*"type": ?"response\.(?:completed|incomplete|failed)"').match


def _is_done_object(line: bytes) -> bool:
    # A tool's arguments may contain "done" too, so only the object's own key counts.
    if b'"done"' not in line:
        return False
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and value.get("done") is True


_IS_LAST: dict[WireDialect, Callable[[bytes], object]] = {
    WireDialect.MESSAGES: _MESSAGE_STOP,
    WireDialect.CHAT: _DONE,
    WireDialect.COMPLETIONS: _DONE,
    WireDialect.GENERATE: _DONE,
    WireDialect.RESPONSES: _LAST_RESPONSE,
    WireDialect.OLLAMA: _is_done_object,
}


class EndMark:
    """Looks for the end of one stream as its bytes arrive; checks each line once.

    Args:
        dialect: The stream's dialect. If it has no last event, the stream ends with its connection.
    """

    def __init__(self, dialect: WireDialect) -> None:
        self._is_last = _IS_LAST.get(dialect)
        self._begin = 0
        self._is_seen = False

    def look(self, received: bytearray) -> bool:
        """Return whether the bytes so far contain the end."""
        if self._is_last is None or self._is_seen:
            return self._is_seen
        end = received.rfind(b"\n") + 1
        if end > self._begin:
            lines = bytes(received[self._begin : end]).splitlines()
            self._is_seen = any(self._is_last(line) for line in lines)
            self._begin = end
        return self._is_seen

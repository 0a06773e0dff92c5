"""Logs once a minute at most that the server cannot accept connections.

asyncio reports every failed ``accept`` with a traceback, once for each connection in its backlog:
500 times a second. It keeps trying even after the listener has been closed. Runs on the server's
loop.
"""

import asyncio
import errno
import logging
import time
from typing import Any

_log = logging.getLogger(__name__)
_OUT_OF_RESOURCES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_QUIET_S = 60.0


class AcceptFailures:
    """Handles failed ``accept`` calls; passes on the loop's other exceptions."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._before = loop.get_exception_handler()
        self._told_at_s: float | None = None
        self._has_ended = False

    def watch(self) -> None:
        """Handle the loop's exceptions from now on."""
        self._loop.set_exception_handler(self._handle)

    def end(self) -> None:
        """Note that the listener is closed, so that attempts still scheduled may fail."""
        self._has_ended = True

    def _handle(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        is_accept = "socket" in context
        if is_accept and isinstance(error, OSError) and error.errno in _OUT_OF_RESOURCES:
            self._tell(error)
        elif self._has_ended and "_start_serving" in str(context.get("message")):
            return
        elif self._before is not None:
            self._before(loop, context)
        else:
            loop.default_exception_handler(context)

    def _tell(self, error: OSError) -> None:
        now_s = time.monotonic()
        if self._told_at_s is None or now_s - self._told_at_s >= _QUIET_S:
            self._told_at_s = now_s
            _log.warning(
                "new connections wait: %s. Close some, or allow more open files (ulimit -n).",
                error.strerror,
            )

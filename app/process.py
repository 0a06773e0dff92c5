"""The process itself: its signals, its limit of open files, its garbage collection, its log."""

import asyncio
import contextlib
import json
import logging
import logging.handlers
import os
import resource
import select
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from io import TextIOWrapper
from pathlib import Path
from types import TracebackType
from typing import Self, TextIO

from app import exits
from app.paths import open_private

# Raises this process's limit of open files and connections, if the system allows it.
#
# Main thread, at start-up.

# macOS starts with 256 and allows at most this many, which connections, models and pipes share.
_MAX_OPEN_FILES = 10_240


def raise_limit() -> None:
    """Raise the soft limit of open files towards the hard limit; never lower it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = _MAX_OPEN_FILES if hard == resource.RLIM_INFINITY else min(_MAX_OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < limit:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))


# Lets SIGINT, SIGTERM and SIGHUP end the program; the second one ends it at once.
#
# Python handles a signal only while its interpreter runs, but Qt's loop waits outside of it. A
# wake-up descriptor that the loop watches returns to Python. Main thread.

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def exit_at_once() -> None:
    """End the process at once, whatever its threads are doing."""
    with contextlib.suppress(OSError, ValueError):
        if select.select((), (2,), (), 0)[1]:  # a terminal that nobody reads takes nothing
            os.write(2, b"fullstop: ended at once, as the second signal asked\n")
    os._exit(exits.INTERRUPTED)


class EndingSignals:
    """Catches the signals that end a program from now until ``close``.

    Created before the loop, so that a signal during start-up is neither lost nor fatal. SIGHUP
    stays ignored if it is ignored already, as by ``nohup``.

    Args:
        force: Called at a second signal, in case the program cannot end cleanly.
    """

    def __init__(self, force: Callable[[], object] = exit_at_once) -> None:
        self._force = force
        self._count = 0
        self._reading, self._writing = socket.socketpair()
        self._reading.setblocking(False)
        self._writing.setblocking(False)
        self._old_descriptor = signal.set_wakeup_fd(
            self._writing.fileno(), warn_on_full_buffer=False
        )
        self._old_handlers = {
            number: signal.signal(number, self._arrived)
            for number in _ENDING
            if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN
        }

    @contextlib.contextmanager
    def delivered(
        self, loop: asyncio.AbstractEventLoop, act: Callable[[], object]
    ) -> Iterator[None]:
        """Call ``act`` on the loop for each signal, including earlier ones, during the block."""

        def arrived() -> None:
            with contextlib.suppress(BlockingIOError):
                numbers = self._reading.recv(64)
                if any(number in numbers for number in _ENDING):
                    act()

        loop.add_reader(self._reading.fileno(), arrived)
        try:
            yield
        finally:
            loop.remove_reader(self._reading.fileno())

    def close(self) -> None:
        """Restore the previous signal handlers."""
        for number, handler in self._old_handlers.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._old_descriptor)
        self._reading.close()
        self._writing.close()

    def _arrived(self, _number: int, _frame: object) -> None:
        # The wake-up descriptor has the signal; the loop does the rest.
        self._count += 1
        if self._count > 1:
            self._force()


# Delivers every Ctrl-C on an event loop to the current handler.
#
# Python raises ``KeyboardInterrupt`` between any two bytecodes, and its line editing misses a
# signal that arrives just before it starts to wait. The loop's wake-up descriptor misses no
# signal. Main thread.


class Interrupts:
    """Catches Ctrl-C while it is open and calls the handler of the innermost ``calling``.

    Open it in a coroutine of the main thread. A Ctrl-C outside of every ``calling`` is kept for the
    next one, so that none is lost between two of them.
    """

    def __init__(self) -> None:
        self._act: Callable[[], object] | None = None
        self._is_pending = False

    def __enter__(self) -> Self:
        self._before = signal.getsignal(signal.SIGINT)
        self._loop = asyncio.get_running_loop()
        self._loop.add_signal_handler(signal.SIGINT, self._arrived)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._loop.remove_signal_handler(signal.SIGINT)
        signal.signal(signal.SIGINT, self._before)

    @contextlib.contextmanager
    def calling(self, act: Callable[[], object]) -> Iterator[None]:
        """Call ``act`` at each Ctrl-C during the block, and for a pending one."""
        outer, self._act = self._act, act
        try:
            if self._is_pending:
                self._arrived()
            yield
        finally:
            self._act = outer

    def _arrived(self) -> None:
        self._is_pending = self._act is None
        if self._act is not None:
            self._act()


# Where log records go: standard error for a server, a file for the window.
#
# Configures the standard library's logging; knows no component. Main thread, at start-up.

_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_OURS = ("app", "engine", "api", "ui")
_CLEAR_LINE = "\r\x1b[K"
_FILE_SIZE_BYTES = 1_000_000
_OLD_FILES = 3


def log_to_standard_error(is_verbose: bool) -> None:
    """Send warnings, or everything from ``INFO`` up of our own packages, to standard error."""
    _configure_log(_TerminalLog(sys.stderr), logging.INFO if is_verbose else logging.WARNING)


def log_as_json_lines() -> None:
    """Send everything from ``INFO`` up of our own packages to standard error, as JSON lines.

    Each has ``time`` (ISO 8601, UTC), ``level``, ``logger`` and ``message``; that of a request has
    ``method``, ``path``, ``status``, ``took_ms``, ``request_id`` and ``remote``; an error has
    ``traceback``.
    """
    _configure_log(logging.StreamHandler(sys.stderr), logging.INFO, _JsonLines())


def log_to_file(path: Path) -> None:
    """Send the log records of our packages to a file that is rotated by size."""
    handler = _PrivateLog(
        path, maxBytes=_FILE_SIZE_BYTES, backupCount=_OLD_FILES, encoding="utf-8", delay=True
    )
    _configure_log(handler, logging.INFO)


class _PrivateLog(logging.handlers.RotatingFileHandler):
    """A rotated file that only its owner can read."""

    def _open(self) -> TextIOWrapper:
        file = open(  # noqa: SIM115 - the handler closes it
            self.baseFilename, self.mode, encoding=self.encoding, opener=open_private
        )
        assert isinstance(file, TextIOWrapper)
        return file


class _TerminalLog(logging.StreamHandler[TextIO]):
    """Standard error, on which a record replaces the current status line."""

    def format(self, record: logging.LogRecord) -> str:
        # Here rather than in ``emit``, because an error must not reach the code that logs.
        has_status = self.stream.isatty() and os.environ.get("TERM") != "dumb"
        return f"{_CLEAR_LINE if has_status else ''}{super().format(record)}"


class _JsonLines(logging.Formatter):
    """Writes a record as one JSON object."""

    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        entry |= getattr(record, "fields", {})
        if record.exc_info:
            entry["traceback"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False, default=str)


def _configure_log(
    handler: logging.Handler, level: int, formatter: logging.Formatter | None = None
) -> None:
    handler.setFormatter(formatter or logging.Formatter(_FORMAT))
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    for name in _OURS:
        logging.getLogger(name).setLevel(level)

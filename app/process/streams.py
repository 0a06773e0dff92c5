"""The standard streams: closed, full, not UTF-8 or unread. Main thread, except as noted."""

import contextlib
import errno
import io
import logging
import os
import select
import sys
import threading
from collections import deque
from typing import Any, TextIO

from engine.files.causes import os_cause

_log = logging.getLogger(__name__)
CLEAR_LINE = "\r\x1b[K"
# Output that waits for a terminal or a pipe that nobody reads; a burst of log records is smaller.
_MAX_PENDING_BYTES = 256 * 1024


class OutputError(Exception):
    """Standard output cannot be written; the message says why."""


def takes_controls(stream: TextIO) -> bool:
    """Return whether a stream is a terminal with control sequences; a ``dumb`` one has none."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def prepare_streams() -> None:
    """Make each standard stream usable, whatever the program was started with.

    A closed descriptor would become that of the next opened file, which prints would then damage.
    Streams that another program has put in their place, such as a test runner, stay.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    if sys.stdout is None:
        closed = _OutputFile(os.open(os.devnull, os.O_RDONLY), "w")
        sys.stdout = io.TextIOWrapper(closed, "utf-8", write_through=True)
    elif sys.stdout is sys.__stdout__ and type(sys.stdout) is io.TextIOWrapper:
        file = io.BufferedWriter(_OutputFile(sys.stdout.fileno(), "w", closefd=False))
        sys.stdout = _stream(sys.stdout, file)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - as long as the program
    elif sys.stderr is sys.__stderr__ and type(sys.stderr) is io.TextIOWrapper:
        sys.stderr = _stream(sys.stderr, _LossyFile(sys.stderr.fileno(), "w", closefd=False))


def write_in_background() -> None:
    """Let no later write to standard output and error wait for a reader, or fail.

    A terminal after Ctrl-S, the stalled ssh of a sleeping laptop, and the pipe of a log program
    that hangs take nothing: a server whose loop writes there would answer nobody.
    """
    files: dict[tuple[int, int], _BackgroundFile] = {}
    for name in ("stdout", "stderr"):
        stream: TextIO = getattr(sys, name)
        file = getattr(stream, "buffer", None)
        if isinstance(getattr(file, "raw", file), (_OutputFile, _LossyFile)):
            stream.flush()
            status = os.fstat(stream.fileno())
            # One thread for both streams of a terminal keeps their order.
            identity = (status.st_dev, status.st_ino)
            if identity not in files:
                files[identity] = _BackgroundFile(stream.fileno())
            setattr(sys, name, _stream(stream, files[identity]))


def drain_streams() -> None:
    """Write pending output; wait only briefly for an unread stream.

    Raises:
        OutputError: Standard output cannot be written.
        BrokenPipeError: Nobody reads standard output any more.
    """
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
        file = getattr(stream, "buffer", None)
        if isinstance(file, _BackgroundFile):
            file.drain()


def discard_output() -> None:
    """Discard buffered output, which Python would write once more at its exit."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _stream(old: TextIO, file: Any) -> io.TextIOWrapper:
    """Return a stream like another over a file; what its encoding lacks is written as escapes."""
    return io.TextIOWrapper(
        file,
        encoding=old.encoding,
        errors="surrogateescape" if old.errors == "surrogateescape" else "backslashreplace",
        line_buffering=old.isatty(),
        write_through=isinstance(file, io.RawIOBase),
    )


def _write_some(descriptor: int, data: Any) -> int:
    """Call ``os.write``, and block also on a descriptor that another program set non-blocking."""
    while True:
        try:
            return os.write(descriptor, data)
        except BlockingIOError:
            select.select([], [descriptor], [])


class _OutputFile(io.FileIO):
    def write(self, data: Any) -> int:
        try:
            return _write_some(self.fileno(), data)
        except BrokenPipeError:
            raise
        except OSError as error:
            # A standard output that was closed before the start is a file that is only read.
            cause = "it is closed" if error.errno == errno.EBADF else os_cause(error)
            raise OutputError(f"cannot write to standard output: {cause}") from error


class _LossyFile(io.FileIO):
    """Standard error: a message that cannot be written is lost, and fails nothing."""

    def write(self, data: Any) -> int:
        rest = memoryview(data)
        with contextlib.suppress(OSError):
            while rest:
                rest = rest[_write_some(self.fileno(), rest) :]
        return memoryview(data).nbytes


class _BackgroundFile(io.RawIOBase):
    """A file that a thread writes; what exceeds the pending bytes is lost. Any thread."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._pending: deque[bytes] = deque()
        self._pending_bytes = 0
        self._lost = 0
        self._changed = threading.Condition()
        threading.Thread(target=self._run, name="fullstop-output", daemon=True).start()

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._descriptor

    def isatty(self) -> bool:
        return os.isatty(self._descriptor)

    def write(self, data: Any) -> int:
        text = bytes(data)
        with self._changed:
            if self._pending_bytes + len(text) > _MAX_PENDING_BYTES:
                self._lost += 1
            else:
                self._pending.append(text)
                self._pending_bytes += len(text)
                self._changed.notify_all()
        return len(text)

    def drain(self) -> None:
        """Wait until everything is written, but not long."""
        with self._changed:
            # The last lines of a program that ends are written unless nobody reads them.
            self._changed.wait_for(lambda: not self._pending_bytes, 0.5)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._pending)
                text = b"".join(self._pending)
                self._pending.clear()
            written = len(text)
            # Full or closed: there is nobody to report it to.
            with contextlib.suppress(OSError):
                while text:
                    text = text[_write_some(self._descriptor, text) :]
            with self._changed:
                self._pending_bytes -= written
                lost, self._lost = self._lost, 0
                self._changed.notify_all()
            if lost:
                _log.warning("%d pieces of output were lost: nobody read them", lost)

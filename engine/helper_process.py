"""A helper process that answers one frame at a time: a hostile file may crash it, not the program.

A frame is four bytes of length, then its content. The process runs a module of this program that
reads frames from its standard input and answers each on its standard output. One thread asks at a
time, any thread may close. Limits that a system does not have are skipped.
"""

import contextlib
import os
import resource
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import IO

_HEADER = struct.Struct(">I")


def read_frame(stream: IO[bytes]) -> bytes | None:
    """Return the next frame; None at the end of the stream."""
    header = stream.read(_HEADER.size)
    if len(header) < _HEADER.size:
        return None
    [size] = _HEADER.unpack(header)
    content = stream.read(size)
    return content if len(content) == size else None


def write_frame(stream: IO[bytes], content: bytes) -> None:
    """Write a frame and send it."""
    stream.write(_HEADER.pack(len(content)))
    stream.write(content)
    stream.flush()


class HelperClosed(Exception):
    """The helper has been closed."""


class HelperDied(Exception):
    """The process ended before it answered; its exit code, None if it took too long."""

    def __init__(self, code: int | None) -> None:
        super().__init__(code)
        self.code = code

    @property
    def exceeded_time(self) -> bool:
        """Whether the process was ended because it took or computed for too long."""
        return self.code in (None, -signal.SIGPROF, -signal.SIGXCPU)


class HelperProcess:
    """At most one process, started for the first frame, and again after it has ended."""

    def __init__(self, module: str) -> None:
        self._module = module
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._is_closed = False

    @property
    def pid(self) -> int | None:
        process = self._process
        return None if process is None else process.pid

    def ask(self, question: bytes, timeout_s: float) -> bytes:
        """Return the answer to a frame.

        Raises ``HelperClosed``, ``HelperDied``, or ``OSError`` if no process can be started.
        """
        if self._process is not None and self._process.poll() is not None:
            self.stop()
        process = self._process or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        timed_out = threading.Event()

        def end() -> None:
            timed_out.set()
            process.kill()

        timer = threading.Timer(timeout_s, end)
        timer.daemon = True
        timer.start()
        try:
            write_frame(process.stdin, question)
            if (answer := read_frame(process.stdout)) is not None:
                return answer
        except (OSError, ValueError):
            pass  # its pipe is closed: it has died
        finally:
            timer.cancel()
        # It has closed its output, so it is ending by itself, with its own exit code.
        with contextlib.suppress(subprocess.TimeoutExpired):
            # Python takes a moment to end after it has closed its files.
            process.wait(10.0)
        process.kill()
        code = None if timed_out.is_set() else process.wait()
        self.stop()
        raise HelperClosed if self._is_closed else HelperDied(code)

    def stop(self) -> None:
        """End the process; the next frame starts another. Only while nobody asks."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    with contextlib.suppress(OSError):  # unsent bytes have no reader
                        stream.close()

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            process = self._process
            if process is not None:
                process.kill()
        if process is not None:
            process.wait()

    def _start(self) -> "subprocess.Popen[bytes]":
        if not sys.executable:
            raise OSError("this program has no Python to start")
        # A signed app must not be changed by the helper's compiled files.
        flags = ["-B", "-P"] if sys.dont_write_bytecode else ["-P"]
        # The same modules as in this process; other settings of Python are not meant for it.
        variables = {name: value for name, value in os.environ.items() if name[:6] != "PYTHON"}
        variables["PYTHONPATH"] = os.pathsep.join(os.path.abspath(entry) for entry in sys.path)
        with self._lock:
            if self._is_closed:
                raise HelperClosed
            self._process = subprocess.Popen(
                [sys.executable, *flags, "-m", self._module],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=variables,
                start_new_session=True,
            )
            return self._process


# -- in the helper, on its main thread -----------------------------------------------------


def lower_priority() -> None:
    """Make this process unobtrusive: no core files, no reaction to Ctrl-C, a low priority."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is meant for the program
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(OSError):
        os.nice(10)


def limit_memory(more_bytes: int) -> None:
    """Limit this process to some more bytes, where the system can."""
    with contextlib.suppress(OSError, ValueError):
        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        with open("/proc/self/statm", encoding="ascii") as file:
            limit = int(file.read().split()[0]) * resource.getpagesize() + more_bytes
        if hard != resource.RLIM_INFINITY:
            limit = min(limit, hard)
        resource.setrlimit(resource.RLIMIT_AS, (limit, hard))


@contextlib.contextmanager
def cpu_limit(cpu_s: float) -> Iterator[None]:
    """End this process if the block computes for longer, even within native code."""
    signal.setitimer(signal.ITIMER_PROF, cpu_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)

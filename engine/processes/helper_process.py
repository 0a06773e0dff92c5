"""A process that answers one question at a time, and is replaced if a question crashes it."""

import contextlib
import os
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Iterable
from typing import IO

# The frames of bytes that a program and its helper process exchange.
#
# A frame is four bytes of length, then its content. Blocks; needs no other part of the program.

HEAD = struct.Struct(">I")


def read_frame(stream: IO[bytes]) -> bytes | None:
    """Return the next frame; None at the end of the stream."""
    head = stream.read(HEAD.size)
    if len(head) < HEAD.size:
        return None
    [size] = HEAD.unpack(head)
    content = stream.read(size)
    return content if len(content) == size else None


def write_frame(stream: IO[bytes], content: bytes) -> None:
    """Write a frame and send it."""
    write_parts(stream, len(content), (content,))


def write_parts(stream: IO[bytes], size: int, parts: Iterable[bytes | bytearray]) -> None:
    """Write a frame with content in several parts, and send it."""
    stream.write(HEAD.pack(size))
    for part in parts:
        stream.write(part)
    stream.flush()


# A process that answers one question at a time, and is replaced if a question crashes it.
#
# Blocks; one thread asks at a time, any thread may close. The process runs a module of this
# program that reads frames from its standard input and answers each on its standard output.

_LARGE_BLOCK = 1 << 20
# Python takes a moment to end after it has closed its files.
_ENDING_S = 10.0
# Signals that may come from outside: the question may be asked once more.
_FOREIGN = frozenset({signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT})


class HelperNotStarted(Exception):
    """The process cannot be started; the message says why."""


class HelperClosed(Exception):
    """The helper has been closed, by ``close``."""


class HelperDied(Exception):
    """The process ended, or was ended, before it answered.

    Attributes:
        code: Its exit code, negative for a signal; None if it took too long.
    """

    def __init__(self, code: int | None) -> None:
        super().__init__(code)
        self.code = code

    @property
    def is_foreign(self) -> bool:
        """Whether the cause may be something other than the question."""
        return self.code is None or -self.code in _FOREIGN

    @property
    def took_too_much_time(self) -> bool:
        """Whether the process ended because it computed for too long."""
        return self.code in (-signal.SIGPROF, -signal.SIGXCPU)

    @property
    def signal_name(self) -> str:
        """The name of the signal that ended it; empty if none did."""
        if self.code is None or self.code >= 0:
            return ""
        try:
            return signal.Signals(-self.code).name
        except ValueError:
            return f"signal {-self.code}"


class HelperProcess:
    """At most one process, started when it is first needed.

    Args:
        module: The name of the module that it runs.

    Attributes:
        starts: How many processes were started.
    """

    def __init__(self, module: str) -> None:
        self._module = module
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._is_closed = False
        self.starts = 0

    @property
    def pid(self) -> int | None:
        """The process's id, None while there is none."""
        process = self._process
        return None if process is None else process.pid

    def start(self) -> int:
        """Make sure that a process runs; return its number.

        Raises:
            HelperNotStarted: No process runs, and none can be started.
            HelperClosed: The helper has been closed.
        """
        if self._process is not None and self._process.poll() is not None:
            self._forget()
        if self._process is None:
            self._start()
        return self.starts

    def ask(self, size: int, parts: Iterable[bytes | bytearray], patience_s: float) -> bytes:
        """Ask the process that ``start`` started; return its answer.

        Args:
            size: Bytes of the question.
            parts: The question, which is sent part by part.
            patience_s: How long the answer may take, by the clock.

        Raises:
            HelperDied: There is no answer.
            HelperClosed: The helper has been closed.
        """
        process = self._process
        if process is None or process.stdin is None or process.stdout is None:
            raise self._end(None)
        has_passed = threading.Event()

        def give_up() -> None:
            has_passed.set()
            process.kill()

        patience = threading.Timer(patience_s, give_up)
        patience.daemon = True
        patience.start()
        try:
            write_parts(process.stdin, size, parts)
            head = process.stdout.read(HEAD.size)
            if len(head) == HEAD.size:
                [size] = HEAD.unpack(head)
                answer = process.stdout.read(size)
                if len(answer) == size:
                    return answer
        except (OSError, ValueError):
            pass  # its pipe is closed: it has died
        finally:
            patience.cancel()
        # It has closed its output, so it is ending by itself; its own exit code tells why.
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_ENDING_S)
        process.kill()
        raise self._end(None if has_passed.is_set() else process.wait())

    @property
    def memory_bytes(self) -> int:
        """The memory that the process takes; 0 if there is none, or that cannot be found out."""
        import psutil  # not every start of the program needs it

        pid = self.pid
        try:
            return 0 if pid is None else int(psutil.Process(pid).memory_info().rss)
        except psutil.Error:
            return 0

    def close(self) -> None:
        """End the process at once; it cannot be asked any more."""
        with self._lock:
            self._is_closed = True
            process = self._process
            if process is not None:
                process.kill()
        if process is not None:
            process.wait()

    def rest(self) -> None:
        """End the process; the next question gets a new one. Only while nobody asks."""
        if self._process is not None:
            self._process.kill()
        self._forget()

    def forget(self) -> None:
        """Release the process after ``close``, once nobody asks."""
        self._forget()

    def _start(self) -> None:
        if not sys.executable:
            raise HelperNotStarted("this program has no Python to start")
        words = [sys.executable, "-P", "-m", self._module]
        if sys.dont_write_bytecode:  # it may be part of a signed app
            words.insert(1, "-B")
        with self._lock:
            if self._is_closed:
                raise HelperClosed
            try:
                self._process = subprocess.Popen(
                    words,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    env=_environment(),
                    start_new_session=True,
                )
            except OSError as error:
                raise HelperNotStarted(error.strerror or type(error).__name__) from error
            self.starts += 1

    def _forget(self) -> None:
        """Release a process that has ended."""
        process, self._process = self._process, None
        if process is not None:
            process.wait()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    with contextlib.suppress(OSError):  # what was not sent has no reader
                        stream.close()

    def _end(self, code: int | None) -> Exception:
        """Release a process that did not answer; return the exception to raise."""
        self._forget()
        return HelperClosed() if self._is_closed else HelperDied(code)


def _environment() -> dict[str, str]:
    """Return the environment of the process, which finds the same modules as this one."""
    # Other settings for Python, such as warnings, are not meant for it.
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    path = os.pathsep.join(os.path.abspath(entry) for entry in sys.path)
    # One arena, because those of its threads would count as memory of its questions. And large
    # blocks go back to the system as soon as they are freed.
    blocks = {"MALLOC_ARENA_MAX": "1", "MALLOC_MMAP_THRESHOLD_": str(_LARGE_BLOCK)}
    return {**kept, "PYTHONPATH": path, **blocks}

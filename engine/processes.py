"""Processes: this one's threads and memory, helpers that may die of a question, and their limits.

No MLX is imported here, and settings that a system does not have are left out.
"""

import contextlib
import gc
import os
import resource
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from typing import IO, TypeVar

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


# The limits that a helper process sets for itself, on its main thread: time, memory, no core files.
# Those that a system does not have are left out.

_NICE = 10


def give_way() -> None:
    """Make this process unobtrusive: no core files, no reaction to Ctrl-C, a low priority."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is meant for the program
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(OSError):
        os.nice(_NICE)


def allow_memory(more: int | None) -> None:
    """Limit this process to ``more`` bytes beyond what it has; None removes the limit.

    Does nothing where the system has no such limit, or cannot tell what a process has.
    """
    with contextlib.suppress(OSError, ValueError):
        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        limit = hard
        if more is not None:
            with open("/proc/self/statm", encoding="ascii") as file:
                limit = int(file.read().split()[0]) * resource.getpagesize() + more
            if hard != resource.RLIM_INFINITY:
                limit = min(limit, hard)
        resource.setrlimit(resource.RLIMIT_AS, (limit, hard))


class CpuTimer:
    """Ends this process when it has computed for too long, even within native code.

    Args:
        cpu_s: Processor time that the block may take.
    """

    def __init__(self, cpu_s: float) -> None:
        self._cpu_s = cpu_s

    def __enter__(self) -> None:
        signal.setitimer(signal.ITIMER_PROF, self._cpu_s)

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)


# The running process: its garbage collector, its freed memory, work at a low priority.

# Pauses Python's cyclic garbage collector.

_lock = threading.Lock()
_pauses = 0
_threshold = 0


@contextlib.contextmanager
def collector_paused() -> Iterator[None]:
    """Pause the collector inside the block.

    An import makes hundreds of thousands of objects, and hardly any are garbage. This sets the
    threshold instead of turning the collector off and on: a window turns it off for good, perhaps
    during the pause, because it must not run on other threads, and turning it on at the end would
    undo that.
    """
    global _pauses, _threshold
    with _lock:
        if not _pauses:
            _threshold, *older = gc.get_threshold()
            gc.set_threshold(0, *older)
        _pauses += 1
    try:
        yield
    finally:
        with _lock:
            _pauses -= 1
            young, *older = gc.get_threshold()
            if not _pauses and not young:  # otherwise it was set elsewhere meanwhile
                gc.set_threshold(_threshold, *older)


# Native work at a low priority.

_NICENESS = 10

T = TypeVar("T")


def done_quietly(work: Callable[[], T], stack_bytes: int = 0) -> T:
    """Do work on a thread of low priority; return its result, or raise its exception.

    Only for native code that lets other threads run meanwhile: if it held the interpreter's lock,
    all threads would wait for one of low priority.

    Args:
        work: The work.
        stack_bytes: The size of its stack; 0 for the system's default.
    """
    done: Future[T] = Future()

    def run() -> None:
        _lower_priority()
        try:
            done.set_result(work())
        except BaseException as error:
            done.set_exception(error)

    thread = threading.Thread(target=run, name="fullstop-quiet", daemon=True)
    before = threading.stack_size(stack_bytes)
    try:
        thread.start()
    finally:
        threading.stack_size(before)
    return done.result()


def _lower_priority() -> None:
    """Lower this thread's priority, where the system has one for each thread."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)


# Where the system refuses a setting, the engine works, only slower.

_TURN_S = 0.001


def set_switch_interval() -> None:
    """Let threads wait at most one millisecond for the interpreter's lock, instead of five.

    A step takes the lock several times. While another thread renders the template of a long
    conversation, which is pure Python, each time would cost a stream five milliseconds.
    """
    if sys.getswitchinterval() > _TURN_S:
        sys.setswitchinterval(_TURN_S)


def set_batch_scheduling() -> None:
    """Ask Linux not to interrupt this thread whenever one of MLX's threads has work.

    MLX's threads, which inherit the setting, wake up about a hundred times per token. On a core
    that they share with this thread, each wake-up would cost two context switches, a third of the
    time in all. The threads of windows and servers keep their own setting and so take precedence.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError):  # not permitted: slower, but it works
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


# Frees what MLX keeps for a thread that ends. Imports no MLX; any thread.


def leave_thread() -> None:
    """Free what MLX keeps for the calling thread, which must not use MLX afterwards.

    A stream that outlives its thread can abort the process at exit. Does nothing where MLX was
    never imported.
    """
    if (mx := sys.modules.get("mlx.core")) is not None:
        mx.synchronize()
        mx.clear_streams()

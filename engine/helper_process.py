"""A helper process that answers one question at a time: a hostile file may end it, not the program.

The process runs a module of this program, whose ``main`` calls ``serve``. A question and its answer
are JSON objects. One thread asks at a time, any thread may close. Limits that a system does not
have are skipped.
"""

import contextlib
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any


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
    """At most one process, started for the first question, and again after it has ended."""

    def __init__(self, module: str) -> None:
        self._module = module
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None
        self._is_closed = False

    def ask(self, question: dict[str, Any], timeout_s: float, cpu_s: float) -> dict[str, Any]:
        """Return the answer to a question, which may take ``cpu_s`` of processor time.

        Raises ``HelperClosed``, ``HelperDied``, or ``OSError`` if no process can be started.
        """
        if self._process is not None and self._process.poll() is not None:
            self.stop()
        if self._process is None or self._connection is None:
            self._process, self._connection = self._start()
        process, connection = self._process, self._connection
        has_ended = True
        with contextlib.suppress(EOFError, OSError):
            connection.send_bytes(json.dumps({**question, "cpu_s": cpu_s}).encode())
            if has_ended := connection.poll(timeout_s):
                answer: dict[str, Any] = json.loads(connection.recv_bytes())
                return answer
        if has_ended:  # with its own exit code, a moment after it has closed its end
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(10.0)
        process.kill()
        code = process.wait() if has_ended else None
        self.stop()
        raise HelperClosed if self._is_closed else HelperDied(code)

    def stop(self) -> None:
        """End the process; the next question starts another. Only while nobody asks."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            process = self._process
            if process is not None:
                process.kill()
        if process is not None:
            process.wait()

    def _start(self) -> tuple["subprocess.Popen[bytes]", Connection]:
        if not sys.executable:
            raise OSError("this program has no Python to start")
        # A signed app must not be changed by the helper's compiled files.
        flags = ["-B", "-P"] if sys.dont_write_bytecode else ["-P"]
        # The same modules as in this process; other settings of Python are not meant for it.
        variables = {name: value for name, value in os.environ.items() if name[:6] != "PYTHON"}
        variables["PYTHONPATH"] = os.pathsep.join(os.path.abspath(entry) for entry in sys.path)
        own, its = socket.socketpair()
        with its, self._lock:
            connection = Connection(own.detach())
            if self._is_closed:
                raise HelperClosed
            self._process = subprocess.Popen(
                [sys.executable, *flags, "-m", self._module, str(its.fileno())],
                pass_fds=[its.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,  # a library's output
                stderr=subprocess.DEVNULL,
                env=variables,
                start_new_session=True,
            )
            return self._process, connection


# -- in the helper, on its main thread -----------------------------------------------------


def serve(answer: Callable[[dict[str, Any]], dict[str, Any]], max_memory_bytes: int) -> None:
    """Answer questions until the program ends, with little memory and at a low priority."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is meant for the program
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(OSError):
        os.nice(10)
    sys.setrecursionlimit(3000)  # functions that call each other read nested objects
    _limit_memory(max_memory_bytes)
    connection = Connection(int(sys.argv[1]))
    while True:
        try:
            question = json.loads(connection.recv_bytes())
        except EOFError:
            return
        # Ends this process if it computes for longer, even within native code.
        signal.setitimer(signal.ITIMER_PROF, question["cpu_s"])
        written = json.dumps(answer(question)).encode()
        signal.setitimer(signal.ITIMER_PROF, 0)
        connection.send_bytes(written)
        del written


def _limit_memory(more_bytes: int) -> None:
    """Limit this process to some more bytes, where the system can."""
    with contextlib.suppress(OSError, ValueError):
        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        with open("/proc/self/statm", encoding="ascii") as file:
            limit = int(file.read().split()[0]) * resource.getpagesize() + more_bytes
        if hard != resource.RLIM_INFINITY:
            limit = min(limit, hard)
        resource.setrlimit(resource.RLIMIT_AS, (limit, hard))

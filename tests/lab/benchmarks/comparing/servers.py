"""Starts servers, waits until they answer, and ends them with all that they started.

Knows no measure. What a server prints goes to a file, so that a full pipe never blocks it and its
last lines can be told when it fails. Runs on the comparison's loop.
"""

import asyncio
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import aiohttp
import psutil

from tests.lab.benchmarks.comparing.configuration import ServerCommand, filled
from tests.lab.benchmarks.reading import free_port, pin

ROOT = Path(__file__).parents[4]
_POLL_S = 0.02
_GRACE_S = 5.0
_TAIL_LINES = 8
_VERSION_TIMEOUT_S = 60


class ServerFailed(Exception):
    """A server did not start, ended, or did not answer; the message says which."""

    def __init__(self, why: str, tail: Sequence[str] = ()) -> None:
        super().__init__(why)
        self.tail = tuple(tail)


@dataclass(frozen=True, slots=True)
class Running:
    """A server that takes requests."""

    url: str
    process: subprocess.Popen[bytes]
    output: IO[bytes]
    began_s: float

    @property
    def memory_mb(self) -> float:
        """Resident memory of the process and of those that it started."""
        return self._sum(lambda one: one.memory_info().rss) / 1e6

    @property
    def processor_s(self) -> float:
        """The processor time of all their threads so far."""
        return self._sum(lambda one: sum(one.cpu_times()[:2]))

    def _sum(self, read: Callable[[psutil.Process], float]) -> float:
        try:
            parent = psutil.Process(self.process.pid)
            total, children = read(parent), parent.children(recursive=True)
        except psutil.NoSuchProcess:
            raise self.failed("it is gone") from None
        for child in children:
            with suppress(psutil.NoSuchProcess):
                total += read(child)
        return total

    @property
    def has_ended(self) -> bool:
        return self.process.poll() is not None

    def failed(self, why: str) -> ServerFailed:
        """Return the failure, with the last lines of the output."""
        if self.has_ended:
            why = f"{why}; its process ended with code {self.process.returncode}"
        return ServerFailed(why, last_lines(self.output))


def last_lines(output: IO[bytes], count: int = _TAIL_LINES) -> list[str]:
    """Return the last lines of what a process has written."""
    # The process shares the file's position: reading must not move it.
    size = os.fstat(output.fileno()).st_size
    begin = max(0, size - 8192)
    text = os.pread(output.fileno(), size - begin, begin).decode("utf-8", "replace")
    return [line for line in text.splitlines() if line.strip()][-count:]


def is_installed(command: ServerCommand, model: Path) -> bool:
    """Whether the program of a command line is installed."""
    return shutil.which(_program(command.command, model)) is not None


def version_of(command: ServerCommand, model: Path) -> str:
    """Return the version that a server reports; "" if it reports none."""
    if not command.version:
        return ""
    words = _words(command.version, model, 0)
    try:
        done = subprocess.run(
            words, cwd=ROOT, capture_output=True, text=True, timeout=_VERSION_TIMEOUT_S, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return (done.stdout.split() or [""])[-1]


@asynccontextmanager
async def running(
    command: ServerCommand, model: Path, *, timeout_s: float, cores: Sequence[int] = ()
) -> AsyncIterator[Running]:
    """Start a server, wait until it is ready, and end it when the block is left."""
    with tempfile.TemporaryFile() as output:
        server = _started(command, model, output, cores)
        try:
            try:
                async with asyncio.timeout(timeout_s):
                    await _ready(server, command.ready)
            except TimeoutError:
                raise server.failed(f"it was not ready within {timeout_s:g} s") from None
            yield server
        finally:
            _end(server.process)


def _started(
    command: ServerCommand, model: Path, output: IO[bytes], cores: Sequence[int]
) -> Running:
    port = free_port()
    began_s = time.perf_counter()
    try:
        process = subprocess.Popen(
            _words(command.command, model, port),
            cwd=ROOT,
            env={**os.environ, **command.environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # a group of its own, to be ended as a whole
            preexec_fn=lambda: pin(cores),
        )
    except OSError as error:
        raise ServerFailed(f"it cannot be started: {error.strerror}") from error
    return Running(f"http://127.0.0.1:{port}", process, output, began_s)


async def _ready(server: Running, path: str) -> None:
    limit = aiohttp.ClientTimeout(total=5)
    async with aiohttp.ClientSession(timeout=limit) as session:
        while not server.has_ended:
            try:
                async with session.get(server.url + path) as answer:
                    if not path or answer.ok:
                        return
            except (aiohttp.ClientError, TimeoutError):
                pass
            await asyncio.sleep(_POLL_S)
    raise server.failed("it did not start")


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process and its group: by SIGTERM, then by SIGKILL."""
    for how in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, how)
        except (ProcessLookupError, PermissionError):
            break
        try:
            process.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            continue
    process.wait()


def _program(words: Sequence[str], model: Path) -> str:
    return os.path.expanduser(filled(words[0], model=model))


def _words(words: Sequence[str], model: Path, port: int) -> list[str]:
    return [_program(words, model), *(filled(one, model=model, port=port) for one in words[1:])]

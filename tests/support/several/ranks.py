"""Servers of several processes on this machine, and what they answer in every dialect."""

import json
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from api.conformance.captures.recognition import parse
from api.conformance.captures.values import Capture, WireDialect
from api.conformance.probe.dialects import DRIVERS, Ask

# MLX's launcher waits until it could write to its processes, which is always: it takes a whole core
# from them. Nothing is typed here, so it may wait for what they write alone.
LAUNCHER = """
import select
from mlx._distributed_utils import launch
launch.select = lambda to_read, to_write, *rest: select.select(to_read, [], *rest)
launch.main()
"""


def free_ports(count: int) -> list[int]:
    """Return ports in a row that nobody has taken a moment ago."""
    while True:
        with socket.create_server(("127.0.0.1", 0)) as first:
            start = first.getsockname()[1]
            try:
                for port in range(start + 1, start + count):
                    socket.create_server(("127.0.0.1", port)).close()
            except OSError:
                continue
            return list(range(start, start + count))


def rank_settings(folder: Path, count: int) -> list[dict[str, str]]:
    """Return each process's variables, as MLX's launcher would set them."""
    file = folder / "hosts.json"
    file.write_text(json.dumps([[f"127.0.0.1:{port}"] for port in free_ports(count)]))
    return [{"MLX_RANK": str(rank), "MLX_HOSTFILE": str(file)} for rank in range(count)]


class LaunchedServer:
    """``fullstop serve`` as MLX's own launcher starts it on this machine."""

    def __init__(self, count: int, *words: str, environment: dict[str, str]) -> None:
        self.lines: list[str] = []
        port = str(free_ports(count)[0])
        launch = ["-c", LAUNCHER, "-n", str(count), "--backend", "ring", "--starting-port", port]
        program = ["-m", "app", "serve", "--port", "0", *words]
        self.process = subprocess.Popen(
            [sys.executable, *launch, "--", sys.executable, *program],
            stdin=subprocess.PIPE,  # from a closed one the launcher reads without end
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=Path(__file__).parents[3],
            env=environment,
            start_new_session=True,
        )
        self._is_ready = threading.Event()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def wait_until_ready(self) -> str:
        assert self._is_ready.wait(60), self.lines
        found = [line for line in self.lines if line.startswith("listening on ")]
        assert found, self.lines
        return found[0].removeprefix("listening on ").strip()

    def wait_for(self, words: str) -> str:
        """Return the line that holds these words; standard error comes in its own time."""
        deadline_s = time.monotonic() + 60
        while time.monotonic() < deadline_s:
            for line in self.lines:
                if words in line:
                    return line
            time.sleep(0.02)
        raise AssertionError(f"{words!r} was never said: {self.lines}")

    def end(self) -> int:
        """End it as Ctrl-C in a terminal does: all its processes are told."""
        import psutil

        ranks = psutil.Process(self.process.pid).children()
        for rank in ranks:
            rank.send_signal(signal.SIGINT)
        code = self.process.wait(timeout=30)
        self._reader.join(timeout=60)
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            stream.close()
        return code

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line)
            if line.startswith("listening on "):
                self._is_ready.set()
        self._is_ready.set()


DIALECTS = (
    WireDialect.MESSAGES,
    WireDialect.CHAT,
    WireDialect.COMPLETIONS,
    WireDialect.RESPONSES,
    WireDialect.GENERATE,
    WireDialect.OLLAMA,
)


class Case(NamedTuple):
    name: str
    dialect: WireDialect
    path: str
    body: dict[str, Any]


class Essence(NamedTuple):
    """What must not depend on how many processes gave an answer."""

    text: str
    thinking: str
    calls: tuple[Any, ...]
    reason: str | None
    matched: str | int | None
    output_tokens: int | None
    error: str | None


def cases(
    name: str, prompt: str, stop: str | None, max_tokens: int | None, **more: Any
) -> list[Case]:
    """Return one question in every dialect, streamed and not."""
    found = []
    for dialect in DIALECTS:
        driver = DRIVERS[dialect]
        for streams in (False, True):
            asked = Ask(
                prompt,
                () if stop is None else (stop,),
                max_tokens or 16,
                is_streamed=streams,
                is_thinking=False if driver.has_chat_template else None,
            )
            label = f"{name} {dialect} {'streamed' if streams else 'whole'}"
            found.append(Case(label, dialect, driver.path, driver.body(asked, "any") | more))
    return found


def answer(address: str, case: Case) -> Capture:
    """Return what a server says to a request."""
    request = urllib.request.Request(
        address + case.path, json.dumps(case.body).encode(), {"content-type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            return parse(response.read().decode(), case.dialect)
    except urllib.error.HTTPError as error:
        return parse(error.read().decode(), case.dialect)


def essence(capture: Capture) -> Essence:
    return Essence(
        capture.text,
        capture.thinking,
        capture.tool_calls,
        capture.reason,
        capture.matched,
        None if capture.usage is None else capture.usage.output_tokens,
        capture.error,
    )


def answers(address: str, asked: Iterable[Case], *, at_once: int) -> dict[str, Essence]:
    """Ask everything, so much at a time, and return what counts by the names of the cases."""
    with ThreadPoolExecutor(at_once) as pool:
        found = pool.map(lambda case: (case.name, essence(answer(address, case))), asked)
        return dict(found)

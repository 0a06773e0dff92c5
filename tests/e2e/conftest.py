import http.client
import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

import pytest

REPOSITORY = Path(__file__).parents[2]
PROGRAM = (sys.executable, "-m", "app")
ALPHABET = "Output the whole alphabet from A to Z, without spaces, then immediately output END"
COUNT = "Count from 1 to 10, one number per line"


def pytest_configure(config: pytest.Config) -> None:
    # The offscreen platform says so of every window; it is no fault of ours.
    config.addinivalue_line("qt_log_ignore", "This plugin does not support")


@dataclass(frozen=True)
class Row:
    """One question, its limits, and the expected answer."""

    prompt: str
    stop: str | None
    max_tokens: int | None
    text: str
    kind: str

    @property
    def value(self) -> str | None:
        return self.stop if self.kind == "stop_string" else None


ROWS = {
    "alphabet": Row(ALPHABET, "END", None, "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "stop_string"),
    "never": Row(
        "List letters A through F, separated by spaces.", "STOP", None, "A B C D E F", "eos"
    ),
    "word": Row("Repeat exactly: A B C STOP D E F", "STOP", None, "A B C ", "stop_string"),
    "words": Row(
        "Repeat exactly: 1 2 3 hello world 4 5", "hello world", None, "1 2 3 ", "stop_string"
    ),
    "digit": Row(COUNT, "6", None, "1\n2\n3\n4\n5\n", "stop_string"),
    "newline": Row(COUNT, "3\n4", None, "1\n2\n", "stop_string"),
    "limit": Row(COUNT, None, 5, "1\n2\n3", "max_tokens"),
}


@pytest.fixture(params=ROWS.values(), ids=ROWS.keys())
def row(request: pytest.FixtureRequest) -> Row:
    """Each row of the acceptance table that has a question for the demo model."""
    return request.param


def read_json(url: str, body: object = None, **headers: str) -> Any:
    """Send a GET, or a POST with a body, with only the standard library; return the answer."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"content-type": "application/json", **headers})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def begin_answer(address: str) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
    """Begin an endless answer; return its connection, and the stream after its first line."""
    body = {
        "model": "any",
        "stream": True,
        "max_tokens": 4000,
        "messages": [{"role": "user", "content": COUNT}],
        "logit_bias": {"2": -100},
    }
    connection = http.client.HTTPConnection(address.removeprefix("http://"), timeout=60)
    connection.request(
        "POST", "/v1/chat/completions", json.dumps(body), {"content-type": "application/json"}
    )
    answer = connection.getresponse()
    assert answer.readline()
    return connection, answer


def without_display() -> dict[str, str]:
    """Return this environment as on a machine without a display."""
    hidden = ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM")
    return {name: value for name, value in os.environ.items() if name not in hidden}


@pytest.fixture
def headless() -> dict[str, str]:
    """The environment of a machine without a display."""
    return without_display()


@pytest.fixture
def program() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs the program in a process of its own, without a display."""

    def run(*words: str, stdin: str = "", **settings: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*PROGRAM, *words],
            input=stdin,
            capture_output=True,
            text=True,
            cwd=REPOSITORY,
            env=without_display() | settings,
            timeout=400,
            check=False,
        )

    return run


class ServeProcess:
    """``fullstop serve`` in a process of its own."""

    def __init__(
        self, *words: str, preexec_fn: Callable[[], object] | None = None, **settings: str
    ) -> None:
        self.began_s = time.perf_counter()
        self.process = subprocess.Popen(
            [*PROGRAM, "serve", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=REPOSITORY,
            env=without_display() | settings,
            preexec_fn=preexec_fn,
        )
        # What it writes to standard error: what it loads, and all else.
        self.loads: list[str] = []
        self.errors: list[str] = []
        # The output after its address, once it has ended.
        self.told = ""
        assert self.process.stderr is not None
        self._reader = threading.Thread(target=self._read, args=(self.process.stderr,))
        self._reader.start()

    def _read(self, lines: Iterable[str]) -> None:
        for line in lines:
            (self.loads if " INFO app.loads: " in line else self.errors).append(line)

    def wait_until_ready(self) -> str:
        """Return the address that the process prints once it is ready."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.startswith(("listening on http://", "listening on https://")), (
            line,
            self.errors,
        )
        return line.removeprefix("listening on ").strip()

    def end(self, number: int = signal.SIGTERM) -> int:
        """Send a signal and return the exit code."""
        self.process.send_signal(number)
        code = self.process.wait(timeout=60)
        self._reader.join(timeout=60)
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self.told = self.process.stdout.read()
        self.process.stdout.close()
        self.process.stderr.close()
        return code


@pytest.fixture
def serve() -> Iterator[Callable[..., ServeProcess]]:
    """Starts servers and ends those that a test leaves running."""
    started: list[ServeProcess] = []

    def start(*words: str, **settings: str) -> ServeProcess:
        started.append(ServeProcess(*words, **settings))
        return started[-1]

    yield start
    for server in started:
        if server.process.poll() is None:
            server.end(signal.SIGKILL)


@pytest.fixture(scope="session")
def address() -> Iterator[str]:
    """The address of a server that all tests share; it must end without an error."""
    server = ServeProcess("--port", "0")
    try:
        yield server.wait_until_ready()
    finally:
        assert server.end() == 0, server.errors
    assert server.errors == []

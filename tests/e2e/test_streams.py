"""Standard streams that are closed, full, not UTF-8, or read by nobody."""

import os
import pty
import signal
import socket
import subprocess
import time
import tty
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tests.e2e.conftest import PROGRAM, without_display

FULL = (">/dev/full", "the disk is full")
CLOSED = (">&-", "it is closed")


def shell(command: tuple[str, ...], redirections: str, **variables: str) -> tuple[int, str]:
    """Run a command; return its exit code and what it wrote to standard error, if that is open."""
    ended = subprocess.run(
        ["sh", "-c", f'exec "$@" {redirections}', "sh", *PROGRAM, *command],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        env=without_display() | variables,
        text=True,
    )
    return ended.returncode, ended.stderr


@pytest.mark.parametrize(
    ("command", "output"),
    [
        (("--version",), FULL),
        (("models",), CLOSED),
        (("completion", "zsh"), FULL),
        (("launch", "claude", "--print"), CLOSED),
        (("ask", "Hi"), FULL),
        (("ask", "Hi"), CLOSED),
    ],
)
def test_standard_output_that_cannot_be_written_is_one_line_and_a_failure(
    command: tuple[str, ...], output: tuple[str, str]
) -> None:
    redirection, reason = output
    code, error = shell(command, redirection)
    *_, last = error.splitlines()
    assert (code, last) == (1, f"fullstop: cannot write to standard output: {reason}")
    assert "Traceback" not in error


@pytest.mark.parametrize("redirection", ["2>&-", "2>/dev/full"])
def test_an_answer_needs_no_standard_error(redirection: str) -> None:
    assert shell(("ask", "Hi"), redirection)[0] == 0
    assert shell(("ask",), redirection)[0] == 2


def test_all_streams_closed_still_gives_the_exit_code() -> None:
    assert shell(("models",), "<&- >&- 2>&-")[0] == 1


def test_characters_that_an_encoding_lacks_are_written_as_escapes() -> None:
    code, error = shell(("ask", "Hi"), "", PYTHONIOENCODING="ascii")
    assert code == 0
    assert r"\xb7" in error


def filled(descriptor: int) -> int:
    """Fill a terminal or a pipe that nobody reads."""
    os.set_blocking(descriptor, False)
    for size in (4096, 1):
        try:
            while True:
                os.write(descriptor, b"x" * size)
        except BlockingIOError:
            pass
    os.set_blocking(descriptor, True)
    return descriptor


@pytest.mark.parametrize(
    ("kind", "options"),
    [("terminal", ("--verbose",)), ("pipe", ("--log", "json")), ("full", ("--verbose",))],
)
def test_a_server_whose_output_nobody_takes_serves_and_ends(
    kind: str, options: tuple[str, ...], demo_model_path: Path
) -> None:
    if kind == "full":
        reading = output = os.open("/dev/full", os.O_WRONLY)
    else:
        reading, output = pty.openpty() if kind == "terminal" else os.pipe()
        if kind == "terminal":
            tty.setraw(output)
        filled(output)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen(
        [*PROGRAM, "serve", "--port", str(port), "--model", str(demo_model_path), *options],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        env=without_display() | {"TERM": "xterm"},
    )

    def is_ready() -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=30) as reply:
                return reply.status == 200
        except urllib.error.URLError:  # it does not listen yet, or loads its model
            return False

    try:
        ends_at = time.monotonic() + 60
        while not is_ready():
            assert time.monotonic() < ends_at
            assert server.poll() is None
            time.sleep(0.05)
        time.sleep(1)  # a status line is due every half second
        assert is_ready()
        server.send_signal(signal.SIGTERM)
        assert server.wait(30) == 0
    finally:
        server.kill()
        server.wait()
        for descriptor in {reading, output}:
            os.close(descriptor)

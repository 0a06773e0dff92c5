"""Prints how long it takes from starting the program to what a person waits for.

    python -m tests.lab.benchmarks.startup [--runs N] [--only server,ask,program]

``serve`` and ``ask`` are measured beside ``mlx_lm.server`` and ``mlx_lm.generate``, which do the
same on the demo model: the sides take turns, each process pinned to one core, and only ratios
mean anything. All of them run modules that were compiled by an earlier start, as an installed
program does, whatever PYTHONDONTWRITEBYTECODE says here. Memory is that after the first answer.
The other figures are medians of processes started one after the other.
"""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.lab.benchmarks.reading import cores, free_port, pin

REPOSITORY = Path(__file__).parents[3]
MODEL = REPOSITORY / "assets" / "demo-model"
PROGRAM = (sys.executable, "-m", "app")
THEIRS = (sys.executable, "-m", "mlx_lm")
QUESTION = "Count from 1 to 3, one number per line"
TOKENS = 32
TARGETS_S = {"window shown": 1.5}
_TIMEOUT_S = 120
_POLL_S = 0.005

# Ends as soon as the window has been painted, from inside the process that shows it.
_SHOW_WINDOW = """
import os, sys, time
from PySide6.QtCore import QEvent, QObject
from PySide6.QtWidgets import QApplication, QMainWindow

class Watch(QObject):
    def eventFilter(self, watched, event):
        if event.type() == QEvent.Type.Paint and isinstance(watched, QMainWindow):
            os.write(1, b"painted")
            os._exit(0)
        return False

watch = Watch()
made = QApplication.__init__
def make(self, *words):
    made(self, *words)
    self.installEventFilter(watch)
QApplication.__init__ = make

from app.cli import main
sys.exit(main([]))
"""


@dataclass(frozen=True)
class Start:
    """What one start of a program cost."""

    took_s: float
    processor_s: float
    memory_mb: float


@contextmanager
def started(words: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
    """Start a program on one core, and end it when the block is left."""
    process = subprocess.Popen(
        words,
        cwd=REPOSITORY,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=lambda: pin(cores()[:1]),
    )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def answer_of(process: subprocess.Popen[bytes], port: int) -> None:
    body = {
        "model": "default_model",
        "messages": [{"role": "user", "content": QUESTION}],
        "max_tokens": TOKENS,
        "temperature": 0,
        "chat_template_kwargs": {"enable_thinking": False},
    }
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/v1/chat/completions",
        json.dumps(body).encode(),
        {"content-type": "application/json"},
    )
    ends_at = time.monotonic() + _TIMEOUT_S
    while True:
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:
                answer.read()
            return
        except urllib.error.HTTPError:
            raise
        except OSError:  # nobody listens yet
            if time.monotonic() > ends_at or process.poll() is not None:
                raise
            time.sleep(_POLL_S)


def first_answer(words: Callable[[int], Sequence[str]]) -> Start:
    """Start a server, and measure until its first answer is there."""
    port = free_port()
    began_s = time.perf_counter()
    with started(words(port)) as process:
        answer_of(process, port)
        took_s = time.perf_counter() - began_s
        # The kernel's clock of another process (clock_getcpuclockid): threads that ended count.
        processor_s = time.clock_gettime((~process.pid << 3) | 2)
        status = Path(f"/proc/{process.pid}/status").read_text()
        [line] = [line for line in status.splitlines() if line.startswith("VmRSS")]
        return Start(took_s, processor_s, int(line.split()[1]) / 1000)


def one_answer(words: Sequence[str]) -> Start:
    began_s = time.perf_counter()
    process = subprocess.Popen(
        words,
        cwd=REPOSITORY,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=lambda: pin(cores()[:1]),
    )
    _, code, used = os.wait4(process.pid, 0)
    assert code == 0, f"{words} failed"
    took_s = time.perf_counter() - began_s
    return Start(took_s, used.ru_utime + used.ru_stime, used.ru_maxrss / 1000)


def our_server() -> Start:
    options = ("--model", str(MODEL))
    return first_answer(lambda port: (*PROGRAM, "serve", *options, "--port", str(port)))


def their_server() -> Start:
    options = ("--model", str(MODEL), "--log-level", "ERROR")
    return first_answer(lambda port: (*THEIRS, "server", *options, "--port", str(port)))


def our_terminal() -> Start:
    return one_answer((*PROGRAM, "ask", QUESTION, "--max-tokens", str(TOKENS)))


def their_terminal() -> Start:
    options = ("--model", str(MODEL), "--prompt", QUESTION, "--max-tokens", str(TOKENS))
    return one_answer((*THEIRS, "generate", *options))


def beside(what: str, ours: Callable[[], Start], theirs: Callable[[], Start], runs: int) -> None:
    """Let two programs take turns, and print ours against theirs."""
    found = [(ours(), theirs()) for _ in range(runs + 1)][1:]

    def medians(value: Callable[[Start], float]) -> tuple[float, float]:
        mine = statistics.median(value(one) for one, _ in found)
        return mine, statistics.median(value(other) for _, other in found)

    mine, other = medians(lambda one: one.took_s)
    print(f"{what:48}{mine / other:7.2f}     <= 1.0   ({mine:.2f} s, {other:.2f} s)")
    mine, other = medians(lambda one: one.processor_s)
    print(
        f"{'  by processor time':48}{mine / other:7.2f}     <= 1.0   ({mine:.2f} s, {other:.2f} s)"
    )
    mine, other = medians(lambda one: one.memory_mb)
    print(f"{'  memory':48}{mine - other:+7.1f} MB  <= +10   ({mine:.0f} MB, {other:.0f} MB)")
    sys.stdout.flush()


def serve_until_ready() -> float:
    """Return the seconds from starting ``serve`` to the line that says it listens."""
    began_s = time.perf_counter()
    server = subprocess.Popen(
        [*PROGRAM, "serve", "--port", "0"], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True
    )
    assert server.stdout is not None
    try:
        server.stdout.readline()
        return time.perf_counter() - began_s
    finally:
        server.terminate()
        server.wait()
        server.stdout.close()


def show_version() -> float:
    """Return the seconds that ``--version`` takes: the cost of the command line itself."""
    return _duration_s([*PROGRAM, "--version"])


def show_window() -> float:
    """Return the seconds from starting the program to the window's first paint."""
    return _duration_s([sys.executable, "-c", _SHOW_WINDOW])


MEASURED: dict[str, Callable[[], float]] = {
    "--version": show_version,
    "serve until it listens": serve_until_ready,
    "window shown": show_window,
}


def _duration_s(command: list[str]) -> float:
    began_s = time.perf_counter()
    subprocess.run(
        command,
        cwd=REPOSITORY,
        env=os.environ | {"QT_QPA_PLATFORM": "offscreen"},
        capture_output=True,
        check=True,
        timeout=_TIMEOUT_S,
    )
    return time.perf_counter() - began_s


def alone(runs: int) -> None:
    """Print the figures of our program that have no counterpart."""
    print(f"{'':28}{'median':>9}{'worst':>9}{'target':>9}")
    for name, measure in MEASURED.items():
        measure()
        times_s = [measure() for _ in range(runs)]
        target_s = TARGETS_S.get(name)
        aim = "" if target_s is None else f"< {target_s:.1f} s"
        median_s = statistics.median(times_s)
        print(f"{name:28}{median_s:7.2f} s{max(times_s):7.2f} s{aim:>9}", flush=True)


@contextmanager
def compiled_modules_kept() -> Iterator[None]:
    """Have every process that is started meanwhile find the modules that earlier ones compiled."""
    with tempfile.TemporaryDirectory() as folder:
        before = dict(os.environ)
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.environ["PYTHONPYCACHEPREFIX"] = folder
        try:
            yield
        finally:
            os.environ.clear()
            os.environ.update(before)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=5, help="processes per figure")
    parser.add_argument("--only", default="server,ask,program", help="server, ask, program")
    given = parser.parse_args()
    chosen = given.only.split(",")
    with compiled_modules_kept():
        if "server" in chosen:
            beside("first answer: serve / mlx_lm.server", our_server, their_server, given.runs)
        if "ask" in chosen:
            beside("whole: ask / mlx_lm.generate", our_terminal, their_terminal, given.runs)
        if "program" in chosen:
            alone(given.runs)


if __name__ == "__main__":
    main()

"""Prints how long it takes from starting the program to what a person waits for.

    python tests/benchmarks/startup.py [--runs N]

Each figure is the median of processes started one after the other on the demo model, after one
that warms the file cache. The target is that of ``serve`` to its first answer.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
PROGRAM = (sys.executable, "-m", "app")
QUESTION = "Count from 1 to 3, one number per line"
TARGETS_S = {"serve to its first answer": 2.5, "window shown": 1.5}

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


@contextmanager
def serving() -> Iterator[str]:
    """Start ``serve``, and hand over its address as soon as it says that it listens."""
    server = subprocess.Popen(
        [*PROGRAM, "serve", "--port", "0"], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True
    )
    assert server.stdout is not None
    try:
        yield server.stdout.readline().removeprefix("listening on ").strip()
    finally:
        server.terminate()
        server.wait()
        server.stdout.close()


def serve_to_first_answer() -> float:
    """Return the seconds from starting ``serve`` to the end of its first answer."""
    body = {"model": "any", "messages": [{"role": "user", "content": QUESTION}], "max_tokens": 32}
    began_s = time.perf_counter()
    with serving() as address:
        request = urllib.request.Request(
            f"{address}/v1/chat/completions",
            json.dumps(body).encode(),
            {"content-type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            answer.read()
        return time.perf_counter() - began_s


def serve_until_ready() -> float:
    """Return the seconds from starting ``serve`` to the line that says it listens."""
    began_s = time.perf_counter()
    with serving():
        return time.perf_counter() - began_s


def ask() -> float:
    """Return the seconds that a whole ``ask`` takes."""
    return _duration_s([*PROGRAM, "ask", QUESTION, "--max-tokens", "32"])


def show_version() -> float:
    """Return the seconds that ``--version`` takes: the cost of the command line itself."""
    return _duration_s([*PROGRAM, "--version"])


def show_window() -> float:
    """Return the seconds from starting the program to the window's first paint."""
    return _duration_s([sys.executable, "-c", _SHOW_WINDOW])


MEASURED: dict[str, Callable[[], float]] = {
    "--version": show_version,
    "ask, whole": ask,
    "serve until it listens": serve_until_ready,
    "serve to its first answer": serve_to_first_answer,
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
        timeout=120,
    )
    return time.perf_counter() - began_s


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=5, help="processes per figure")
    runs = parser.parse_args().runs
    print(f"{'':28}{'median':>9}{'worst':>9}{'target':>9}")
    for name, measure in MEASURED.items():
        measure()
        times_s = [measure() for _ in range(runs)]
        target_s = TARGETS_S.get(name)
        aim = "" if target_s is None else f"< {target_s:.1f} s"
        median_s = statistics.median(times_s)
        print(f"{name:28}{median_s:7.2f} s{max(times_s):7.2f} s{aim:>9}", flush=True)


if __name__ == "__main__":
    main()
